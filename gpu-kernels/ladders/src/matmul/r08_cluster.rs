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
use cuda_std::wgmma::{self, Accumulator, Panel};
use cuda_std::{bulk, cluster, kernel, tensor, thread};

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::RungShape;
use super::ladder::{GROUP, LadderArgs, Ring, TERMS, WARPGROUP, arrive_in_all, element, init_barriers};
use super::r07_tma_store::{OutPanels, store_panels};
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
    full: [Barrier; STAGES],
    empty: [Barrier; STAGES],
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
    let (first, clusters) = (thread::block_idx_x() / BLOCKS as u32, thread::grid_dim_x() / BLOCKS as u32);
    let row_of = |row: u32| (row * BLOCKS as u32 + rank) * ROWS as u32;
    // SAFETY: as in rung 4, for the stages of both blocks: each has its own barriers, and the consumers of both arrive at
    // `empty` of both. The blocks synchronise before the first copy and after the last arrival.
    unsafe {
        let full = (&raw mut (*shared).full).cast::<Barrier>();
        let empty = (&raw mut (*shared).empty).cast::<Barrier>();
        init_barriers(full, empty, STAGES as u32, 8 * BLOCKS as u32);
        cluster::sync();
        let mut ring = Ring::<{ STAGES as u32 }>::FIRST;
        let mut tile = first;
        if tid / WARPGROUP == 0 {
            fewer_registers::<40>();
            while tid == 0 && tile < tiles[0] * tiles[1] {
                let [row, col] = grouped::<GROUP>(tile, tiles);
                let half = (COLS / BLOCKS) as u32;
                let [row, col] = [row_of(row), col * COLS as u32 + rank * half].map(|at| at as i32);
                for step in 0..args.steps() {
                    let (stage, k) = (ring.stage as usize, (step * TERMS) as i32);
                    Barrier::wait_parity(empty.add(stage), ring.parity ^ 1);
                    let full = full.add(stage);
                    Barrier::arrive_expect_tx(full, BYTES);
                    tensor::global_to_shared(
                        element(&raw mut (*shared).a, stage),
                        &args.a_map,
                        [k, row],
                        full,
                    );
                    let b = element(element(&raw mut (*shared).b, stage), rank as usize);
                    tensor::global_to_shared_multicast(b, &args.b_map, [k, col], full, 0b11);
                    ring.advance();
                }
                tile += clusters;
            }
        } else {
            more_registers::<232>();
            let consumer = tid / WARPGROUP - 1;
            let panels = element(&raw mut (*shared).out, consumer as usize);
            while tile < tiles[0] * tiles[1] {
                let [row, col] = grouped::<GROUP>(tile, tiles);
                let mut pending = Accumulator::<{ COLS / 2 }>::ZERO.start();
                let mut before = 0;
                for step in 0..args.steps() {
                    let stage = ring.stage as usize;
                    Barrier::wait_parity(full.add(stage), ring.parity);
                    wgmma::fence();
                    let a = Panel::k_major::<64>(element(&raw mut (*shared).a, stage), 64 * consumer);
                    // The halves are adjacent, so they form one panel of all rows.
                    let b = element(&raw mut (*shared).b, stage).cast::<Panel<bf16, COLS>>();
                    let b = Panel::k_major::<COLS>(b, 0);
                    pending.multiply_keeping(step > 0, a, b);
                    for i in 1..4 {
                        pending.multiply(a.step(i), b.step(i));
                    }
                    wgmma::commit();
                    wgmma::wait::<1>();
                    if step > 0 {
                        arrive_in_all(empty.add(before), BLOCKS as u32);
                    }
                    before = stage;
                    ring.advance();
                }
                let sums = pending.finish::<0>();
                if args.steps() > 0 {
                    arrive_in_all(empty.add(before), BLOCKS as u32);
                }
                let at = [col * COLS as u32, row_of(row) + 64 * consumer];
                store_panels(panels, &args.out_map, &sums, at.map(|at| at as i32), 1 + consumer);
                tile += clusters;
            }
            if tid.is_multiple_of(WARPGROUP) {
                bulk::wait_read::<0>();
            }
        }
        cluster::sync();
    }
}
