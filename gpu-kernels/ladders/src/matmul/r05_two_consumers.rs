//! Rung 5: tiles of 128 x 256, shared by two multiplying warpgroups.
//!
//! A stage now serves 128 x 256 results instead of 64 x 256, so each byte of A and B is multiplied 1.7 times as often. A
//! warpgroup holds 64 x 256 accumulators, 128 registers per thread, and more do not fit. So the larger tile needs a second
//! warpgroup. Both read the same panel of B, and each reads its half of A's.
//!
//! Three warpgroups start with 168 registers per thread. `setmaxnreg` moves registers from the copying warpgroup to the
//! multiplying ones.
//@ ptx(matmul_05_two_consumers, compute_90a): setmaxnreg == 2, wgmma.mma_async.sync.aligned.m64n256k16 == 4, .local == 0

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

/// Computes `out = A B^T`. Launched with one block per tile, columns of tiles along x, with the shared memory of `facts`.
///
/// # Safety
/// The arguments are as [`ladder`](super::ladder) describes, and no other code uses `out`.
#[kernel(
    max_threads = 384,
    min_blocks = 1,
    arch = "90a",
    args,
    facts: RungShape = RungShape::new([ROWS as u32, COLS as u32], 3 * WARPGROUP, size_of::<Shared>() + 1024),
)]
pub unsafe fn matmul_05_two_consumers(args: LadderArgs) {
    let [row, col] = [thread::block_idx_y() * ROWS as u32, thread::block_idx_x() * COLS as u32];
    let shared = dynamic_shared_mem_aligned::<Shared>();
    let tid = thread::thread_idx_x();
    // SAFETY: the barriers are the block's. All threads execute this; one fills the ring, and the warps that multiply use it.
    let mut ring = unsafe { Ring::<STAGES>::init_only((&raw mut (*shared).barriers).cast(), 8) };
    if tid / WARPGROUP == 0 {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { fewer_registers::<40>() };
        if tid == 0 {
            for step in 0..args.steps() {
                let full = ring.fill(BYTES);
                let k = (step * TERMS) as i32;
                // SAFETY: the stage is empty, and expects the bytes of both panels.
                unsafe {
                    let a = element(&raw mut (*shared).a, ring.stage());
                    tensor::global_to_shared(a, &args.a_map, [k, row as i32], full);
                    let b = element(&raw mut (*shared).b, ring.stage());
                    tensor::global_to_shared(b, &args.b_map, [k, col as i32], full);
                }
                ring.advance();
            }
        }
    } else {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { more_registers::<232>() };
        let half = 64 * (tid / WARPGROUP - 1);
        let mut pending = Accumulator::<{ COLS / 2 }>::ZERO.start();
        let mut before = 0;
        for step in 0..args.steps() {
            ring.wait_full();
            // SAFETY: all threads of the warpgroup execute this. The stage is full until all warps have released it.
            unsafe {
                let a = Panel::k_major::<64>(element(&raw mut (*shared).a, ring.stage()), half);
                let b = Panel::k_major::<COLS>(element(&raw mut (*shared).b, ring.stage()), 0);
                multiply_step(&mut pending, true, a, b);
            }
            if step > 0 {
                ring.release_stage(before);
            }
            before = ring.stage();
            ring.advance();
        }
        // SAFETY: all threads of the warpgroup execute this, and only they write these results.
        unsafe { store_registers(&args, &pending.finish::<0>(), row + half, col) };
    }
}
