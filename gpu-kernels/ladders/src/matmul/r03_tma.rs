//! Rung 3: tensor copies fill four stages, and mbarriers count their bytes.
//!
//! One thread copies a whole panel with one instruction. The TMA unit computes the addresses, swizzles, and writes zeros for
//! elements outside the matrix. A stage's barrier expects the bytes of both panels; the warpgroup waits for its phase. One
//! multiplication runs while the warpgroup waits for the next stage: a stage is filled again one step after it was read.
//@ ptx(matmul_03_tma, compute_90a): wgmma.mma_async.sync.aligned.m64n128k16 == 4, cp.async.bulk.tensor.2d >= 2, .local == 0

use cuda_std::barrier::Barrier;
use cuda_std::half::bf16;
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{Accumulator, Panel};
use cuda_std::{kernel, tensor, thread};

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::RungShape;
use super::ladder::{LadderArgs, TERMS, multiply_step, store_registers};
use common_kernels::ring::{Ring, WARPGROUP, element};

const ROWS: usize = 64;
const COLS: usize = 128;
const STAGES: usize = 4;
/// Bytes of a stage.
const BYTES: u32 = Panel::<bf16, ROWS>::BYTES + Panel::<bf16, COLS>::BYTES;

/// The stages and their barriers. `empty` is for later rungs: here the threads synchronise instead.
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
    max_threads = 128,
    arch = "90a",
    args,
    facts: RungShape = RungShape::new([ROWS as u32, COLS as u32], WARPGROUP, size_of::<Shared>() + 1024),
)]
pub unsafe fn matmul_03_tma(args: LadderArgs) {
    let [row, col] = [thread::block_idx_y() * ROWS as u32, thread::block_idx_x() * COLS as u32];
    let shared = dynamic_shared_mem_aligned::<Shared>();
    let steps = args.steps();
    let is_first = thread::thread_idx_x() == 0;
    // SAFETY: stages and barriers are the block's. The first thread starts the copies of a stage after the multiplications
    // of the step before have finished and all threads have synchronised. All threads reach barriers and multiplications.
    unsafe {
        let full = (&raw mut (*shared).barriers).cast::<Barrier>();
        let mut ring = Ring::<STAGES>::init_only(full, 1);
        // By reference: the TMA unit reads the maps where the launch has put them.
        let (a_map, b_map) = (&args.a_map, &args.b_map);
        let copy = move |step: u32| {
            let (stage, k) = (step as usize % STAGES, (step * TERMS) as i32);
            let full = full.add(stage);
            Barrier::arrive_expect_tx(full, BYTES);
            tensor::global_to_shared(element(&raw mut (*shared).a, stage), a_map, [k, row as i32], full);
            tensor::global_to_shared(element(&raw mut (*shared).b, stage), b_map, [k, col as i32], full);
        };
        if is_first {
            for step in 0..steps.min(STAGES as u32) {
                copy(step);
            }
        }
        let mut pending = Accumulator::<{ COLS / 2 }>::ZERO.start();
        for step in 0..steps {
            ring.wait_full();
            let a = Panel::k_major::<ROWS>(element(&raw mut (*shared).a, ring.stage()), 0);
            let b = Panel::k_major::<COLS>(element(&raw mut (*shared).b, ring.stage()), 0);
            multiply_step(&mut pending, true, a, b);
            thread::sync_threads_aligned();
            // All warps have read the stage of the step before.
            let next = step + STAGES as u32 - 1;
            if is_first && step > 0 && next < steps {
                copy(next);
            }
            ring.advance();
        }
        store_registers(&args, &pending.finish::<0>(), row, col);
    }
}
