//! Rung 7: `stmatrix` and tensor copies store a tile while the next one is computed.
//!
//! From registers, one store of a warp writes 16 bytes of each of 8 rows. Instead, `stmatrix` writes 8 x 8 results at once
//! into panels, and one thread starts their copies to global memory. It waits for them only before the next tile writes the
//! panels, so the copies overlap with that tile's multiplications. The panels cost 64 KiB, so three stages are left.
//@ ptx(matmul_07_tma_store, compute_90a): stmatrix.sync.aligned.m8n8.x4 == 16, cp.async.bulk.wait_group.read >= 1, .local == 0
//@ ptx(matmul_07_tma_store, compute_90a): setmaxnreg == 2, wgmma.mma_async.sync.aligned.m64n256k16 == 4

use cuda_std::barrier::Barrier;
use cuda_std::half::{bf16, f32_to_bf16x2};
use cuda_std::hint::{fewer_registers, more_registers};
use cuda_std::mma::stmatrix;
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::tensor::TensorMap;
use cuda_std::wgmma::{self, Accumulator, Panel};
use cuda_std::{bulk, kernel, tensor, thread};

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::RungShape;
use super::ladder::{GROUP, LadderArgs, Ring, TERMS, WARPGROUP, arrive_warp, element, init_barriers};
use matmul_kernels::tile_order::grouped;

const ROWS: usize = 128;
const COLS: usize = 256;
const STAGES: usize = 3;
/// Bytes of a stage.
const BYTES: u32 = Panel::<bf16, ROWS>::BYTES + Panel::<bf16, COLS>::BYTES;
/// The results of a warpgroup: 64 rows, 64 columns per panel.
pub(super) type OutPanels = [Panel<bf16, 64>; COLS / 64];

/// The stages, their barriers, and the results of each consumer.
#[repr(C)]
struct Shared {
    a: [Panel<bf16, ROWS>; STAGES],
    b: [Panel<bf16, COLS>; STAGES],
    out: [OutPanels; 2],
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
pub unsafe fn matmul_07_tma_store(args: LadderArgs) {
    let shared = dynamic_shared_mem_aligned::<Shared>();
    let tid = thread::thread_idx_x();
    let tiles = args.tiles(ROWS as u32, COLS as u32);
    let (first, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
    // SAFETY: as in rung 4. Each consumer has its own panels and its own named barrier.
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
                    let b = Panel::k_major::<COLS>(element(&raw mut (*shared).b, stage), 0);
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
                let at = [col * COLS as u32, row * ROWS as u32 + 64 * consumer];
                store_panels(panels, &args.out_map, &sums, at.map(|at| at as i32), 1 + consumer);
                tile += blocks;
            }
            if tid.is_multiple_of(WARPGROUP) {
                bulk::wait_read::<0>();
            }
        }
    }
}

/// Rounds the accumulators of a warpgroup into its panels, and starts their copies to the tensor at `[column, row]`. Earlier
/// copies may still use the panels.
///
/// # Safety
/// All threads of the warpgroup call this, and no other thread uses the panels and the named barrier. The first thread waits
/// for the copies before it returns from the kernel.
#[inline(always)]
pub(super) unsafe fn store_panels(
    panels: *mut OutPanels,
    map: &TensorMap,
    sums: &Accumulator<{ COLS / 2 }>,
    [col, row]: [i32; 2],
    barrier: u32,
) {
    let tid = thread::thread_idx_x() % WARPGROUP;
    let (warp, lane) = (tid / 32, tid % 32);
    // SAFETY: the first thread waits until its copies have read the panels, and the others wait for it. The copies start
    // after all threads have written, fenced and synchronised.
    unsafe {
        if tid == 0 {
            bulk::wait_read::<0>();
        }
        thread::sync_named_aligned(barrier, WARPGROUP);
        // A lane addresses a row of one of four matrices: the upper and lower half of 16 rows, at 8 columns and the next 8.
        let r = 16 * warp + lane % 16;
        let mut i = 0;
        while i < COLS / 16 {
            let d = |at: usize| [sums.0[8 * i + at], sums.0[8 * i + at + 1]];
            let chunk = Panel::chunk(element(panels, i / 4), r, (i % 4 * 2) as u32 + lane / 16);
            stmatrix(chunk, [d(0), d(2), d(4), d(6)].map(f32_to_bf16x2));
            i += 1;
        }
        bulk::fence_shared();
        thread::sync_named_aligned(barrier, WARPGROUP);
        if tid == 0 {
            for panel in 0..COLS / 64 {
                let at = [col + 64 * panel as i32, row];
                tensor::shared_to_global(map, at, element(panels, panel));
            }
            bulk::commit();
        }
    }
}
