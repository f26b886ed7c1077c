//! Rows that a block or a cluster holds in shared memory.
//!
//! Like [`forward_staged`](crate::forward_staged), but each block has a part of two matrices, and blocks send each
//! other their sums.

use cuda_std::mem::u32x4;
use cuda_std::warp::reduce_sum_width;
use cuda_std::{cluster, thread};

use super::rows::{BackwardArgs, Rows, sum_of_row};
use crate::row::{Part, Row};
use crate::stage::{Stage, piece_len};
use common_kernels::element::Element;

/// Vectors that a thread adds up at a time, each in its own sum.
const AT_ONCE: usize = 4;

/// Computes the gradient of the block's part of a row.
///
/// # Safety
/// Same as for the kernels; `dynamic` is the launch's dynamic shared memory; `shared` has an element per warp.
#[inline(always)]
pub(super) unsafe fn gradient<T, const N: usize, const BLOCK: usize>(
    dynamic: *mut u32x4,
    shared: *mut f32,
    args: BackwardArgs<T>,
) where
    T: Element<N>,
{
    let tid = thread::thread_idx_x() as usize;
    let part = Part { rank: cluster::block_rank(), parts: cluster::num_blocks() };
    let row = thread::block_idx_x() as usize / part.parts as usize;
    // SAFETY: the kernel's contract; all threads of the block execute this and everything below. Each thread writes its
    // elements after the whole part has been read.
    unsafe {
        let stage = Stage::<f32>::new(dynamic, part, 2);
        let rows = Rows::<T, N, BLOCK>::new(args, row, part);
        let len = rows.dy.part_len();
        let (dy_shared, y_shared) = (stage.vectors, stage.vectors.add(len));
        let piece = piece_len::<BLOCK, AT_ONCE>(len);
        Row::fetch::<N, 2>([rows.dy, rows.y], [dy_shared, y_shared], piece, stage.pieces);
        args.prefetch(row, 1, part);
        let [dy, y] = rows.load_edges();

        let mut sums = [0.0; AT_ONCE];
        sums[0] = rows.add(0.0, dy, y);
        stage.for_each_piece(len, piece, |first, len| {
            for at in (0..len).step_by(AT_ONCE * BLOCK) {
                for i in 0..AT_ONCE {
                    let vector = at + i * BLOCK + tid;
                    if vector < len {
                        let [dy, y] = [dy_shared, y_shared].map(|of| T::unpack(*of.add(first + vector)));
                        sums[i] = rows.add(sums[i], dy, y);
                    }
                }
            }
        });
        let mut sum = sum_of_row::<BLOCK, 32>(shared, (sums[0] + sums[1]) + (sums[2] + sums[3]));
        if part.parts > 1 {
            sum = reduce_sum_width::<f32, 16>(u32::MAX, stage.others.swap(sum, 0.0));
        }

        for (i, vector) in (tid..len).step_by(BLOCK).enumerate() {
            rows.store(i, sum, *dy_shared.add(vector), *y_shared.add(vector));
        }
        rows.store_edges(sum, [dy, y]);
    }
}
