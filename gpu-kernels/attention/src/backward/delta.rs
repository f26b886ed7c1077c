//! The first launch of the gradients: the statistics that each query needs of its whole row.
//@ ptx(attention_bf16_delta, attention_f16_delta, compute_80+): ld.global.v4 == 2, .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::load_global;
use cuda_std::{grid, kernel, thread, warp};

use super::super::args::ALIGNED;
use super::super::panels::ROWS;
use super::args::{BackwardArgs, LEAST_TURN};
use common_kernels::element::Element;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Threads of a row.
const LANES: u32 = 16;
/// Elements of a vector.
const VECTOR: u32 = 8;
/// Rows of a block.
pub const BLOCK_ROWS: u32 = THREADS / LANES;
const _: () = assert!(BLOCK_ROWS == LEAST_TURN);

/// Writes the statistics of every query, padding included, and fills `turns` with zeros unless it is null.
///
/// Launched with one block of [`THREADS`] threads per [`BLOCK_ROWS`] rows of all heads in the batch, and with at least one.
///
/// # Safety
/// The launch is as described. The tensors match their shapes and strides, and the flags hold. No other code uses `stats`
/// and `turns`.
#[kernel(
    max_threads = 256,
    min_arch = 80,
    args,
    instances(
        attention_bf16_delta = <bf16>;
        attention_f16_delta = <f16>;
    ),
)]
pub unsafe fn attention_delta<T: Element<8>>(args: BackwardArgs<T>) {
    let (tid, padded) = (thread::thread_idx_x(), args.padded());
    grid::launch_dependents();
    let row = thread::block_idx_x() * BLOCK_ROWS + tid / LANES;
    if tid == 0 && !args.turns.is_null() {
        // SAFETY: `turns` has an element for each block, and one more. Only this thread writes them.
        unsafe {
            *args.turns.add(thread::block_idx_x() as usize) = 0;
            if thread::block_idx_x() == 0 {
                *args.turns.add(args.taken_index()) = 0;
            }
        }
    }
    if padded == 0 || args.heads == 0 {
        return;
    }
    let (head, query) = (row / padded, row % padded);
    let (batch, head) = (head / args.heads, head % args.heads);
    let is_query = query < args.queries;
    let mut delta = 0.0;
    // SAFETY: rows and columns lie in the tensors. All lanes reach the reduction. One thread writes a row's statistics.
    unsafe {
        if is_query {
            let out = args.out.add(args.out_strides.row(batch, query, head));
            let d_out = args.d_out.add(args.d_out_strides.row(batch, query, head));
            let mut col = tid % LANES * VECTOR;
            while col < args.head_size {
                delta += dot(&args, out.add(col as usize), d_out.add(col as usize), col);
                col += LANES * VECTOR;
            }
        }
        let delta = warp::reduce_sum_width::<f32, LANES>(u32::MAX, delta);
        if tid.is_multiple_of(LANES) {
            let mut log = f32::INFINITY;
            if is_query {
                let natural = *args.log_sum_exp.add(args.log_index(batch, head, query));
                if natural != f32::NEG_INFINITY {
                    log = natural * core::f32::consts::LOG2_E;
                }
            }
            let stats = args.stats.add(args.stat_index(batch, head, query));
            *stats = log;
            *stats.add(ROWS) = delta;
        }
    }
}

/// Returns the dot product of two rows' elements from column `col` on, at most a vector of them.
///
/// # Safety
/// The rows have the elements below the head size, and start at multiples of 16 bytes if the flags say so.
#[inline(always)]
unsafe fn dot<T: Element<8>>(args: &BackwardArgs<T>, a: *const T, b: *const T, col: u32) -> f32 {
    let mut sum = 0.0;
    // SAFETY: the elements lie in their rows.
    unsafe {
        if args.flags & ALIGNED != 0 && col + VECTOR <= args.head_size {
            let (a, b) = (T::unpack(load_global(a.cast())), T::unpack(load_global(b.cast())));
            let mut i = 0;
            while i < a.len() {
                sum += a[i] * b[i];
                i += 1;
            }
        } else {
            let count = (args.head_size - col).min(VECTOR) as usize;
            let mut i = 0;
            while i < count {
                sum += (*a.add(i)).to_f32() * (*b.add(i)).to_f32();
                i += 1;
            }
        }
    }
    sum
}
