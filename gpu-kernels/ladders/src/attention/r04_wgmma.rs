//! Rung 4: `wgmma` reads shared memory that tensor copies fill.
//!
//! One warpgroup computes 64 queries. One instruction multiplies 64 queries by 128 keys, and reads both from shared memory.
//! Its accumulators, rounded to `bf16`, are the first operand of the multiplication by V, so the weights stay in registers.
//! One thread starts the copies of the next tile of keys; the TMA unit does the rest, and mbarriers count the bytes. The
//! warpgroup still does one thing at a time: logits, softmax, values. The tensor cores idle during the softmax, and the
//! exponentials during the multiplications.
//!
//! For each head, with N queries and N keys of D = 128 elements: the N / 64 blocks read `4 D N^2 / 64` bytes of K and V, and
//! the tensor cores do `4 D N^2` FLOPs, as in rung 3.
//@ ptx(attention_04_wgmma, compute_90a): wgmma.mma_async.sync.aligned.m64n128k16 == 16, cp.async.bulk.tensor.4d >= 6, .local == 0

use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::Accumulator;
use cuda_std::{kernel, thread, warp};

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::RungShape;
use super::ladder::{LadderArgs, store_rows};
use super::stages::{KEYS, QUERIES, Shared, Stages};
use attention_kernels::operation::online::Online;
use attention_kernels::panels::fragments;
use common_kernels::ring::WARPGROUP;

/// Computes attention. Launched with one block per 64 queries of each head, with the shared memory of `facts`.
///
/// # Safety
/// The arguments are as [`ladder`](super) describes, and no other code uses `out`.
#[kernel(
    max_threads = 128,
    arch = "90a",
    args,
    facts: RungShape = RungShape::new([QUERIES, KEYS], WARPGROUP, size_of::<Shared<1>>() + 1024),
)]
pub unsafe fn attention_04_wgmma(args: LadderArgs) {
    let is_first = thread::thread_idx_x() == 0;
    let tile = args.tile(thread::block_idx_x(), QUERIES as u32);
    let steps = args.keys / KEYS as u32;
    // SAFETY: all threads execute this, with the memory of the launch.
    let mut stages = unsafe { Stages::init(dynamic_shared_mem_aligned::<Shared<1>>()) };
    let q_ring = stages.q_ring;
    if is_first {
        stages.copy_queries(&args, tile);
        stages.copy_keys(&args, tile, 0);
    }
    let mut rows = Online::EMPTY;
    let mut out = Accumulator::ZERO;
    q_ring.wait_full();
    for step in 0..steps {
        let now = stages;
        stages.advance();
        if is_first && step + 1 < steps {
            stages.copy_keys(&args, tile, step + 1);
        }
        // SAFETY: all lanes of the warp execute this.
        unsafe { warp::sync_warp(u32::MAX) };

        now.k_ring.wait_full();
        // SAFETY: all threads of the warpgroup execute this.
        let mut logits = unsafe { now.start_logits(Accumulator::ZERO, 0).finish::<0>() };
        now.k_ring.release();

        // SAFETY: all lanes of the warp execute this.
        let factors = unsafe { rows.update(&mut logits, args.factor()) };
        out.scale_rows(factors);
        let weights = fragments(&logits);

        now.v_ring.wait_full();
        // SAFETY: all threads of the warpgroup execute this.
        out = unsafe { now.start_values(out, &weights).finish::<0>() };
        now.v_ring.release();
    }
    // SAFETY: all threads of the warpgroup execute this, and only they write the tile.
    unsafe {
        let [[a, _], [b, _]] = rows.finish(args.scale);
        out.scale_rows([a, b]);
        store_rows(&args, tile, 0, &out);
    }
}
