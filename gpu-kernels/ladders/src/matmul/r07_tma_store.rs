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
use cuda_std::wgmma::{Accumulator, Panel};
use cuda_std::{bulk, kernel, tensor, thread};

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::RungShape;
use super::ladder::{LadderArgs, TERMS, multiply_step};
use common_kernels::ring::{Ring, WARPGROUP, element};
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
    barriers: [Barrier; Ring::<STAGES>::BARRIERS],
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
    let (mut tile, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
    // SAFETY: the barriers are the block's. All threads execute this; one fills the ring, and the warps that multiply use it.
    let mut ring = unsafe { Ring::<STAGES>::init_only((&raw mut (*shared).barriers).cast(), 8) };
    if tid / WARPGROUP == 0 {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { fewer_registers::<40>() };
        while tid == 0 && tile < tiles[0] * tiles[1] {
            let [row, col] = grouped(tile, tiles);
            let [row, col] = [row * ROWS as u32, col * COLS as u32].map(|at| at as i32);
            for step in 0..args.steps() {
                let full = ring.fill(BYTES);
                let k = (step * TERMS) as i32;
                // SAFETY: the stage is empty, and expects the bytes of both panels.
                unsafe {
                    let a = element(&raw mut (*shared).a, ring.stage());
                    tensor::global_to_shared(a, &args.a_map, [k, row], full);
                    let b = element(&raw mut (*shared).b, ring.stage());
                    tensor::global_to_shared(b, &args.b_map, [k, col], full);
                }
                ring.advance();
            }
            tile += blocks;
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
                    let b = Panel::k_major::<COLS>(element(&raw mut (*shared).b, ring.stage()), 0);
                    multiply_step(&mut pending, step > 0, a, b);
                }
                if step > 0 {
                    ring.release_stage(before);
                }
                before = ring.stage();
                ring.advance();
            }
            // SAFETY: all threads of the warpgroup execute this.
            let sums = unsafe { pending.finish::<0>() };
            if args.steps() > 0 {
                ring.release_stage(before);
            }
            let at = [col * COLS as u32, row * ROWS as u32 + 64 * consumer].map(|at| at as i32);
            // SAFETY: all threads of the warpgroup execute this, and only they use the panels.
            unsafe { store_panels(panels, &args.out_map, &sums, at, 1 + consumer) };
            tile += blocks;
        }
        if tid.is_multiple_of(WARPGROUP) {
            bulk::wait_read::<0>();
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
