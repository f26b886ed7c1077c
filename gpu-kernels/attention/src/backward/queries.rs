//! The gradient of Q by `wgmma` and tensor copies (compute capability 9.0, `compute_90a`).
//!
//! A block computes the gradients of 64 queries per consumer warpgroup, which keeps them in registers. One thread of another
//! warpgroup copies Q and the gradient of the result once, and then tiles of K and V into a ring. dS lies in registers as
//! the first operand of the multiplication that adds it to dQ.
//@ ptx(attention_bf16_128_dq, attention_f16_64_dq, compute_90a): setmaxnreg == 2, .local == 0

use cuda_std::barrier::Barrier;
use cuda_std::fastmath::ex2_approx_ftz;
use cuda_std::half::{bf16, f16};
use cuda_std::hint::{fewer_registers, more_registers};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{self, Accumulator, Element16, Panel, Registers};
use cuda_std::{GpuFloat, bulk, kernel, thread};

use super::super::panels::{ROWS, copy, fragments, multiply_columns, multiply_rows, store};
use super::super::ring::{Ring, WARPGROUP, init_once};
#[cfg(not(target_arch = "nvptx64"))]
use super::BackwardShape;
use super::args::BackwardArgs;

/// Stages of the ring.
const STAGES: u32 = 2;

/// Returns the bytes of the panels of Q and of the result's gradient, of the stages and of the barriers, after the first
/// multiple of 1024.
pub const fn shared_bytes(head_size: usize, keys: usize, consumers: usize) -> usize {
    let rows = 2 * consumers * ROWS + 2 * STAGES as usize * keys;
    rows * 2 * head_size + size_of::<Barrier>() * (Ring::<1>::BARRIERS + Ring::<STAGES>::BARRIERS)
}

/// Computes the gradient `dq`, through the maps of Q, K, V, `d_out` and `dq`, as in [`super::keys`].
///
/// Launched with one block per tile of queries of each head in the batch, with the threads and the shared memory of `facts`.
///
/// # Safety
/// The launch is as described. The head size is at most the kernel's. The tensors match their shapes and maps, `stats` holds
/// the output of [`super::delta`], and no other code uses `dq`. Without keys the maps of K and V are not used.
#[kernel(
    with(
        S = KEYS / 2, O = SIZE / 2, FRAGMENTS = KEYS / 16, THREADS = 128 * CONSUMERS + 128,
        // A multiprocessor's registers: a thread's share in the copying warpgroup, and in a consumer.
        FEWER = 8 * CONSUMERS + 8, MORE = 400 - 80 * CONSUMERS,
    ),
    max_threads = THREADS,
    min_blocks = 1,
    arch = "90a",
    args,
    facts: BackwardShape = BackwardShape::of_queries(SIZE, KEYS, CONSUMERS, THREADS),
    instances(
        for T in [bf16, f16] {
            attention_{T}_128_dq = <128, 128, 2>;
            attention_{T}_64_dq = <64, 64, 3>;
        }
    ),
)]
pub unsafe fn attention_dq<
    T: Element16,
    const SIZE: usize,
    const KEYS: usize,
    const CONSUMERS: usize,
    const S: usize,
    const O: usize,
    const FRAGMENTS: usize,
    const THREADS: usize,
    const FEWER: u32,
    const MORE: u32,
