//! The last launch of the gradients by [`super::fused`]: dQ from its sums.
//@ ptx(attention_bf16_finish, attention_f16_finish, compute_80+): .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mma::FragmentC;
use cuda_std::wgmma::Element16;
use cuda_std::{kernel, thread};

use super::args::{BackwardArgs, sum_index};
use super::key_sums::store_pair;
use common_kernels::element::Number;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Padded queries of a block.
pub const BLOCK_ROWS: u32 = 16;

/// Writes `dq`.
///
/// Launched with one block of [`THREADS`] threads per [`BLOCK_ROWS`] padded queries of all heads in the batch.
///
/// # Safety
/// The launch is as described. The tensors match their shapes and strides, and the flags hold. `sums` and `turns` hold the
/// output of [`super::fused`], or all turns are 0. No other code uses `dq`.
#[kernel(
    max_threads = 256,
    min_arch = 80,
    args,
    instances(
        attention_bf16_finish = <bf16>;
        attention_f16_finish = <f16>;
    ),
)]
pub unsafe fn attention_finish<T: Number + Element16>(args: BackwardArgs<T>) {
    let (warp, lane) = (thread::thread_idx_x() / 32, thread::thread_idx_x() % 32);
    let (first, padded) = (thread::block_idx_x() * BLOCK_ROWS, args.padded());
    // SAFETY: there is a block, so there are queries and heads. It keeps a panic out of the kernel.
    unsafe { core::hint::assert_unchecked(padded != 0 && args.heads != 0 && args.turn_queries != 0) };
    let (head, query) = (first / padded, first % padded);
    let (batch, head) = (head / args.heads, head % args.heads);
    let (row, pair) = FragmentC::position(lane, 0);
    let (row, pair) = (row as u32, pair as u32);
    // SAFETY: the rows have a turn, and sums if it is not 0. Only this lane writes these elements.
    unsafe {
        let has_sums = *args.turns.add((first / args.turn_queries) as usize) > 0;
        let mut column = 8 * warp;
        while column < args.head_size {
            let mut x = [0.0; 4];
            if has_sums {
                let (first, column) = (first as usize, column as usize);
                let from = args.sums.add(sum_index(args.sum_size as usize, first, column, lane as usize));
                x = core::array::from_fn(|i| *from.add(32 * i) * args.scale);
            }
            let store = |query: u32, values: [f32; 2]| {
                if query < args.queries {
                    let to = args.dq.add(args.dq_strides.row(batch, query, head));
                    store_pair(&args, to, column + pair, values);
                }
            };
            store(query + row, [x[0], x[1]]);
            store(query + row + 8, [x[2], x[3]]);
            column += 8 * (THREADS / 32);
        }
    }
}
