//! Attention for a CPU: one thread computes a few queries of a head, and waits for no other.
//!
//! The thread copies a tile of keys, transposed, and a tile of values to `f32`, so that its loops run over contiguous
//! elements and become vector instructions. All its queries read the copies.

use core::ops::Range;

use cuda_std::half::{bf16, f16};
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::{GpuFloat, kernel, thread};

use super::super::args::{AttentionArgs, Tile};
use common_kernels::element::Number;

/// Queries of a thread.
pub const ROWS: usize = 16;
/// Keys of a tile.
const KEYS: usize = 32;
/// The largest number of elements of a row.
pub const MOST: usize = 256;

/// Bytes of dynamic shared memory of a thread.
pub const SHARED_BYTES: usize = size_of::<Panels>();

/// The copies and the results of a thread.
#[repr(C)]
#[derive(Clone, Copy)]
struct Panels {
    q: [[f32; MOST]; ROWS],
    out: [[f32; MOST]; ROWS],
    max: [f32; ROWS],
    sum: [f32; ROWS],
    keys: [[f32; KEYS]; MOST],
    values: [[f32; MOST]; KEYS],
}

/// Computes attention, for any head size up to [`MOST`].
///
/// Launched with blocks of one thread and [`SHARED_BYTES`] of dynamic shared memory: one block along x per [`ROWS`] queries
/// of each head of the batch.
///
/// # Safety
/// The launch is as described. The tensors match their shapes and strides, and no other code uses `out` and `log_sum_exp`.
#[kernel(
    max_threads = 1,
    cpu_only,
    args,
    instances(
        attention_f16_serial = <f16>;
        attention_bf16_serial = <bf16>;
    ),
)]
pub unsafe fn attention_serial<T: Number>(args: AttentionArgs<T>) {
    let size = args.head_size as usize;
    // SAFETY: there is a block per tile, so the batch entry exists.
    let keys_of = |batch| unsafe { args.keys_of(batch) };
    let tile = args.tile(keys_of, thread::block_idx_x(), ROWS as u32);
    let rows = ROWS.min((args.queries - tile.row) as usize);
    // SAFETY: the panels are the thread's own, and the rows lie in their tensors.
    unsafe {
        let keys = keys_of(tile.batch);
        let panels = &mut *init(dynamic_shared_mem::<Panels>(), rows, size);
        for row in 0..rows {
            let at = args.q_strides.row(tile.batch, tile.row + row as u32, tile.head);
            load(&mut panels.q[row][..size], args.q.add(at));
        }
        for first in (tile.hidden as usize..tile.visible as usize).step_by(KEYS) {
            copy_keys(&args, &tile, panels, first);
            for row in 0..rows {
                let query = tile.row + row as u32;
                let [from, to] = [keys.hidden(query), keys.visible(query)]
                    .map(|key| KEYS.min((key as usize).saturating_sub(first)));
                if from < to {
                    add_tile(panels, row, size, from..to, args.scale);
                }
            }
        }
        for row in 0..rows {
            let query = tile.row + row as u32;
            let (max, sum) = (panels.max[row], panels.sum[row]);
            let is_empty = sum == 0.0;
            let factor = if is_empty { 0.0 } else { 1.0 / sum };
            let to = args.out.add(args.out_strides.row(tile.batch, query, tile.head));
            for i in 0..size {
                *to.add(i) = T::from_f32(panels.out[row][i] * factor);
            }
            if !args.log_sum_exp.is_null() {
                let log = if is_empty { f32::NEG_INFINITY } else { max + sum.ln() };
                *args.log_sum_exp.add(args.log_index(tile.batch, tile.head, query)) = log;
            }
        }
    }
}

/// Initialises the panels that a thread reads.
///
/// # Safety
/// The panels are the thread's own memory.
#[inline(always)]
unsafe fn init(panels: *mut Panels, rows: usize, size: usize) -> *mut Panels {
    // SAFETY: the panels are the thread's memory, in which zeros are valid.
    unsafe {
        for row in 0..rows {
            (&raw mut (*panels).q[row]).cast::<f32>().write_bytes(0, size);
            (&raw mut (*panels).out[row]).cast::<f32>().write_bytes(0, size);
        }
        (&raw mut (*panels).max).write([f32::NEG_INFINITY; ROWS]);
        (&raw mut (*panels).sum).write([0.0; ROWS]);
        (&raw mut (*panels).keys).cast::<f32>().write_bytes(0, size * KEYS);
        for key in 0..KEYS {
            (&raw mut (*panels).values[key]).cast::<f32>().write_bytes(0, size);
        }
        panels
    }
}

/// Reads a row.
///
/// # Safety
/// The row has at least the elements of `to`.
#[inline(always)]
unsafe fn load<T: Number>(to: &mut [f32], from: *const T) {
    for i in 0..to.len() {
        // SAFETY: the row has at least the elements of `to`.
        to[i] = unsafe { (*from.add(i)).to_f32() };
    }
}

/// Copies the keys and values from `first` on that any of the tile's queries sees.
///
/// # Safety
/// The rows lie in their tensors.
#[inline(always)]
unsafe fn copy_keys<T: Number>(args: &AttentionArgs<T>, tile: &Tile, panels: &mut Panels, first: usize) {
    let size = args.head_size as usize;
    for key in 0..KEYS.min(tile.visible as usize - first) {
        let position = (first + key) as u32;
        // SAFETY: the key's rows lie in K and V.
        unsafe {
            let from = args.k.add(args.key_row(&args.k_strides, tile.batch, position, tile.key_head));
            for i in 0..size {
                panels.keys[i][key] = (*from.add(i)).to_f32();
            }
            let from = args.v.add(args.key_row(&args.v_strides, tile.batch, position, tile.key_head));
            load(&mut panels.values[key][..size], from);
        }
    }
}

/// Adds the keys of a tile that a query sees to its results.
#[inline(always)]
fn add_tile(panels: &mut Panels, row: usize, size: usize, seen: Range<usize>, scale: f32) {
    let mut logits = [0.0; KEYS];
    for i in 0..size {
        let (q, keys) = (panels.q[row][i], &panels.keys[i]);
        for key in 0..KEYS {
            logits[key] += q * keys[key];
        }
    }
    let mut max = panels.max[row];
    for key in 0..KEYS {
        logits[key] = if seen.contains(&key) { logits[key] * scale } else { f32::NEG_INFINITY };
        max = max.max(logits[key]);
    }
    // If all keys are -inf, every difference from 0 is -inf, and every exponential 0.
    let base = if max == f32::NEG_INFINITY { 0.0 } else { max };
    let old = (panels.max[row] - base).exp();
    let mut sum = 0.0;
    for key in seen.clone() {
        logits[key] = (logits[key] - base).exp();
        sum += logits[key];
    }
    panels.max[row] = max;
    panels.sum[row] = panels.sum[row] * old + sum;
    let out = &mut panels.out[row][..size];
    for i in 0..size {
        out[i] *= old;
    }
    for key in seen {
        let (weight, values) = (logits[key], &panels.values[key][..size]);
        for i in 0..size {
            out[i] += weight * values[i];
        }
    }
}
