//! Rung 6: the softmax overlaps with the multiplications of other keys.
//!
//! A warpgroup of rung 5 waits for its logits, and the tensor cores wait for its softmax. Here it starts the logits of the
//! next keys, then the multiplication of V by the weights of these keys. It waits only for the first, and computes the
//! softmax of the next keys while the tensor cores work on the second. So the loop is shifted by half a step: the first
//! logits come before it, the last values after it.
//!
//! Bytes and FLOPs are those of rung 5: for each head `4 D N^2 / 128` bytes of K and V, and `4 D N^2` FLOPs.
//@ ptx(attention_06_overlap, compute_90a): setmaxnreg == 2, wgmma.mma_async.sync.aligned.m64n128k16 == 32, .local == 0

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

/// Computes attention. Launched with one block per 128 queries of each head, with the shared memory of `facts`.
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
pub unsafe fn attention_06_overlap(args: LadderArgs) {
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
        stages.k_ring.wait_full();
        // SAFETY: all threads of the warpgroup execute this.
        let mut logits = unsafe { stages.start_logits(Accumulator::ZERO, consumer).finish::<0>() };
        stages.k_ring.release_and_advance();
        // SAFETY: all lanes of the warp execute this.
        let mut factors = unsafe { rows.update(&mut logits, args.factor()) };
        let mut weights = fragments(&logits);
        for _ in 1..steps {
            // The logits of the next keys.
            stages.k_ring.wait_full();
            let next = stages.start_logits(logits, consumer);
            // The values of these keys.
            out.scale_rows(factors);
            stages.v_ring.wait_full();
            let pending = stages.start_values(out, &weights);
            // SAFETY: all threads of the warpgroup execute this. All groups except the latest are complete: the logits are
            // ready, the values still in progress.
            logits = unsafe { next.finish::<1>() };
            stages.k_ring.release_and_advance();
            // SAFETY: all lanes of the warp execute this.
            factors = unsafe { rows.update(&mut logits, args.factor()) };
            // SAFETY: all threads of the warpgroup execute this.
            out = unsafe { pending.finish::<0>() };
            stages.v_ring.release_and_advance();
            weights = fragments(&logits);
        }
        out.scale_rows(factors);
        stages.v_ring.wait_full();
        // SAFETY: all threads of the warpgroup execute this.
        out = unsafe { stages.start_values(out, &weights).finish::<0>() };
        // SAFETY: all threads of the warpgroup execute this, and only they write these rows.
        unsafe {
            let [[a, _], [b, _]] = rows.finish(args.scale);
            out.scale_rows([a, b]);
            store_rows(&args, tile, consumer * QUERIES as u32, &out);
        }
    }
}
