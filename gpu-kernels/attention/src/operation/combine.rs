//! The second launch of an attention whose keys were split: adds up the partial results of the splits.
//@ ptx(attention_bf16_combine, attention_f16_combine, compute_80+): .local == 0, bar.sync == 2

use cuda_std::half::{bf16, f16};
use cuda_std::mem::{f32x2, load_global};
use cuda_std::{grid, kernel, shared_array, thread, warp};

use super::super::args::{AttentionArgs, Row};
use super::online::{Total, rescale};
use super::serial::MOST;
use common_kernels::element::Number;

/// Threads of a block.
pub const THREADS: u32 = 512;
/// The largest number of splits.
pub const MOST_SPLITS: u32 = 256;
/// Threads that add up the same splits, with one column or two each.
const COLS: usize = 128;
/// Parts of the splits; different threads add up each part.
const PARTS: usize = THREADS as usize / COLS;
/// Loads that a thread has in flight together.
const AT_ONCE: u32 = 8;

/// Combines the results of a row from its `args.splits` splits, at most [`MOST_SPLITS`], in the order of the splits.
///
/// Launched with one block of [`THREADS`] threads per query of each head of the batch.
///
/// # Safety
/// The launch is as described. `args.sums` has the partial results. The tensors match their shapes and strides, and no other
/// code uses `out` and `log_sum_exp`.
#[kernel(
    max_threads = 512,
    min_arch = 80,
    args,
    instances(
        attention_bf16_combine = <bf16>;
        attention_f16_combine = <f16>;
    ),
)]
pub unsafe fn attention_combine<T: Number>(args: AttentionArgs<T>) {
    let factors = shared_array![f32; MOST_SPLITS as usize];
    let parts = shared_array![f32; PARTS * MOST];
    let tid = thread::thread_idx_x() as usize;
    let (part, lane) = (tid / COLS, tid as u32 % 32);
    let index = thread::block_idx_x();
    let size = args.head_size as usize;
    let factor = args.scale * core::f32::consts::LOG2_E;
    grid::wait_for_dependencies();
    let total_of = |split: u32| {
        // SAFETY: the sums hold the totals of all splits.
        let pair: f32x2 = unsafe { load_global(args.sums.add(args.total_index(split, index)).cast()) };
        let [max, sum] = pair.to_array();
        Total { max, sum }
    };
    let mut total = Total { max: f32::NEG_INFINITY, sum: 0.0 };
    let mut split = lane;
    while split < args.splits {
        total.max = total.max.max(total_of(split).max);
        split += 32;
    }
    // SAFETY: all lanes of the warp execute this.
    total.max = unsafe { warp::reduce_max(total.max) };
    let mut split = lane;
    while split < args.splits {
        let of_split = total_of(split);
        let weight = rescale(of_split.max, total.max, factor);
        total.sum += weight * of_split.sum;
        if tid < 32 {
            // SAFETY: there are at most as many splits as factors, and only this lane writes the split's.
            unsafe { *factors.add(split as usize) = weight };
        }
        split += 32;
    }
    // SAFETY: all lanes of the warp, and all threads of the block, execute this.
    unsafe {
        total.sum = warp::reduce_sum(total.sum);
        thread::sync_threads_aligned();
    }
    let mut col = tid % COLS;
    while col < size {
        let mut sum = 0.0;
        let mut split = part as u32;
        while split < args.splits {
            let (mut weights, mut results) = ([0.0; AT_ONCE as usize], [0.0; AT_ONCE as usize]);
            let mut i = 0;
            while i < AT_ONCE {
                let split = split + i * PARTS as u32;
                // SAFETY: each split has a factor. A split without keys has the factor 0, and no results.
                unsafe {
                    let weight = if split < args.splits { *factors.add(split as usize) } else { 0.0 };
                    if weight != 0.0 {
                        weights[i as usize] = weight;
                        results[i as usize] = *args.sums.add(args.results_index(split, index) + col);
                    }
                }
                i += 1;
            }
            let mut i = 0;
            while i < AT_ONCE as usize {
                sum += weights[i] * results[i];
                i += 1;
            }
            split += AT_ONCE * PARTS as u32;
        }
        // SAFETY: only this thread writes the part's sum of the column.
        unsafe { *parts.add(part * MOST + col) = sum };
        col += COLS;
    }
    // SAFETY: all threads of the block execute this.
    unsafe { thread::sync_threads_aligned() };
    let Row { query, head, batch, .. } = args.row(index);
    let [last, log] = total.finish(args.scale);
    if tid < size {
        // SAFETY: the parts are complete, and only this thread writes the element.
        unsafe {
            let mut sum = 0.0;
            let mut part = 0;
            while part < PARTS {
                sum += *parts.add(part * MOST + tid);
                part += 1;
            }
            *args.out.add(args.out_strides.row(batch, query, head) + tid) = T::from_f32(sum * last);
        }
    }
    if tid == 0 && !args.log_sum_exp.is_null() {
        // SAFETY: the query has a logarithm, and only this thread writes it.
        unsafe { *args.log_sum_exp.add(args.log_index(batch, head, query)) = log };
    }
}
