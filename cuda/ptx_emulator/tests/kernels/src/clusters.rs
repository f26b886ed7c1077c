//! Blocks of a cluster that send each other what they have, and say at barriers that it is there.

use cuda_std::GpuFloat;
use cuda_std::barrier::Barrier;
use cuda_std::mem::{f32x2, f32x4};
use cuda_std::prelude::*;
use cuda_std::{bulk, cluster};

/// `out[block]` = the sum of `inp` over the blocks of its cluster up to itself, for each of `rounds` rows of the grid: a block
/// waits for the sum of the one before it, and the last one for nobody.
///
/// # Safety
/// A number for each block and round in both; 6 threads or more.
#[kernel(min_arch = 90)]
pub unsafe fn sums_along_a_cluster(inp: &[u32], out: *mut u32, rounds: u32) {
    // SAFETY: each barrier gets one arrival a phase, and the word of a block is written between them.
    unsafe {
        let (sum, full, empty) =
            (shared_array![u32; 1], shared_array![Barrier; 1], shared_array![Barrier; 1]);
        let (rank, blocks) = (cluster::block_rank(), cluster::num_blocks());
        if thread::thread_idx_x() == 0 {
            Barrier::init(full, 1);
            Barrier::init(empty, 1);
            Barrier::fence_init();
        }
        cluster::sync();
        if thread::thread_idx_x() == 5 {
            for round in 0..rounds {
                let at = (round * thread::grid_dim_x() + thread::block_idx_x()) as usize;
                let mut here = inp[at];
                if rank > 0 {
                    Barrier::wait_parity_cluster(full, round % 2);
                    here += *sum;
                    // The block before may write the next one.
                    Barrier::arrive_remote(empty, rank - 1);
                }
                if rank + 1 < blocks {
                    // The phase before the first is over.
                    Barrier::wait_parity_cluster(empty, 1 - round % 2);
                    *cluster::map_shared(sum, rank + 1) = here;
                    Barrier::arrive_remote(full, rank + 1);
                }
                *out.add(at) = here;
            }
        }
        cluster::sync();
    }
}

/// For each of `rows` rows, `out[block]` = the largest of the maxima of `inp` over the cluster and the sum of its sums, each
/// scaled by that: what a softmax exchanges, by stores to all blocks, in two buffers.
///
/// # Safety
/// A pair for each block and row in both; 16 threads or more; clusters of two blocks or more.
#[kernel(min_arch = 90)]
pub unsafe fn maxima_and_sums(inp: &[f32x2], out: *mut f32x2, rows: u32) {
    // SAFETY: each block expects the pairs of all, and reads what it has waited for.
    unsafe {
        let (sent, ready) = (shared_array![f32x2; 32], shared_array![Barrier; 2]);
        let (rank, blocks, i) = (cluster::block_rank(), cluster::num_blocks(), thread::thread_idx_x());
        if i < 2 {
            Barrier::init(ready.add(i as usize), 1);
            Barrier::fence_init();
        }
        cluster::sync();
        for row in 0..rows {
            let (buffer, parity) = ((row % 2) as usize, row / 2 % 2);
            let (sent, ready) = (sent.add(16 * buffer), ready.add(buffer));
            let at = (row * thread::grid_dim_x() + thread::block_idx_x()) as usize;
            if i == 0 {
                Barrier::arrive_expect_tx(ready, 8 * blocks);
            }
            if i < blocks {
                cluster::store_async(sent.add(rank as usize), inp[at], ready, i);
            }
            Barrier::wait_parity_cluster(ready, parity);
            if i == 0 {
                let mut all = *sent;
                for other in 1..blocks as usize {
                    let f32x2 { x, y } = *sent.add(other);
                    let largest = all.x.max(x);
                    all = f32x2 {
                        x: largest,
                        y: all.y * GpuFloat::exp2(all.x - largest) + y * GpuFloat::exp2(x - largest),
                    };
                }
                *out.add(at) = all;
            }
            // Nobody is two rows ahead of a block that still reads.
            thread::sync_threads_aligned();
        }
        cluster::sync();
    }
}

/// `out` = `inp` with the tiles of 64 numbers of each cluster taken a block further along a circle.
///
/// # Safety
/// 64 numbers for each block in both, and 64 threads.
#[kernel(min_arch = 90)]
pub unsafe fn tiles_around_a_cluster(inp: &[f32], out: *mut f32) {
    // SAFETY: one thread copies what all have written and fenced, and all wait for what comes.
    unsafe {
        let (from, to, ready) =
            (shared_array![f32x4; 16], shared_array![f32x4; 16], shared_array![Barrier; 1]);
        let (i, at) = (thread::thread_idx_x() as usize, 64 * thread::block_idx_x() as usize);
        *from.cast::<f32>().add(i) = inp[at + i];
        bulk::fence_shared();
        if i == 0 {
            Barrier::init(ready, 1);
            Barrier::fence_init();
            Barrier::arrive_expect_tx(ready, 256);
        }
        cluster::sync();
        if i == 0 {
            let next = (cluster::block_rank() + 1) % cluster::num_blocks();
            bulk::shared_to_shared(to, from, 16, ready, next);
        }
        Barrier::wait_parity_cluster(ready, 0);
        *out.add(at + i) = *to.cast::<f32>().add(i);
        cluster::sync();
    }
}

/// `out[block]` = values of 4, 8 and 16 bytes that the other block of the cluster has sent, and the first as it was before the
/// wait.
///
/// # Safety
/// 4 elements for each block, clusters of two, and one thread.
#[kernel(min_arch = 90)]
pub unsafe fn values_of_all_sizes(out: *mut f32x4) {
    // SAFETY: each block expects what the other one sends; what it reads before that is there.
    unsafe {
        let (places, ready) = (shared_array![f32x4; 3], shared_array![Barrier; 1]);
        let (rank, out) = (cluster::block_rank(), out.add(4 * thread::block_idx_x() as usize));
        for i in 0..3 {
            *places.add(i) = f32x4::splat(-1.0);
        }
        Barrier::init(ready, 1);
        cluster::sync();
        let (x, other) = (rank as f32, 1 - rank);
        cluster::store_async(places.cast::<f32>(), x + 1.0, ready, other);
        cluster::store_async(places.add(1).cast(), f32x2 { x: x + 2.0, y: x + 3.0 }, ready, other);
        cluster::store_async(
            places.add(2),
            f32x4 { x: x + 4.0, y: x + 5.0, z: x + 6.0, w: x + 7.0 },
            ready,
            other,
        );
        cluster::sync();
        *out = *places;
        Barrier::arrive_expect_tx(ready, 28);
        Barrier::wait_parity_cluster(ready, 0);
        for i in 0..3 {
            *out.add(1 + i) = *places.add(i);
        }
        cluster::sync();
    }
}
