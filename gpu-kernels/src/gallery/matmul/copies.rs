//! Copies that run ahead of the sums.
//!
//! Since `warp` operands go from global to shared memory without a stop in registers, into one of four buffers: while the block
//! multiplies the terms of one, those of the next three are on their way. One barrier for eight terms is left. A thread also
//! loads from shared memory what the next term needs before it multiplies this one's.
//!
//! A copy of four bytes puts each element of A where it lies transposed, and needs no alignment; B comes 16 bytes at a time
//! where all its rows begin at such a multiple. In the kernels for clusters two to eight blocks share the terms of a tile's sums,
//! and add theirs in the order of the blocks: for products of fewer tiles than the GPU has room for. Requires compute
//! capability 8.0, with clusters 9.0.
//@ ptx(matmul_async_128x128, compute_80+): bar.sync == 2, cp.async.ca >= 16, cp.async.cg >= 4, cp.async.wait_group == 2
//@ ptx(matmul_async_128x128, compute_80+): fma.rn.f32 == 512, ld.shared.v4 == 36, st.shared == 0, .local == 0
//@ ptx(matmul_async_128x128_any, compute_80+): fma.rn.f32 == 512, cp.async.cg == 0, .local == 0
//@ ptx(matmul_async_256x128, compute_80+): fma.rn.f32 == 1024, ld.shared.v4 == 54, .local == 0
//@ ptx(matmul_async_128x128_cluster, matmul_async_64x64_cluster, compute_90+): barrier.cluster == 4, mapa >= 1, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::Arguments;
#[cfg(not(target_arch = "nvptx64"))]
use super::choice::Tiles;
use super::edges::{Matrix, Output};
use super::fragments::{add, for_each_term, lane_place, pitch, quads, store};
use super::split;
use super::stages::{Copies, DEPTH, STAGES, stage_len};
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::{cluster, kernel, pipeline, thread};

/// `out = a b`, a block or a cluster of blocks for each tile of `ROWS` x `COLS` sums, `TM` x `TN` a thread.
///
/// Launched on blocks of `THREADS` threads with the shared memory that the facts say, columns of tiles along x, with
/// clusters as many blocks for each, and rows along y.
///
/// # Safety
/// The launch is as said; `a` holds `m * k` elements, `b` `k * n`, and `out` `m * n`, which nobody else uses. `b` and `out`
/// begin at a multiple of 16 bytes; with a `WIDTH` of 4, `n` is a multiple of four.
#[kernel(
    with(
        THREADS = ROWS / TM * (COLS / TN),
        A = ROWS * 8 / THREADS,
        B = COLS * 8 / WIDTH / THREADS,
    ),
    max_threads = THREADS,
    min_arch = 80,
    args = Arguments,
    facts: Tiles = Tiles::with_copies([ROWS, COLS], THREADS, WIDTH, CLUSTER, resident),
    instances(
        ROWS = 128, COLS = 128, TM = 8, TN = 8, CLUSTER = false, min_blocks = 2 {
            matmul_async_128x128 = <4>, resident = 2;
            matmul_async_128x128_any = <1>, resident = 2;
        }
        ROWS = 256, COLS = 128, TM = 16, TN = 8, CLUSTER = false, min_blocks = 1 {
            matmul_async_256x128 = <4>, resident = 1;
            matmul_async_256x128_any = <1>, resident = 1;
        }
        ROWS = 64, COLS = 64, TM = 8, TN = 4, CLUSTER = false, min_blocks = 5 {
            matmul_async_64x64 = <4>, resident = 5;
            matmul_async_64x64_any = <1>, resident = 5;
        }
        ROWS = 128, COLS = 128, TM = 8, TN = 8, CLUSTER = true, min_blocks = 2 {
            matmul_async_128x128_cluster = <4>, min_arch = 90, resident = 2;
            matmul_async_128x128_any_cluster = <1>, min_arch = 90, resident = 2;
        }
        ROWS = 64, COLS = 64, TM = 8, TN = 4, CLUSTER = true, min_blocks = 5 {
            matmul_async_64x64_cluster = <4>, min_arch = 90, resident = 5;
            matmul_async_64x64_any_cluster = <1>, min_arch = 90, resident = 5;
        }
    ),
)]
pub unsafe fn matmul_async<
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
    out: *mut f32,
    a: *const f32,
    b: *const f32,
    m: u32,
    n: u32,
    k: u32,
) {
    let a = Matrix { elements: a, rows: m, cols: k };
    let b = Matrix { elements: b, rows: k, cols: n };
    let out = Output { elements: out, rows: m, cols: n };
    let (rank, blocks) = match CLUSTER {
        true => (cluster::block_rank() as usize, cluster::num_blocks() as usize),
        false => (0, 1),
    };
    let tid = thread::thread_idx_x() as usize;
    let origin = (thread::block_idx_y() as usize * ROWS, thread::block_idx_x() as usize / blocks * COLS);
    let (warp, (down, across)) = (tid / 32, lane_place(tid % 32));
    let warps_across = COLS / (8 * TN);
    let row = warp / warps_across * (4 * TM) + down * 4;
    let col = warp % warps_across * (8 * TN) + across * 4;

    let slabs = (k as usize).div_ceil(DEPTH).div_ceil(blocks);
    let terms = [rank * slabs * DEPTH, (k as usize).min((rank + 1) * slabs * DEPTH)];
    let mut copies = Copies::<A, B, WIDTH>::new::<THREADS, ROWS, COLS>(a, b, origin, terms, tid);
    let shared = dynamic_shared_mem::<f32>();
    let stage_len = const { stage_len(ROWS, COLS) };
    // SAFETY: the four buffers fit the shared memory. A buffer is read after all threads have waited for their copies to it
    // and met at a barrier, and is written again after they have met at the next one. All threads come to all barriers.
    unsafe {
        for stage in 0..STAGES - 1 {
            copies.start(shared.add(stage * stage_len));
        }
        let load = |stage: usize, kk: usize| -> ([f32; TM], [f32; TN]) {
            let a_shared = shared.add(stage * stage_len + kk * pitch(ROWS) + row);
            let b_shared = shared.add(stage * stage_len + DEPTH * pitch(ROWS) + kk * COLS + col);
            (quads(a_shared, 16), quads(b_shared, 32))
        };
        pipeline::wait_prior::<{ STAGES - 2 }>();
        thread::sync_threads_aligned();
        let mut sums_reg = [[0.0f32; TN]; TM];
        let mut stage = 0;
        let mut now = load(stage, 0);
        for _ in 0..slabs {
            let (before, after) = ((stage + STAGES - 1) % STAGES, (stage + 1) % STAGES);
            for_each_term!(kk, {
                if kk == DEPTH - 1 {
                    pipeline::wait_prior::<{ STAGES - 2 }>();
                    thread::sync_threads_aligned();
                    stage = after;
                }
                let next = load(stage, (kk + 1) % DEPTH);
                if kk == 0 {
                    copies.start(shared.add(before * stage_len));
                }
                add(&mut sums_reg, now.0, now.1);
                now = next;
            });
        }
        pipeline::wait_all();
        let place = (origin.0 + row, origin.1 + col);
        match CLUSTER {
            true => split::store::<THREADS, TM, TN>(out, place, &sums_reg, shared.cast(), tid, rank, blocks),
            false => store(out, place, [16, 32], &sums_reg),
        }
    }
}
