//! Rung 5: one warpgroup copies, and two multiply.
//!
//! A block computes 128 queries, 64 in each of two warpgroups, which share every tile of K and V. While one computes its
//! softmax, the tensor cores can multiply for the other. A third warpgroup only starts the copies, in one thread, and meets
//! the others at the barriers of a stage: `full` signals that the bytes have arrived, `empty` that both have read them.
//! `setmaxnreg` moves registers from the copying warpgroup to the multiplying ones.
//!
//! For each head, with N queries and N keys of D = 128 elements: the N / 128 blocks read `4 D N^2 / 128` bytes of K and V,
//! half of rung 4. The tensor cores do `4 D N^2` FLOPs.
//@ ptx(attention_05_specialised, compute_90a): setmaxnreg == 2, wgmma.mma_async.sync.aligned.m64n128k16 == 16, .local == 0

use cuda_std::hint::{fewer_registers, more_registers};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{self, Accumulator};
use cuda_std::{kernel, thread};

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::RungShape;
use super::ladder::{LadderArgs, store_rows};
use super::stages::{KEYS, QUERIES, Shared, Stages};
use attention_kernels::operation::online::Online;
use attention_kernels::panels::fragments;
use common_kernels::ring::WARPGROUP;

/// Warpgroups that multiply.
const CONSUMERS: usize = 2;

/// Computes attention over the tensors in `args`. Launched with one block per 128 queries of each head, with the shared
/// memory of `facts`.
///
/// # Safety
/// The arguments are as [`ladder`](super) describes, and no other code uses `out`.
#[kernel(
    max_threads = 384,
    min_blocks = 1,
    arch = "90a",
    args,
    facts: RungShape =
        RungShape::new([CONSUMERS * QUERIES, KEYS], 3 * WARPGROUP, size_of::<Shared<CONSUMERS>>() + 1024),
)]
pub unsafe fn attention_05_specialised(args: LadderArgs) {
    let tid = thread::thread_idx_x();
    let tile = args.tile(thread::block_idx_x(), (CONSUMERS * QUERIES) as u32);
    let steps = args.keys / KEYS as u32;
    // SAFETY: all threads execute this, with the memory of the launch.
    let mut stages = unsafe { Stages::init(dynamic_shared_mem_aligned::<Shared<CONSUMERS>>()) };
    // SAFETY: all lanes of each warp execute this.
    let warpgroup = unsafe { wgmma::warpgroup_idx() };
    if warpgroup == 0 {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { fewer_registers::<24>() };
        if tid == 0 {
            stages.copy_queries(&args, tile);
            for step in 0..steps {
                stages.copy_keys(&args, tile, step);
                stages.advance();
            }
        }
    } else {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { more_registers::<240>() };
        let consumer = warpgroup - 1;
        let mut rows = Online::EMPTY;
        let mut out = Accumulator::ZERO;
        stages.q_ring.wait_full();
        for _ in 0..steps {
            stages.k_ring.wait_full();
            // SAFETY: all threads of the warpgroup execute this.
            let mut logits = unsafe { stages.start_logits(Accumulator::ZERO, consumer).finish::<0>() };
            stages.k_ring.release_and_advance();

            // SAFETY: all lanes of the warp execute this.
            let factors = unsafe { rows.update(&mut logits, args.factor()) };
            out.scale_rows(factors);
            let weights = fragments(&logits);

            stages.v_ring.wait_full();
            // SAFETY: all threads of the warpgroup execute this.
            out = unsafe { stages.start_values(out, &weights).finish::<0>() };
            stages.v_ring.release_and_advance();
        }
        // SAFETY: all threads of the warpgroup execute this, and only they write these rows.
        unsafe {
            let [[a, _], [b, _]] = rows.finish(args.scale);
            out.scale_rows([a, b]);
            store_rows(&args, tile, consumer * QUERIES as u32, &out);
        }
    }
}
