//! Sums whose terms are shared by the blocks of a cluster.

use cuda_std::mem::f32x4;
use cuda_std::{cluster, thread};

use super::edges::Output;

/// Adds up the sums of the `blocks` blocks of a cluster for the same tile, in the order of the blocks, and writes them. Each
/// block takes every `blocks`th quad of a thread.
///
/// # Safety
/// All threads of the cluster call this, after their last copy, and `shared` has room for the tile. Rows and columns are 16
/// and 32 apart, as for [`fragments::store`](super::fragments::store), whose contract also holds for `out`.
#[inline(always)]
pub unsafe fn store<const THREADS: usize, const TM: usize, const TN: usize>(
    out: Output,
    (row, col): (usize, usize),
    sums_reg: &[[f32; TN]; TM],
    shared: *mut f32x4,
    tid: usize,
    rank: usize,
    blocks: usize,
) {
    let across = TN / 4;
    // SAFETY: no thread reads a buffer after the first barrier. Each thread writes its own quads, and others read them
    // between the barriers of the cluster.
    unsafe {
        thread::sync_threads_aligned();
        for i in 0..TM {
            for j in 0..across {
                let values: [f32; 4] = core::array::from_fn(|x| sums_reg[i][4 * j + x]);
                *shared.add((i * across + j) * THREADS + tid) = values.into();
            }
        }
        cluster::sync();
        let mut quad = rank;
        while quad < TM * across {
            let of_block =
                |block: usize| *cluster::map_shared(shared.add(quad * THREADS + tid), block as u32);
            let mut sum = of_block(0).to_array();
            for block in 1..blocks {
                let more = of_block(block).to_array();
                for x in 0..4 {
                    sum[x] += more[x];
                }
            }
            let (i, j) = (quad / across, quad % across);
            out.set_quad(row + i / 4 * 16 + i % 4, col + j * 32, sum.into());
            quad += blocks;
        }
        // No block exits while another reads its sums.
        cluster::sync();
    }
}
