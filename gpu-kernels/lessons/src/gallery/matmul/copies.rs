//! Copies that run ahead of the sums.
//!
//! Since `warp` operands go from global to shared memory without passing through registers, into one of four buffers: while
//! the block multiplies the terms of one, the copies of the next three are in flight. Only one barrier per eight terms is
//! left. A thread also loads the next term's operands from shared memory before it multiplies this one's.
//!
//! A copy of four bytes puts each element of A at its transposed position, without alignment. B is copied 16 bytes at a time
//! if all its rows begin at multiples of 16 bytes. The kernels are in [`super::tuned`]. Requires compute capability 8.0.

use super::edges::{Matrix, Output};
use super::fragments::{add, for_each_term, lane_place, pitch, quads, store};
use super::split;
use super::stages::{Copies, DEPTH, STAGES, stage_len};
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::{cluster, hint, pipeline, thread};

/// Computes `out = a b` for the tile of the block or, with `CLUSTER`, cluster: `ROWS` x `COLS` sums, `TM` x `TN` per thread.
///
/// # Safety
/// Same as for the kernels; all threads of the block or cluster call this.
#[inline(always)]
pub(super) unsafe fn product<
    const ROWS: usize,
    const COLS: usize,
    const TM: usize,
    const TN: usize,
    const WIDTH: usize,
    const CLUSTER: bool,
    const THREADS: usize,
    const A: usize,
    const B: usize,
>(
    out: Output,
    a: Matrix,
    b: Matrix,
) {
    let (rank, blocks) = match CLUSTER {
        true => (cluster::block_rank() as usize, cluster::num_blocks() as usize),
        false => (0, 1),
    };
    let tid = thread::thread_idx_x() as usize;
    let origin = (thread::block_idx_y() as usize * ROWS, thread::block_idx_x() as usize / blocks * COLS);
    let place = |tid: usize| {
        let (warp, (down, across)) = (tid / 32, lane_place(tid % 32));
        let warps_across = COLS / (8 * TN);
        (warp / warps_across * (4 * TM) + down * 4, warp % warps_across * (8 * TN) + across * 4)
    };
    let (row, col) = place(tid);

    let slabs = (b.rows as usize).div_ceil(DEPTH).div_ceil(blocks);
    let terms = [rank * slabs * DEPTH, (b.rows as usize).min((rank + 1) * slabs * DEPTH)];
    let mut copies = Copies::<A, B, WIDTH>::new::<THREADS, ROWS, COLS>(a, b, origin, terms, tid);
    let shared = dynamic_shared_mem::<f32>();
    let stage_bytes = const { 4 * stage_len(ROWS, COLS) as u32 };
    // SAFETY: the four buffers fit the shared memory. A buffer is read after all threads have waited for their copies to it
    // and synchronised, and is written again after they have synchronised once more. All threads reach all barriers.
    unsafe {
        for stage in 0..STAGES as u32 - 1 {
            copies.start::<THREADS, COLS>(shared.into(), stage * stage_bytes);
        }
        let load = |stage: u32, kk: usize| -> ([f32; TM], [f32; TN]) {
            let stage = shared.byte_add(stage as usize);
            let a_shared = stage.add(kk * pitch(ROWS) + row);
            let b_shared = stage.add(DEPTH * pitch(ROWS) + kk * COLS + col);
            (quads(a_shared, 16), quads(b_shared, 32))
        };
        pipeline::wait_prior::<{ STAGES - 2 }>();
        thread::sync_threads_aligned();
        let mut sums_reg = [[0.0f32; TN]; TM];
        // The buffer that is read, and the buffer before it.
        let (mut stage, mut free) = (0, (STAGES as u32 - 1) * stage_bytes);
        let mut now = load(stage, 0);
        for _ in 0..slabs {
            let after = if stage == (STAGES as u32 - 1) * stage_bytes { 0 } else { stage + stage_bytes };
            for_each_term!(kk, {
                if kk == DEPTH - 1 {
                    pipeline::wait_prior::<{ STAGES - 2 }>();
                    thread::sync_threads_aligned();
                }
                let next = load(if kk == DEPTH - 1 { after } else { stage }, (kk + 1) % DEPTH);
                if kk == 0 {
                    copies.start::<THREADS, COLS>(shared.into(), free);
                }
                add(&mut sums_reg, now.0, now.1);
                now = next;
            });
            (free, stage) = (stage, after);
        }
        pipeline::wait_all();
        // Without `opaque`, the compiler would keep the place in registers all the time.
        let (row, col) = place(hint::opaque(tid));
        let place = (origin.0 + row, origin.1 + col);
        match CLUSTER {
            true => split::store::<THREADS, TM, TN>(out, place, &sums_reg, shared.cast(), tid, rank, blocks),
            false => store(out, place, [16, 32], &sums_reg),
        }
    }
}
