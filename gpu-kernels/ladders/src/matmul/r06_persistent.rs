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
use cuda_std::wgmma::{Accumulator, Panel};
use cuda_std::{kernel, tensor, thread};

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::RungShape;
use super::ladder::{LadderArgs, TERMS, multiply_step, store_registers};
use common_kernels::ring::{Ring, WARPGROUP, element};
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
pub unsafe fn matmul_06_persistent(args: LadderArgs) {
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
        let half = 64 * (tid / WARPGROUP - 1);
        while tile < tiles[0] * tiles[1] {
            let [row, col] = grouped(tile, tiles);
            let mut pending = Accumulator::<{ COLS / 2 }>::ZERO.start();
            let mut before = 0;
            for step in 0..args.steps() {
                ring.wait_full();
                // SAFETY: all threads of the warpgroup execute this. The stage is full until all warps have released it.
                unsafe {
                    let a = Panel::k_major::<64>(element(&raw mut (*shared).a, ring.stage()), half);
                    let b = Panel::k_major::<COLS>(element(&raw mut (*shared).b, ring.stage()), 0);
                    // The first multiplication of a tile ignores the old accumulators.
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
            // SAFETY: all threads of the warpgroup execute this, and only they write these results.
            unsafe { store_registers(&args, &sums, row * ROWS as u32 + half, col * COLS as u32) };
            tile += blocks;
        }
    }
}
