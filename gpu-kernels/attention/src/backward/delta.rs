//! The first launch of the gradients: the statistics that each query needs of its whole row.
//@ ptx(attention_bf16_delta, attention_f16_delta, compute_90a): ld.global.v4 == 2, .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::load_global;
use cuda_std::{kernel, thread, warp};

use super::super::panels::ROWS;
use super::args::BackwardArgs;
use common_kernels::element::Element;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Threads of a row.
const LANES: u32 = 16;
/// Elements of a vector.
const VECTOR: u32 = 8;
/// Rows of a block.
pub const BLOCK_ROWS: u32 = THREADS / LANES;

/// Writes the statistics of every query, padding included, for head sizes up to 128.
///
/// Launched with one block of [`THREADS`] threads per [`BLOCK_ROWS`] rows of all heads in the batch.
///
/// # Safety
/// The launch is as described. The tensors match their shapes and strides, and their rows start at multiples of 16 bytes.
/// The head size is a multiple of 8. No other code uses `stats`.
#[kernel(
    max_threads = 256,
    arch = "90a",
    args,
    instances(
        attention_bf16_delta = <bf16>;
        attention_f16_delta = <f16>;
    ),
)]
pub unsafe fn attention_delta<T: Element<8>>(args: BackwardArgs<T>) {
    let (tid, padded) = (thread::thread_idx_x(), args.padded());
    let row = thread::block_idx_x() * BLOCK_ROWS + tid / LANES;
    let col = tid % LANES * VECTOR;
    // SAFETY: there is a block, so there are queries and heads. It keeps a panic out of the kernel.
    unsafe { core::hint::assert_unchecked(padded != 0 && args.heads != 0) };
    let (head, query) = (row / padded, row % padded);
    let (batch, head) = (head / args.heads, head % args.heads);
    let is_query = query < args.queries;
    let mut delta = 0.0;
    // SAFETY: rows and columns lie in the tensors. All lanes reach the reduction. One thread writes a row's statistics.
    unsafe {
        if is_query && col < args.head_size {
            let out = args.out.add(args.out_strides.row(batch, query, head) + col as usize);
            let d_out = args.d_out.add(args.d_out_strides.row(batch, query, head) + col as usize);
            let (a, b) = (T::unpack(load_global(out.cast())), T::unpack(load_global(d_out.cast())));
            let mut i = 0;
            while i < a.len() {
                delta += a[i] * b[i];
                i += 1;
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
