//! The gradients on a CPU: one thread computes those of a few queries or keys, and waits for no other.
//!
//! A thread copies tiles of rows to `f32`. Its loops run over the contiguous elements of two rows, and become vector
//! instructions.

use core::ops::Range;

use cuda_std::half::{bf16, f16};
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::{GpuFloat, kernel, thread};

use super::super::args::Strides;
use super::super::panels;
use super::args::BackwardArgs;
use common_kernels::element::Number;

/// Queries, or keys, of a thread.
pub const ROWS: usize = 16;
/// The largest number of elements of a row.
pub const MOST: usize = 256;
/// Independent partial sums of a dot product.
const LANES: usize = 16;

/// Bytes of dynamic shared memory of a thread.
pub const SHARED_BYTES: usize = 6 * size_of::<Rows>();

/// A tile of rows, padded with zeros.
type Rows = [[f32; MOST]; ROWS];

/// Computes the gradient `dq`, and the statistics of the queries.
///
/// Launched with blocks of one thread and [`SHARED_BYTES`] of dynamic shared memory: one block along x per [`ROWS`] queries
/// of each head of the batch.
///
/// # Safety
/// The launch is as described. The tensors match their shapes and strides, and no other code uses `dq` and `stats`.
#[kernel(
    max_threads = 1,
    cpu_only,
    args,
    instances(
        attention_f16_dq_serial = <f16>;
        attention_bf16_dq_serial = <bf16>;
    ),
)]
pub unsafe fn attention_dq_serial<T: Number>(args: BackwardArgs<T>) {
    let tile = args.query_tile(thread::block_idx_x(), ROWS as u32);
    let rows = ROWS.min((args.queries - tile.row) as usize);
    let size = args.head_size as usize;
    // SAFETY: the tiles are the thread's own, and the rows lie in their tensors.
    unsafe {
        let [q, d_out, dq, k, v, out] = tiles();
        let of = |position: u32| [tile.batch, position, tile.head];
        load(q, args.q, &args.q_strides, of(tile.row), rows, size);
        load(d_out, args.d_out, &args.d_out_strides, of(tile.row), rows, size);
        load(out, args.out, &args.out_strides, of(tile.row), rows, size);
        let mut stats = [[0.0; 2]; ROWS];
        for row in 0..rows {
            let query = tile.row + row as u32;
            let log = *args.log_sum_exp.add(args.log_index(tile.batch, tile.head, query));
            let log = if log == f32::NEG_INFINITY { f32::INFINITY } else { log };
            stats[row] = [log, dot(&d_out[row], &out[row], size)];
            let at = args.stats.add(args.stat_index(tile.batch, tile.head, query));
            [*at, *at.add(panels::ROWS)] = stats[row];
        }
        for first in (tile.hidden..tile.visible).step_by(ROWS) {
            let of_key = [tile.batch, first, tile.key_head];
            let count = ROWS.min((tile.visible - first) as usize);
            load(k, args.k, &args.k_strides, of_key, count, size);
            load(v, args.v, &args.v_strides, of_key, count, size);
            for row in 0..rows {
                let query = tile.row + row as u32;
                let [log, delta] = stats[row];
                for key in seen(&args, query, first, count) {
                    let p = (args.scale * dot(&q[row], &k[key], size) - log).exp();
                    let ds = p * (dot(&d_out[row], &v[key], size) - delta);
                    add(&mut dq[row], ds, &k[key], size);
                }
            }
        }
        store(dq, args.dq, &args.dq_strides, of(tile.row), (rows, size, args.scale));
    }
}

