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

use cuda_std::barrier::Barrier;
use cuda_std::half::bf16;
use cuda_std::hint::{fewer_registers, more_registers};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{self, Accumulator};
use cuda_std::{kernel, thread};

#[cfg(not(target_arch = "nvptx64"))]
use super::RungShape;
use super::{LadderArgs, Rows, SIZE, store_rows};
use attention_kernels::operation::online::Online;
use attention_kernels::panels::{copy, fragments, multiply_columns, multiply_rows, scale_rows};
use attention_kernels::ring::{Ring, WARPGROUP, init_once};

/// Queries of a warpgroup.
const QUERIES: usize = 64;
/// Warpgroups that multiply.
const CONSUMERS: usize = 2;
/// Keys of a tile.
const KEYS: usize = 128;
const STAGES: usize = 2;
/// Bytes of a stage of K or V, and of a warpgroup's queries.
const BYTES: usize = KEYS * 2 * SIZE;
const QUERY_BYTES: usize = QUERIES * 2 * SIZE;
/// Accumulators of a thread: of the logits, and of the results.
const LOGITS: usize = KEYS / 2;
const RESULTS: usize = SIZE / 2;

/// The queries, the stages of K and V, and their barriers.
#[repr(C)]
struct Shared {
    q: [Rows<QUERIES>; CONSUMERS],
    k: [Rows<KEYS>; STAGES],
    v: [Rows<KEYS>; STAGES],
    q_barriers: [Barrier; Ring::<1>::BARRIERS],
    k_barriers: [Barrier; Ring::<{ STAGES as u32 }>::BARRIERS],
    v_barriers: [Barrier; Ring::<{ STAGES as u32 }>::BARRIERS],
}

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
        RungShape::new([CONSUMERS * QUERIES, KEYS], 3 * WARPGROUP, size_of::<Shared>() + 1024),
)]
pub unsafe fn attention_05_specialised(args: LadderArgs) {
    let tid = thread::thread_idx_x();
    let shared = dynamic_shared_mem_aligned::<Shared>();
    let tile = args.tile(thread::block_idx_x(), (CONSUMERS * QUERIES) as u32);
    let steps = args.keys / KEYS as u32;
    // SAFETY: panels and barriers are the block's. A stage is filled once all consumers have released it, and read once it
    // is full. All threads of a warpgroup reach its collectives.
    unsafe {
        let q = (&raw mut (*shared).q).cast::<u8>();
        let k = (&raw mut (*shared).k).cast::<u8>();
        let v = (&raw mut (*shared).v).cast::<u8>();
        let q_ring = Ring::<1>::new((&raw mut (*shared).q_barriers).cast());
        let mut k_ring = Ring::<{ STAGES as u32 }>::new((&raw mut (*shared).k_barriers).cast());
        let mut v_ring = Ring::<{ STAGES as u32 }>::new((&raw mut (*shared).v_barriers).cast());
        init_once(|| {
            q_ring.init(4 * CONSUMERS as u32);
            k_ring.init(4 * CONSUMERS as u32);
            v_ring.init(4 * CONSUMERS as u32);
        });
        let warpgroup = wgmma::warpgroup_idx();
        if warpgroup == 0 {
            fewer_registers::<24>();
            if tid == 0 {
                let full = q_ring.fill((CONSUMERS * QUERY_BYTES) as u32);
                for consumer in 0..CONSUMERS {
                    let at = [tile.head, tile.query + (consumer * QUERIES) as u32, tile.batch];
                    copy::<SIZE, QUERIES, QUERIES>(q.add(consumer * QUERY_BYTES), &args.q_map, at, full);
                }
                for step in 0..steps {
                    let at = [tile.head, step * KEYS as u32, tile.batch];
                    let full = k_ring.fill(BYTES as u32);
                    copy::<SIZE, KEYS, KEYS>(k.add(k_ring.stage() * BYTES), &args.k_map, at, full);
                    let full = v_ring.fill(BYTES as u32);
                    copy::<SIZE, KEYS, KEYS>(v.add(v_ring.stage() * BYTES), &args.v_map, at, full);
                    k_ring.advance();
                    v_ring.advance();
                }
            }
        } else {
            more_registers::<240>();
            let consumer = warpgroup - 1;
            let q = q.add(consumer as usize * QUERY_BYTES);
            let mut rows = Online::EMPTY;
            let mut out = Accumulator::<RESULTS>::ZERO;
            q_ring.wait_full();
            for _ in 0..steps {
                k_ring.wait_full();
                let mut pending = Accumulator::<LOGITS>::ZERO.start();
                wgmma::fence();
                multiply_rows::<bf16, SIZE, KEYS, LOGITS>(&mut pending, q, k.add(k_ring.stage() * BYTES));
                wgmma::commit();
                let mut logits = pending.finish::<0>();
                k_ring.release();
                k_ring.advance();

                let factors = rows.update(&mut logits.0, args.factor());
                scale_rows(&mut out, factors);
                let weights = fragments::<bf16, LOGITS, { KEYS / 16 }>(&logits);

                v_ring.wait_full();
                let mut pending = out.start();
                wgmma::fence();
                let values = v.add(v_ring.stage() * BYTES);
                multiply_columns::<bf16, SIZE, KEYS, RESULTS, { KEYS / 16 }>(&mut pending, &weights, values);
                wgmma::commit();
                out = pending.finish::<0>();
                v_ring.release();
                v_ring.advance();
            }
            let [[a, _], [b, _]] = rows.finish(args.scale);
            scale_rows(&mut out, [a, b]);
            store_rows(&args, tile, consumer * QUERIES as u32, &out);
        }
    }
}
