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

use cuda_std::barrier::Barrier;
use cuda_std::half::bf16;
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{self, Accumulator};
use cuda_std::{kernel, thread, warp};

#[cfg(not(target_arch = "nvptx64"))]
use super::RungShape;
use super::{LadderArgs, Rows, SIZE, store_rows};
use attention_kernels::operation::online::Online;
use attention_kernels::panels::{copy, fragments, multiply_columns, multiply_rows, scale_rows};
use attention_kernels::ring::{Ring, WARPGROUP, init_once};

/// Queries of a tile.
const QUERIES: usize = 64;
/// Keys of a tile.
const KEYS: usize = 128;
const STAGES: usize = 2;
/// Bytes of a stage of K or V.
const BYTES: usize = KEYS * 2 * SIZE;
/// Accumulators of a thread: of the logits, and of the results.
const LOGITS: usize = KEYS / 2;
const RESULTS: usize = SIZE / 2;

/// The queries, the stages of K and V, and their barriers.
#[repr(C)]
struct Shared {
    q: Rows<QUERIES>,
    k: [Rows<KEYS>; STAGES],
    v: [Rows<KEYS>; STAGES],
    q_barriers: [Barrier; Ring::<1>::BARRIERS],
    k_barriers: [Barrier; Ring::<{ STAGES as u32 }>::BARRIERS],
    v_barriers: [Barrier; Ring::<{ STAGES as u32 }>::BARRIERS],
}

/// Computes attention. Launched with one block per 64 queries of each head, with the shared memory of `facts`.
///
/// # Safety
/// The arguments are as [`ladder`](super) describes, and no other code uses `out`.
#[kernel(
    max_threads = 128,
    arch = "90a",
    args,
    facts: RungShape = RungShape::new([QUERIES, KEYS], WARPGROUP, size_of::<Shared>() + 1024),
)]
pub unsafe fn attention_04_wgmma(args: LadderArgs) {
    let shared = dynamic_shared_mem_aligned::<Shared>();
    let is_first = thread::thread_idx_x() == 0;
    let tile = args.tile(thread::block_idx_x(), QUERIES as u32);
    let steps = args.keys / KEYS as u32;
    // SAFETY: panels and barriers are the block's. A stage is filled once all warps have released it, and read once it is
    // full. All threads reach the collectives.
    unsafe {
        let q = (&raw mut (*shared).q).cast::<u8>();
        let k = (&raw mut (*shared).k).cast::<u8>();
        let v = (&raw mut (*shared).v).cast::<u8>();
        let q_ring = Ring::<1>::new((&raw mut (*shared).q_barriers).cast());
        let mut k_ring = Ring::<{ STAGES as u32 }>::new((&raw mut (*shared).k_barriers).cast());
        let mut v_ring = Ring::<{ STAGES as u32 }>::new((&raw mut (*shared).v_barriers).cast());
        init_once(|| {
            q_ring.init(4);
            k_ring.init(4);
            v_ring.init(4);
        });
        // By reference: the TMA unit reads the maps where the launch has put them.
        let (k_map, v_map) = (&args.k_map, &args.v_map);
        let fill = |step: u32, k_ring: Ring<{ STAGES as u32 }>, v_ring: Ring<{ STAGES as u32 }>| {
            let at = [tile.head, step * KEYS as u32, tile.batch];
            let full = k_ring.fill(BYTES as u32);
            copy::<SIZE, KEYS, KEYS>(k.add(k_ring.stage() * BYTES), k_map, at, full);
            let full = v_ring.fill(BYTES as u32);
            copy::<SIZE, KEYS, KEYS>(v.add(v_ring.stage() * BYTES), v_map, at, full);
        };
        if is_first {
            let full = q_ring.fill((QUERIES * 2 * SIZE) as u32);
            copy::<SIZE, QUERIES, QUERIES>(q, &args.q_map, [tile.head, tile.query, tile.batch], full);
            fill(0, k_ring, v_ring);
        }
        let mut rows = Online::EMPTY;
        let mut out = Accumulator::<RESULTS>::ZERO;
        q_ring.wait_full();
        for step in 0..steps {
            let (k_now, v_now) = (k_ring, v_ring);
            k_ring.advance();
            v_ring.advance();
            if is_first && step + 1 < steps {
                fill(step + 1, k_ring, v_ring);
            }
            warp::sync_warp(u32::MAX);

            k_now.wait_full();
            let mut pending = Accumulator::<LOGITS>::ZERO.start();
            wgmma::fence();
            multiply_rows::<bf16, SIZE, KEYS, LOGITS>(&mut pending, q, k.add(k_now.stage() * BYTES));
            wgmma::commit();
            let mut logits = pending.finish::<0>();
            k_now.release();

            let factors = rows.update(&mut logits.0, args.factor());
            scale_rows(&mut out, factors);
            let weights = fragments::<bf16, LOGITS, { KEYS / 16 }>(&logits);

            v_now.wait_full();
            let mut pending = out.start();
            wgmma::fence();
            multiply_columns::<bf16, SIZE, KEYS, RESULTS, { KEYS / 16 }>(
                &mut pending,
                &weights,
                v.add(v_now.stage() * BYTES),
            );
            wgmma::commit();
            out = pending.finish::<0>();
            v_now.release();
        }
        let [[a, _], [b, _]] = rows.finish(args.scale);
        scale_rows(&mut out, [a, b]);
        store_rows(&args, tile, 0, &out);
    }
}