>(
    args: BackwardArgs<T>,
) where
    [f32; S]: Registers,
    [f32; O]: Registers,
{
    let tid = thread::thread_idx_x();
    let (own, stage) = (const { ROWS * 2 * SIZE }, const { KEYS * 2 * SIZE });
    let q_shared = dynamic_shared_mem_aligned::<Panel<T, 8>>().cast::<u8>();
    let d_shared = q_shared.wrapping_add(CONSUMERS * own);
    let k_shared = d_shared.wrapping_add(CONSUMERS * own);
    let v_shared = k_shared.wrapping_add(STAGES as usize * stage);
    let barriers = v_shared.wrapping_add(STAGES as usize * stage).cast::<Barrier>();
    let query_ring = Ring::<1>::new(barriers);
    let mut ring = Ring::<STAGES>::new(barriers.wrapping_add(Ring::<1>::BARRIERS));
    let tile = args.query_tile(thread::block_idx_x(), (CONSUMERS * ROWS) as u32);
    // SAFETY: panels and barriers are the block's. A stage is filled once it is empty, and read once it is full. All threads
    // of a warpgroup reach its collectives.
    unsafe {
        init_once(|| {
            query_ring.init(4 * CONSUMERS as u32);
            ring.init(4 * CONSUMERS as u32);
        });
        let warpgroup = wgmma::warpgroup_idx();
        if warpgroup == 0 {
            fewer_registers::<FEWER>();
            if tid == 0 {
                let full = query_ring.fill((2 * CONSUMERS * own) as u32);
                for consumer in 0..CONSUMERS {
                    let at = [tile.head, tile.first + (consumer * ROWS) as u32, tile.batch];
                    copy::<SIZE, ROWS, ROWS>(q_shared.add(consumer * own), &args.q_map, at, full);
                    copy::<SIZE, ROWS, ROWS>(d_shared.add(consumer * own), &args.d_out_map, at, full);
                }
                let mut key = tile.hidden / KEYS as u32 * KEYS as u32;
                while key < tile.visible {
                    let full = ring.fill(2 * stage as u32);
                    let (i, at) = (ring.stage(), [tile.key_head, key, tile.batch]);
                    copy::<SIZE, KEYS, ROWS>(k_shared.add(i * stage), &args.k_map, at, full);
                    copy::<SIZE, KEYS, ROWS>(v_shared.add(i * stage), &args.v_map, at, full);
                    ring.advance();
                    key += KEYS as u32;
                }
            }
        } else {
            more_registers::<MORE>();
            let consumer = warpgroup - 1;
            let q = q_shared.add(consumer as usize * own);
            let d_out = d_shared.add(consumer as usize * own);
            let first_query = tile.first + ROWS as u32 * consumer;
            let factor = args.scale * core::f32::consts::LOG2_E;
            let (row, _) = Accumulator::<S>::position(tid % WARPGROUP, 0);
            let stats = args.stats.cast_const();
            // Queries after the last one take the statistics of others; their gradients are not stored.
            let of_stats = first_query.min(args.padded() - ROWS as u32);
            let stats = stats.add(args.stat_index(tile.batch, tile.head, of_stats) + row);
            let (logs, deltas) = ([*stats, *stats.add(8)], [*stats.add(ROWS), *stats.add(ROWS + 8)]);
            let mut dq = Accumulator::<O>::ZERO;
            let mut key = tile.hidden / KEYS as u32 * KEYS as u32;
            query_ring.wait_full();
            if key < tile.visible {
                macro_rules! next_logits {
                    () => {{
                        ring.wait_full();
                        let mut logits = Accumulator::<S>::ZERO.start();
                        wgmma::fence();
                        multiply_rows::<T, SIZE, KEYS, S>(&mut logits, q, k_shared.add(ring.stage() * stage));
                        wgmma::commit();
                        logits.finish::<0>()
                    }};
                }
                let mut logits = next_logits!();
                macro_rules! step {
                    ($next:expr) => {{
                        let now = ring;
                        let (k, v) = (k_shared.add(now.stage() * stage), v_shared.add(now.stage() * stage));
                        let mut products = Accumulator::<S>::ZERO.start();
                        wgmma::fence();
                        multiply_rows::<T, SIZE, KEYS, S>(&mut products, d_out, v);
                        wgmma::commit();
                        let mut p = logits;
                        hide(&args, &mut p, first_query, key);
                        let mut i = 0;
                        while i < S {
                            p.0[i] = ex2_approx_ftz(p.0[i].mul_add(factor, -logs[i / 2 % 2]));
                            i += 1;
                        }
                        let mut ds = products.finish::<0>();
                        let mut i = 0;
                        while i < S {
                            ds.0[i] = p.0[i] * (ds.0[i] - deltas[i / 2 % 2]);
                            i += 1;
                        }
                        let weights = fragments::<T, S, FRAGMENTS>(&ds);
                        let mut sums = dq.start();
                        wgmma::fence();
                        multiply_columns::<T, SIZE, KEYS, O, FRAGMENTS>(&mut sums, &weights, k);
                        wgmma::commit();
                        ring.advance();
                        let next = $next;
                        dq = sums.finish::<0>();
                        now.release();
                        next
                    }};
                }
                // The logits of the next tile start right after the sum of this one, before it is done.
                while key + (KEYS as u32) < tile.visible {
                    logits = step!(next_logits!());
                    key += KEYS as u32;
                }
                step!(());
            }
            dq.0 = dq.0.map(|x| x * args.scale);
            let at = [tile.head, first_query, tile.batch];
            store::<T, SIZE, O>(&args.dq_map, at, q, &dq, 1 + consumer);
            if tid.is_multiple_of(WARPGROUP) {
                bulk::wait_read::<0>();
            }
        }
    }
}

/// Replaces the logits of keys that a query does not see by -inf. The tile starts at `first_query` and `first_key`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn hide<T, const S: usize>(
    args: &BackwardArgs<T>,
    tile: &mut Accumulator<S>,
    first_query: u32,
    first_key: u32,
) {
    let keys = args.all_keys();
    // The last key that the first query sees; of all queries its keys end first.
    let last = first_query as i32 + args.diagonal;
    let end = first_key as i32 + 2 * S as i32;
    // The last query's keys begin last.
    let is_cut = (first_key as i32) < last + ROWS as i32 - args.window;
    if !is_cut && end <= args.keys as i32 && end <= last + 1 {
        return;
    }
    let thread = thread::thread_idx_x() % WARPGROUP;
    let query = first_query + Accumulator::<S>::position(thread, 0).0 as u32;
    let to = [query, query + 8].map(|query| keys.visible(query).saturating_sub(first_key));
    let mut i = 0;
    while i < S {
        let key = Accumulator::<S>::position(thread, i).1 as u32;
        if key >= to[i / 2 % 2] {
            tile.0[i] = f32::NEG_INFINITY;
        }
        i += 1;
    }
    if !is_cut {
        return;
    }
    let from = [query, query + 8].map(|query| keys.hidden(query).saturating_sub(first_key));
    let mut i = 0;
    while i < S {
        let key = Accumulator::<S>::position(thread, i).1 as u32;
        if key < from[i / 2 % 2] {
            tile.0[i] = f32::NEG_INFINITY;
        }
        i += 1;
    }
}
