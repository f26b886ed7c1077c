//! Rung 8: two blocks share B by multicast.
//!
//! The blocks of a cluster compute tiles below each other, which need the same rows of B. Each block copies one half of
//! them, and the TMA unit writes it into the shared memory of both, so L2 is read once instead of twice. The price: a stage
//! may be filled only when both blocks have read it, so consumers arrive at `empty` of both blocks. These arrivals are
//! relaxed, because only `wgmma` read the stage. An arrival that orders the thread's own writes for the other block costs
//! more than the multicast saves.
//@ ptx(matmul_08_cluster, compute_90a): barrier.cluster >= 4, mbarrier.arrive.relaxed.cluster >= 2, .local == 0
//@ ptx(matmul_08_cluster, compute_90a): cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster == 1
//@ ptx(matmul_08_cluster, compute_90a): setmaxnreg == 2, wgmma.mma_async.sync.aligned.m64n256k16 == 4

use cuda_std::barrier::Barrier;
use cuda_std::half::bf16;
use cuda_std::hint::{fewer_registers, more_registers};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{Accumulator, Panel};
use cuda_std::{bulk, cluster, kernel, tensor, thread};

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::RungShape;
use super::ladder::{LadderArgs, TERMS, multiply_step};
use super::r07_tma_store::{OutPanels, store_panels};
use common_kernels::ring::{Ring, WARPGROUP, element};
use matmul_kernels::tile_order::grouped;

const ROWS: usize = 128;
const COLS: usize = 256;
const STAGES: usize = 3;
/// Blocks of the cluster.
const BLOCKS: usize = 2;
/// Bytes of a stage, from both blocks.
const BYTES: u32 = Panel::<bf16, ROWS>::BYTES + Panel::<bf16, COLS>::BYTES;

/// The stages, their barriers, and the results of each consumer.
#[repr(C)]
struct Shared {
    a: [Panel<bf16, ROWS>; STAGES],
    b: [[Panel<bf16, { COLS / BLOCKS }>; BLOCKS]; STAGES],
    out: [OutPanels; 2],
    barriers: [Barrier; Ring::<STAGES>::BARRIERS],
}

/// Computes `out = A B^T`. Launched with clusters of two blocks along x, with the shared memory of `facts`.
///
/// # Safety
/// The arguments are as [`ladder`](super::ladder) describes, and no other code uses `out`.
#[kernel(
    max_threads = 384,
    min_blocks = 1,
    arch = "90a",
    args,
    facts: RungShape = RungShape::new([ROWS as u32, COLS as u32], 3 * WARPGROUP, size_of::<Shared>() + 1024)
        .persistent(BLOCKS as u32),
)]
pub unsafe fn matmul_08_cluster(args: LadderArgs) {
    let shared = dynamic_shared_mem_aligned::<Shared>();
    let tid = thread::thread_idx_x();
    let rank = cluster::block_rank();
    // A cluster's tile has the rows of two tiles.
    let tiles = args.tiles((BLOCKS * ROWS) as u32, COLS as u32);
    let (mut tile, clusters) = (thread::block_idx_x() / BLOCKS as u32, thread::grid_dim_x() / BLOCKS as u32);
    let row_of = |row: u32| (row * BLOCKS as u32 + rank) * ROWS as u32;
    // SAFETY: the barriers are the block's. All threads execute this; one fills the ring, and the warps that multiply use it.
    let mut ring =
        unsafe { Ring::<STAGES>::init_only((&raw mut (*shared).barriers).cast(), 8 * BLOCKS as u32) };
    // SAFETY: all threads of the cluster execute this. No block uses another's barriers before they are initialised.
    unsafe { cluster::sync() };
    if tid / WARPGROUP == 0 {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { fewer_registers::<40>() };
        while tid == 0 && tile < tiles[0] * tiles[1] {
            let [row, col] = grouped(tile, tiles);
            let half = (COLS / BLOCKS) as u32;
            let [row, col] = [row_of(row), col * COLS as u32 + rank * half].map(|at| at as i32);
            for step in 0..args.steps() {
                let full = ring.fill(BYTES);
                let k = (step * TERMS) as i32;
                // SAFETY: the stage is empty, and expects the bytes of both panels.
                unsafe {
                    let a = element(&raw mut (*shared).a, ring.stage());
                    tensor::global_to_shared(a, &args.a_map, [k, row], full);
                    let b = element(element(&raw mut (*shared).b, ring.stage()), rank as usize);
                    tensor::global_to_shared_multicast(b, &args.b_map, [k, col], full, 0b11);
                }
                ring.advance();
            }
            tile += clusters;
        }
    } else {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { more_registers::<232>() };
        let consumer = tid / WARPGROUP - 1;
        // SAFETY: there are two consumers.
        let panels = unsafe { element(&raw mut (*shared).out, consumer as usize) };
        while tile < tiles[0] * tiles[1] {
            let [row, col] = grouped(tile, tiles);
            let mut pending = Accumulator::<{ COLS / 2 }>::ZERO.start();
            let mut before = 0;
            for step in 0..args.steps() {
                ring.wait_full();
                // SAFETY: all threads of the warpgroup execute this. The stage is full until all warps have released it.
                unsafe {
                    let a = Panel::k_major::<64>(element(&raw mut (*shared).a, ring.stage()), 64 * consumer);
                    // The halves are adjacent, so they form one panel of all rows.
                    let b = element(&raw mut (*shared).b, ring.stage()).cast::<Panel<bf16, COLS>>();
                    let b = Panel::k_major::<COLS>(b, 0);
                    multiply_step(&mut pending, step > 0, a, b);
                }
                if step > 0 {
                    ring.release_stage_in_all(before, BLOCKS as u32);
                }
                before = ring.stage();
                ring.advance();
            }
            // SAFETY: all threads of the warpgroup execute this.
            let sums = unsafe { pending.finish::<0>() };
            if args.steps() > 0 {
                ring.release_stage_in_all(before, BLOCKS as u32);
            }
            let at = [col * COLS as u32, row_of(row) + 64 * consumer].map(|at| at as i32);
            // SAFETY: all threads of the warpgroup execute this, and only they use the panels.
            unsafe { store_panels(panels, &args.out_map, &sums, at, 1 + consumer) };
            tile += clusters;
        }
        if tid.is_multiple_of(WARPGROUP) {
            bulk::wait_read::<0>();
        }
    }
    // SAFETY: all threads of the cluster execute this, after the last arrival at another block's barriers.
    unsafe { cluster::sync() };
}
