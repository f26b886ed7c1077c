//! Rung 7: one block per multiprocessor; tensor copies store a tile while the next one is computed; warpgroups take turns.
//!
//! A block stays on its multiprocessor and computes tile after tile, so the queries and keys of the next tile arrive while
//! this one ends. `stmatrix` writes results into panels, and a tensor copy brings them to global memory during the next
//! tile. The two warpgroups take turns to start their multiplications: each waits until the other has started its own. So
//! one computes exponentials while the tensor cores work for the other.
//!
//! Bytes and FLOPs are those of rung 5: for each head `4 D N^2 / 128` bytes of K and V, and `4 D N^2` FLOPs.
//@ ptx(attention_07_persistent, compute_90a): setmaxnreg == 2, wgmma.mma_async.sync.aligned.m64n128k16 == 32, .local == 0
//@ ptx(attention_07_persistent, compute_90a): stmatrix.sync.aligned.m8n8.x4 == 8

use cuda_std::barrier::Barrier;
use cuda_std::half::bf16;
use cuda_std::hint::{fewer_registers, more_registers};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{self, Accumulator};
use cuda_std::{bulk, kernel, thread};

#[cfg(not(target_arch = "nvptx64"))]
use super::RungShape;
use super::{LadderArgs, Rows, SIZE};
use attention_kernels::operation::online::Online;
use attention_kernels::operation::warpgroups::Turns;
use attention_kernels::panels::{copy, fragments, multiply_columns, multiply_rows, scale_rows, store};
use attention_kernels::ring::{Ring, WARPGROUP, init_once};

/// Queries of a warpgroup.
const QUERIES: usize = 64;
/// Warpgroups that multiply.
const CONSUMERS: usize = 2;
/// Queries of a block's tile.
const TILE: u32 = (CONSUMERS * QUERIES) as u32;
/// Keys of a tile.
const KEYS: usize = 128;
const STAGES: usize = 2;
/// Bytes of a stage of K or V, and of a warpgroup's queries.
const BYTES: usize = KEYS * 2 * SIZE;
const QUERY_BYTES: usize = QUERIES * 2 * SIZE;
/// Accumulators of a thread: of the logits, and of the results.
const LOGITS: usize = KEYS / 2;
const RESULTS: usize = SIZE / 2;

/// The queries, the stages of K and V, the results of each warpgroup, and their barriers.
#[repr(C)]
struct Shared {
    q: [Rows<QUERIES>; CONSUMERS],
    k: [Rows<KEYS>; STAGES],
    v: [Rows<KEYS>; STAGES],
    out: [Rows<QUERIES>; CONSUMERS],
    q_barriers: [Barrier; Ring::<1>::BARRIERS],
    k_barriers: [Barrier; Ring::<{ STAGES as u32 }>::BARRIERS],
    v_barriers: [Barrier; Ring::<{ STAGES as u32 }>::BARRIERS],
}

