//! Rung 6: one block per multiprocessor computes tile after tile, in an order that suits L2.
//!
//! A block with its shared memory fills a multiprocessor, so a second block could not start before it ends. A persistent
//! block computes every `blocks`th tile instead, and starts the copies of its next tile while the last terms of this one are
//! multiplied. Tiles that run at the same time form a rectangle: eight rows of tiles, then the next column. A rectangle
//! reads fewer different rows of A and B than a strip, and L2 holds them.
//@ ptx(matmul_06_persistent, compute_90a): setmaxnreg == 2, wgmma.mma_async.sync.aligned.m64n256k16 == 4, .local == 0

use cuda_std::barrier::Barrier;
use cuda_std::half::bf16;
use cuda_std::hint::{fewer_registers, more_registers};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{self, Accumulator, Panel};
use cuda_std::{kernel, tensor, thread};

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::RungShape;
use super::ladder::{
    GROUP, LadderArgs, Ring, TERMS, WARPGROUP, arrive_warp, element, init_barriers, store_registers,
};
use matmul_kernels::tile_order::grouped;

const ROWS: usize = 128;
const COLS: usize = 256;
const STAGES: usize = 4;
/// Bytes of a stage.
const BYTES: u32 = Panel::<bf16, ROWS>::BYTES + Panel::<bf16, COLS>::BYTES;

/// The stages and their barriers.
#[repr(C)]
struct Shared {
    a: [Panel<bf16, ROWS>; STAGES],
    b: [Panel<bf16, COLS>; STAGES],
    full: [Barrier; STAGES],
    empty: [Barrier; STAGES],
}

/// Computes `out = A B^T`. Launched with any number of blocks along x, with the shared memory of `facts`.
///
/// # Safety
/// The arguments are as [`ladder`](super::ladder) describes, and no other code uses `out`.
#[kernel(
    max_threads = 384,
    min_blocks = 1,
    arch = "90a",
    args,
    facts: RungShape =
        RungShape::new([ROWS as u32, COLS as u32], 3 * WARPGROUP, size_of::<Shared>() + 1024).persistent(1),
)]
pub unsafe fn matmul_06_persistent(args: LadderArgs) {
    let shared = dynamic_shared_mem_aligned::<Shared>();
    let tid = thread::thread_idx_x();
    let tiles = args.tiles(ROWS as u32, COLS as u32);
    let (first, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
    // SAFETY: as in rung 4. The ring continues from tile to tile, in the same way in both roles.
    unsafe {
        let full = (&raw mut (*shared).full).cast::<Barrier>();
        let empty = (&raw mut (*shared).empty).cast::<Barrier>();
        init_barriers(full, empty, STAGES as u32, 8);
        let mut ring = Ring::<{ STAGES as u32 }>::FIRST;
        let mut tile = first;
        if tid / WARPGROUP == 0 {
            fewer_registers::<40>();
            while tid == 0 && tile < tiles[0] * tiles[1] {
                let [row, col] = grouped::<GROUP>(tile, tiles);
                let [row, col] = [row * ROWS as u32, col * COLS as u32].map(|at| at as i32);
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
                    tensor::global_to_shared(
                        element(&raw mut (*shared).b, stage),
                        &args.b_map,
                        [k, col],
                        full,
                    );
                    ring.advance();
                }
                tile += blocks;
            }
        } else {
            more_registers::<232>();
            let half = 64 * (tid / WARPGROUP - 1);
            while tile < tiles[0] * tiles[1] {
                let [row, col] = grouped::<GROUP>(tile, tiles);
                let mut pending = Accumulator::<{ COLS / 2 }>::ZERO.start();
                let mut before = 0;
                for step in 0..args.steps() {
                    let stage = ring.stage as usize;
                    Barrier::wait_parity(full.add(stage), ring.parity);
                    wgmma::fence();
                    let a = Panel::k_major::<64>(element(&raw mut (*shared).a, stage), half);
                    let b = Panel::k_major::<COLS>(element(&raw mut (*shared).b, stage), 0);
                    // The first multiplication of a tile ignores the old accumulators.
                    pending.multiply_keeping(step > 0, a, b);
                    for i in 1..4 {
                        pending.multiply(a.step(i), b.step(i));
                    }
                    wgmma::commit();
                    wgmma::wait::<1>();
                    if step > 0 {
                        arrive_warp(empty.add(before));
                    }
                    before = stage;
                    ring.advance();
                }
                let sums = pending.finish::<0>();
                if args.steps() > 0 {
                    arrive_warp(empty.add(before));
                }
                store_registers(&args, &sums, row * ROWS as u32 + half, col * COLS as u32);
                tile += blocks;
            }
        }
    }
}