/// Computes the gradients `dk` and `dv`.
///
/// Launched with blocks of one thread and [`SHARED_BYTES`] of dynamic shared memory: one block along x per [`ROWS`] keys of
/// each head of K and V in the batch.
///
/// # Safety
/// The launch is as described. The tensors match their shapes and strides, `stats` holds the output of
/// `attention_dq_serial`, and no other code uses `dk` and `dv`.
#[kernel(
    max_threads = 1,
    cpu_only,
    args,
    instances(
        attention_f16_dkv_serial = <f16>;
        attention_bf16_dkv_serial = <bf16>;
    ),
)]
pub unsafe fn attention_dkv_serial<T: Number>(args: BackwardArgs<T>) {
    let tile = args.key_tile(thread::block_idx_x(), ROWS as u32);
    let keys = ROWS.min((args.keys - tile.first) as usize);
    let end = args.end_of_queries(tile.first + keys as u32 - 1);
    let size = args.head_size as usize;
    // SAFETY: the tiles are the thread's own, and the rows lie in their tensors.
    unsafe {
        let [k, v, dk, dv, q, d_out] = tiles();
        let of_key = [tile.batch, tile.first, tile.head];
        load(k, args.k, &args.k_strides, of_key, keys, size);
        load(v, args.v, &args.v_strides, of_key, keys, size);
        for head in tile.head * args.group..(tile.head + 1) * args.group {
            for first in (args.first_query(tile.first)..end).step_by(ROWS) {
                let of = [tile.batch, first, head];
                let count = ROWS.min((end - first) as usize);
                load(q, args.q, &args.q_strides, of, count, size);
                load(d_out, args.d_out, &args.d_out_strides, of, count, size);
                for row in 0..count {
                    let query = first + row as u32;
                    let at = args.stats.add(args.stat_index(tile.batch, head, query));
                    let [log, delta] = [*at, *at.add(panels::ROWS)];
                    for key in seen(&args, query, tile.first, keys) {
                        let p = (args.scale * dot(&q[row], &k[key], size) - log).exp();
                        let ds = p * (dot(&d_out[row], &v[key], size) - delta);
                        add(&mut dv[key], p, &d_out[row], size);
                        add(&mut dk[key], ds, &q[row], size);
                    }
                }
            }
        }
        store(dk, args.dk, &args.dk_strides, of_key, (keys, size, args.scale));
        store(dv, args.dv, &args.dv_strides, of_key, (keys, size, 1.0));
    }
}

/// Returns which of the `count` keys from `first` on a query sees.
#[inline(always)]
fn seen<T>(args: &BackwardArgs<T>, query: u32, first: u32, count: usize) -> Range<usize> {
    let keys = args.all_keys();
    let [from, to] = [keys.hidden(query), keys.visible(query)];
    from.saturating_sub(first) as usize..count.min(to.saturating_sub(first) as usize)
}

/// Returns the thread's tiles, filled with zeros.
///
/// # Safety
/// One thread of the block calls this, once.
#[inline(always)]
unsafe fn tiles() -> [&'static mut Rows; 6] {
    let first = dynamic_shared_mem::<Rows>();
    core::array::from_fn(|i| {
        let tile = first.wrapping_add(i);
        // SAFETY: the launch brings the memory, and zeros are valid.
        unsafe {
            tile.cast::<f32>().write_bytes(0, ROWS * MOST);
            &mut *tile
        }
    })
}

/// Reads rows; the position is batch entry, first position and head.
///
/// # Safety
/// The rows lie in the tensor.
#[inline(always)]
unsafe fn load<T: Number>(
    to: &mut Rows,
    from: *const T,
    strides: &Strides,
    [batch, position, head]: [u32; 3],
    count: usize,
    size: usize,
) {
    for row in 0..count {
        // SAFETY: the rows lie in their tensors.
        unsafe {
            let from = from.add(strides.row(batch, position + row as u32, head));
            for i in 0..size {
                to[row][i] = (*from.add(i)).to_f32();
            }
        }
    }
}

/// Writes rows times `scale`; the position is batch entry, first position and head.
///
/// # Safety
/// The rows lie in the tensor, and no other code uses them.
#[inline(always)]
unsafe fn store<T: Number>(
    from: &Rows,
    to: *mut T,
    strides: &Strides,
    [batch, position, head]: [u32; 3],
    (count, size, scale): (usize, usize, f32),
) {
    for row in 0..count {
        // SAFETY: the rows lie in their tensors.
        unsafe {
            let to = to.add(strides.row(batch, position + row as u32, head));
            for i in 0..size {
                *to.add(i) = T::from_f32(from[row][i] * scale);
            }
        }
    }
}

/// Returns the dot product of two rows, which are padded with zeros.
#[inline(always)]
fn dot(a: &[f32; MOST], b: &[f32; MOST], size: usize) -> f32 {
    let mut sums = [0.0; LANES];
    for first in (0..size).step_by(LANES) {
        for i in 0..LANES {
            sums[i] += a[first + i] * b[first + i];
        }
    }
    let mut sum = 0.0;
    for of_lane in sums {
        sum += of_lane;
    }
    sum
}

/// Adds a row times `x`.
#[inline(always)]
fn add(to: &mut [f32; MOST], x: f32, row: &[f32; MOST], size: usize) {
    for i in 0..size {
        to[i] += x * row[i];
    }
}