/// Computes attention over the tensors in `args`. Launched with any number of blocks, with the shared memory of `facts`.
///
/// # Safety
/// The arguments are as [`ladder`](super) describes, and no other code uses `out`.
#[kernel(
    max_threads = 384,
    min_blocks = 1,
    arch = "90a",
    args,
    facts: RungShape =
        RungShape::new([CONSUMERS * QUERIES, KEYS], 3 * WARPGROUP, size_of::<Shared>() + 1024).persistent(),
)]
pub unsafe fn attention_07_persistent(args: LadderArgs) {
    let tid = thread::thread_idx_x();
    let shared = dynamic_shared_mem_aligned::<Shared>();
    let (tiles, blocks) = (args.tiles(TILE), thread::grid_dim_x());
    let mut number = thread::block_idx_x();
    let steps = args.keys / KEYS as u32;
    // SAFETY: panels and barriers are the block's. A stage is filled once all consumers have released it, and read once it
    // is full. All threads of a warpgroup reach its collectives.
    unsafe {
        let q = (&raw mut (*shared).q).cast::<u8>();
        let k = (&raw mut (*shared).k).cast::<u8>();
        let v = (&raw mut (*shared).v).cast::<u8>();
        let mut q_ring = Ring::<1>::new((&raw mut (*shared).q_barriers).cast());
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
            while tid == 0 && number < tiles {
                let tile = args.tile(number, TILE);
                let full = q_ring.fill((CONSUMERS * QUERY_BYTES) as u32);
                for consumer in 0..CONSUMERS {
                    let at = [tile.head, tile.query + (consumer * QUERIES) as u32, tile.batch];
                    copy::<SIZE, QUERIES, QUERIES>(q.add(consumer * QUERY_BYTES), &args.q_map, at, full);
                }
                q_ring.advance();
                for step in 0..steps {
                    let at = [tile.head, step * KEYS as u32, tile.batch];
                    let full = k_ring.fill(BYTES as u32);
                    copy::<SIZE, KEYS, KEYS>(k.add(k_ring.stage() * BYTES), &args.k_map, at, full);
                    let full = v_ring.fill(BYTES as u32);
                    copy::<SIZE, KEYS, KEYS>(v.add(v_ring.stage() * BYTES), &args.v_map, at, full);
                    k_ring.advance();
                    v_ring.advance();
                }
                number += blocks;
            }
        } else {
            more_registers::<240>();
            let consumer = warpgroup - 1;
            let q = q.add(consumer as usize * QUERY_BYTES);
            let panels = (&raw mut (*shared).out).cast::<u8>().add(consumer as usize * QUERY_BYTES);
            let turns = Turns::new(consumer, CONSUMERS as u32);
            if consumer == 0 {
                turns.begin();
            }
            while number < tiles {
                let tile = args.tile(number, TILE);
                let mut rows = Online::EMPTY;
                let mut out = Accumulator::<RESULTS>::ZERO;
                q_ring.wait_full();
                k_ring.wait_full();
                let mut pending = Accumulator::<LOGITS>::ZERO.start();
                wgmma::fence();
                multiply_rows::<bf16, SIZE, KEYS, LOGITS>(&mut pending, q, k.add(k_ring.stage() * BYTES));
                wgmma::commit();
                let mut logits = pending.finish::<0>();
                k_ring.release();
                k_ring.advance();
                let mut factors = rows.update(&mut logits.0, args.factor());
                let mut weights = fragments::<bf16, LOGITS, { KEYS / 16 }>(&logits);
                for _ in 1..steps {
                    // The logits of the next keys.
                    k_ring.wait_full();
                    turns.wait();
                    let mut next = logits.start();
                    wgmma::fence();
                    multiply_rows::<bf16, SIZE, KEYS, LOGITS>(&mut next, q, k.add(k_ring.stage() * BYTES));
                    wgmma::commit();
                    // The values of these keys.
                    scale_rows(&mut out, factors);
                    v_ring.wait_full();
                    let mut pending = out.start();
                    wgmma::fence();
                    let values = v.add(v_ring.stage() * BYTES);
                    multiply_columns::<bf16, SIZE, KEYS, RESULTS, { KEYS / 16 }>(
                        &mut pending,
                        &weights,
                        values,
                    );
                    wgmma::commit();
                    turns.pass();
                    // All groups except the latest are complete: the logits are ready, the values still in progress.
                    logits = next.finish::<1>();
                    k_ring.release();
                    k_ring.advance();
                    factors = rows.update(&mut logits.0, args.factor());
                    out = pending.finish::<0>();
                    v_ring.release();
                    v_ring.advance();
                    weights = fragments::<bf16, LOGITS, { KEYS / 16 }>(&logits);
                }
                // The next queries may be copied.
                q_ring.release();
                q_ring.advance();
                scale_rows(&mut out, factors);
                v_ring.wait_full();
                let mut pending = out.start();
                wgmma::fence();
                let values = v.add(v_ring.stage() * BYTES);
                multiply_columns::<bf16, SIZE, KEYS, RESULTS, { KEYS / 16 }>(&mut pending, &weights, values);
                wgmma::commit();
                out = pending.finish::<0>();
                v_ring.release();
                v_ring.advance();
                let [[a, _], [b, _]] = rows.finish(args.scale);
                scale_rows(&mut out, [a, b]);
                let at = [tile.head, tile.query + QUERIES as u32 * consumer, tile.batch];
                store::<bf16, SIZE, RESULTS>(&args.out_map, at, panels, &out, 1 + consumer);
                number += blocks;
            }
            if tid.is_multiple_of(WARPGROUP) {
                bulk::wait_read::<0>();
            }
        }
    }
}
