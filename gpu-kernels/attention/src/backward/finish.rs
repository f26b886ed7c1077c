//! The last launch of the gradients by [`super::fused`] and [`super::warpgroups`]: dQ from its sums.
//@ ptx(attention_bf16_finish, attention_f16_finish, compute_80+): .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::{f32x4, load_global, store_global, u32x4};
use cuda_std::mma::FragmentC;
use cuda_std::wgmma::Element16;
use cuda_std::{kernel, thread};

use super::args::{BackwardArgs, ROWS_IN_ORDER, row_index, sum_index};
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
/// output of [`super::fused`] or [`super::warpgroups`], or all turns are 0. No other code uses `dq`.
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
    unsafe {
        core::hint::assert_unchecked(padded != 0 && args.heads != 0);
        core::hint::assert_unchecked(args.turn_queries != 0 && args.sum_size != 0);
    }
    let (head, query) = (first / padded, first % padded);
    let (batch, head) = (head / args.heads, head % args.heads);
    let (row, pair) = FragmentC::position(lane, 0);
    let (row, pair) = (row as u32, pair as u32);
    // SAFETY: the rows have a turn, and sums if it is not 0. Only this lane writes these elements.
    unsafe {
        let has_sums = *args.turns.add((first / args.turn_queries) as usize) > 0;
        if args.flags & ROWS_IN_ORDER != 0 {
            return store_rows(&args, [batch, head, query], first as usize, has_sums);
        }
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

/// Writes rows from sums in [`ROWS_IN_ORDER`], 16 bytes at a time. The position is batch entry, head and first query.
///
/// # Safety
/// The rows are aligned and have sums if it says so. Only this block writes them.
#[inline(always)]
unsafe fn store_rows<T: Number + Element16>(
    args: &BackwardArgs<T>,
    [batch, head, query]: [u32; 3],
    first: usize,
    has_sums: bool,
) {
    let (size, mut i) = (args.sum_size as usize, thread::thread_idx_x() as usize);
    while i < BLOCK_ROWS as usize * size / 8 {
        let (row, column) = (8 * i / size, 8 * i % size);
        if query + (row as u32) < args.queries && column < args.head_size as usize {
            // SAFETY: the row has these elements. Only this thread writes them.
            unsafe {
                let mut x = [0.0; 8];
                if has_sums {
                    let from = args.sums.add(row_index(size, first + row, column));
                    let [a, b]: [f32x4; 2] = [load_global(from.cast()), load_global(from.add(4).cast())];
                    x = [a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w].map(|x| x * args.scale);
                }
                let to = args.dq.add(args.dq_strides.row(batch, query + row as u32, head) + column);
                let pair = |i: usize| T::pack([x[2 * i], x[2 * i + 1]]);
                store_global(to.cast(), u32x4::new(pair(0), pair(1), pair(2), pair(3)));
            }
        }
        i += THREADS as usize;
    }
}
