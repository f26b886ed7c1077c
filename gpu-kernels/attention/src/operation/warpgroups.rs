//! Attention by `wgmma` and tensor copies (compute capability 9.0, `compute_90a`), for `bf16` and `f16` and heads of 64 or
//! 128 elements.
//!
//! A block computes tiles of queries of one head, 64 per consumer warpgroup, one after the other. One thread of another
//! warpgroup copies Q, K and V into rings of two stages each; it starts the next tile while this one ends. A consumer
//! keeps its logits in registers, turns them into exponentials there, and multiplies V by these registers, so the matrix of
//! the logits is never in memory. It starts the logits of the next keys, then the multiplication of V by the exponentials of
//! these keys. While the tensor cores do the second, it computes the exponentials of the first. With the last keys of a tile
//! it starts the logits of the next tile.
//!
//! Only tiles that some query of a consumer does not see entirely are masked. Tiles that no query of the block sees are
//! neither copied nor computed.
//!
//! Heads of 64 elements leave registers for a third consumer, which hides more of the exponentials behind multiplications.
//! Its larger tiles are worth it from a few thousand keys on.
//@ ptx(attention_bf16_128_2w, compute_90a): setmaxnreg == 2, .local == 0
//@ ptx(attention_f16_64_2w, attention_bf16_64_3w, compute_90a): setmaxnreg == 2, .local == 0

use cuda_std::barrier::Barrier;
use cuda_std::half::{bf16, f16};
use cuda_std::hint::{fewer_registers, more_registers};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{self, Accumulator, Element16, Panel, Registers};
use cuda_std::{bulk, kernel, thread};

use super::super::args::{AttentionArgs, Keys, Tile};
use super::super::panels::{ROWS, copy, fragments, multiply_columns, multiply_rows, scale_rows, store};
use super::super::ring::{Ring, WARPGROUP, init_once};
#[cfg(not(target_arch = "nvptx64"))]
use super::WarpgroupShape;
use super::mask::Mask;
use super::online::Online;

/// Queries of a consumer.
const QUERIES: usize = ROWS;
/// Stages of Q, of K, and of V.
const STAGES: u32 = 2;

/// Returns the bytes of the stages of Q, K and V, of the panels of the results, and of the barriers, after the first multiple
/// of 1024.
pub const fn shared_bytes(head_size: usize, keys: usize, consumers: usize) -> usize {
    let rows = (STAGES as usize + 1) * consumers * QUERIES + 2 * STAGES as usize * keys;
    rows * 2 * head_size + size_of::<Barrier>() * 3 * Ring::<STAGES>::BARRIERS
}

/// Computes attention, through the maps of Q, K, V and the result. A map has the dimensions head size, heads, length and
/// batch, the innermost first. Its boxes have 64 columns of one head and one batch entry; `facts` states their positions.
///
/// Launched with any number of blocks along x, which share the tiles of queries of all heads of the batch, with the threads
/// and the shared memory of `facts`.
///
/// # Safety
/// The launch is as described. The head size is the kernel's. The tensors match their shapes and maps, and no other code
/// uses `out` and `log_sum_exp`. Without keys the maps of K and V are not used.
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
    facts: WarpgroupShape = WarpgroupShape::new(SIZE, KEYS, CONSUMERS, THREADS),
    instances(
        for T in [bf16, f16] {
            attention_{T}_128_2w = <128, 128, 2>;
            attention_{T}_64_2w = <64, 128, 2>;
            attention_{T}_64_3w = <64, 128, 3>;
        }
    ),
)]
pub unsafe fn attention_warpgroups<
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
    args: AttentionArgs<T>,
) where
    [f32; S]: Registers,
    [f32; O]: Registers,
{
    let tid = thread::thread_idx_x();
    let q_shared = dynamic_shared_mem_aligned::<Panel<T, 8>>().cast::<u8>();
    let k_shared = q_shared.wrapping_add(STAGES as usize * CONSUMERS * QUERIES * 2 * SIZE);
    let v_shared = k_shared.wrapping_add(STAGES as usize * KEYS * 2 * SIZE);
    let out_shared = v_shared.wrapping_add(STAGES as usize * KEYS * 2 * SIZE);
    let barriers = out_shared.wrapping_add(CONSUMERS * QUERIES * 2 * SIZE).cast::<Barrier>();
    let mut q_ring = Ring::<STAGES>::new(barriers);
    let mut k_ring = Ring::<STAGES>::new(barriers.wrapping_add(Ring::<STAGES>::BARRIERS));
    let mut v_ring = Ring::<STAGES>::new(barriers.wrapping_add(2 * Ring::<STAGES>::BARRIERS));
    let mut tiles = args.tiles((CONSUMERS * QUERIES) as u32);
    let first_key = |tile: &Tile| tile.hidden / KEYS as u32 * KEYS as u32;
    // SAFETY: panels and barriers are the block's. A stage is filled once it is empty, and read once it is full. All threads
    // of a warpgroup reach its collectives.
    unsafe {
        init_once(|| {
            q_ring.init(4 * CONSUMERS as u32);
            k_ring.init(4 * CONSUMERS as u32);
            v_ring.init(4 * CONSUMERS as u32);
        });
        let warpgroup = wgmma::warpgroup_idx();
        if warpgroup == 0 {
            fewer_registers::<FEWER>();
            if tid == 0 {
                let mut copy_queries = |tile: Tile| {
                    let full = q_ring.fill((CONSUMERS * QUERIES * 2 * SIZE) as u32);
                    for consumer in 0..CONSUMERS {
                        let to = q_shared.add((q_ring.stage() * CONSUMERS + consumer) * QUERIES * 2 * SIZE);
                        let at = [tile.head, tile.row + (consumer * QUERIES) as u32, tile.batch];
                        copy::<SIZE, QUERIES, QUERIES>(to, &args.q_map, at, full);
                    }
                    q_ring.advance();
                };
                let mut next = tiles.next(&args);
                next.map(&mut copy_queries);
                while let Some(tile) = next {
                    next = tiles.next(&args);
                    // The next queries are copied early: all blocks start tiles at the same time, and want much at once.
                    let mut queries = next;
                    let mut key = first_key(&tile);
                    while key < tile.visible {
                        let at = [tile.key_head, key, tile.batch];
                        let bytes = KEYS * 2 * SIZE;
                        let full = k_ring.fill(bytes as u32);
                        copy::<SIZE, KEYS, KEYS>(k_shared.add(k_ring.stage() * bytes), &args.k_map, at, full);
                        let full = v_ring.fill(bytes as u32);
                        copy::<SIZE, KEYS, KEYS>(v_shared.add(v_ring.stage() * bytes), &args.v_map, at, full);
                        k_ring.advance();
                        v_ring.advance();
                        queries.take().map(&mut copy_queries);
                        key += KEYS as u32;
                    }
                    queries.map(&mut copy_queries);
                }
            }
        } else {
            more_registers::<MORE>();
            let consumer = warpgroup - 1;
            let panels = out_shared.add(consumer as usize * QUERIES * 2 * SIZE);
            let factor = args.scale * core::f32::consts::LOG2_E;
            let turns = Turns::new(consumer, CONSUMERS as u32);
            if consumer == 0 {
                turns.begin();
            }
            // A consumer without queries sees no more than the others.
            let mask_of = |tile: &Tile| Mask {
                keys: Keys { count: tile.visible, ..args.all_keys() },
                first: tile.row + QUERIES as u32 * consumer,
            };
            let (mut rows, mut factors) = (Online::EMPTY, [0.0; 2]);
            let mut logits = Accumulator::<S>::ZERO;
            let mut weights = fragments::<T, S, FRAGMENTS>(&logits);
            // Whether the consumer has the weights of the tile's first keys.
            let mut has_first = false;
            let mut next = tiles.next(&args);
            while let Some(tile) = next {
                next = tiles.next(&args);
                let mask = mask_of(&tile);
                let mut out = Accumulator::<O>::ZERO;
                let mut first = first_key(&tile);
                macro_rules! start_logits {
                    () => {{
                        let mut pending = logits.start();
                        wgmma::fence();
                        let q = q_shared
                            .add((q_ring.stage() * CONSUMERS + consumer as usize) * (QUERIES * 2 * SIZE));
                        let k = k_shared.add(k_ring.stage() * (KEYS * 2 * SIZE));
                        multiply_rows::<T, SIZE, KEYS, S>(&mut pending, q, k);
                        wgmma::commit();
                        pending
                    }};
                }
                macro_rules! start_sums {
                    () => {{
                        scale_rows(&mut out, factors);
                        v_ring.wait_full();
                        let mut sums = out.start();
                        wgmma::fence();
                        let v = v_shared.add(v_ring.stage() * (KEYS * 2 * SIZE));
                        multiply_columns::<T, SIZE, KEYS, O, FRAGMENTS>(&mut sums, &weights, v);
                        wgmma::commit();
                        sums
                    }};
                }
                // The logits of the keys from `first` on, over the sums of the keys before.
                macro_rules! step {
                    ($mask:expr, $first:expr, $is_masked:expr, $is_next:literal) => {{
                        k_ring.wait_full();
                        turns.wait();
                        let pending = start_logits!();
                        let sums = start_sums!();
                        turns.pass();
                        logits = pending.finish::<1>();
                        k_ring.release();
                        k_ring.advance();
                        if $is_next {
                            rows = Online::EMPTY;
                        }
                        if $is_masked && CONSUMERS == 3 {
                            // There are no registers for the mask and for sums in flight.
                            out = sums.finish::<0>();
                            $mask.apply(&mut logits, $first);
                            factors = rows.update(&mut logits.0, factor);
                        } else {
                            if $is_masked {
                                $mask.apply(&mut logits, $first);
                            }
                            factors = rows.update(&mut logits.0, factor);
                            out = sums.finish::<0>();
                        }
                        v_ring.release();
                        v_ring.advance();
                        weights = fragments::<T, S, FRAGMENTS>(&logits);
                    }};
                }
                if !has_first {
                    q_ring.wait_full();
                }
                let totals;
                if first < tile.visible {
                    if !has_first {
                        k_ring.wait_full();
                        logits = start_logits!().finish::<0>();
                        k_ring.release();
                        k_ring.advance();
                        mask.apply(&mut logits, first);
                        rows = Online::EMPTY;
                        factors = rows.update(&mut logits.0, factor);
                        weights = fragments::<T, S, FRAGMENTS>(&logits);
                    }
                    first += KEYS as u32;
                    // Steps without a mask have their own loop, so that the code of the mask is out of their way.
                    loop {
                        while mask.hides_none(first, KEYS as u32) {
                            step!(mask, first, false, false);
                            first += KEYS as u32;
                        }
                        if first >= tile.visible {
                            break;
                        }
                        step!(mask, first, true, false);
                        first += KEYS as u32;
                    }
                    totals = rows;
                    // The queries after the next may be copied.
                    q_ring.release();
                    q_ring.advance();
                    let with_keys = next.filter(|next| first_key(next) < next.visible);
                    has_first = with_keys.is_some();
                    if let Some(next) = with_keys {
                        q_ring.wait_full();
                        step!(mask_of(&next), first_key(&next), true, true);
                    } else {
                        out = start_sums!().finish::<0>();
                        v_ring.release();
                        v_ring.advance();
                    }
                } else {
                    totals = Online::EMPTY;
                    q_ring.release();
                    q_ring.advance();
                    has_first = false;
                }
                let [[a, log_a], [b, log_b]] = totals.finish(args.scale);
                scale_rows(&mut out, [a, b]);
                store_logs(&args, &tile, mask.query(), [log_a, log_b]);
                let at = [tile.head, tile.row + QUERIES as u32 * consumer, tile.batch];
                store::<T, SIZE, O>(&args.out_map, at, panels, &out, 1 + consumer);
            }
            if tid.is_multiple_of(WARPGROUP) {
                bulk::wait_read::<0>();
            }
        }
    }
}

/// The order in which consumers start their multiplications: each waits until the one before has started its own. So one
/// computes exponentials while the tensor cores work for another.
#[derive(Clone, Copy)]
pub struct Turns {
    own: u32,
    next: u32,
}

impl Turns {
    /// The first named barrier; the stores use those before it.
    const FIRST: u32 = 8;

    /// Returns the turns of a consumer.
    #[inline(always)]
    pub fn new(consumer: u32, consumers: u32) -> Self {
        let next = if consumer + 1 == consumers { 0 } else { consumer + 1 };
        Self { own: Self::FIRST + consumer, next: Self::FIRST + next }
    }

    /// Gives the first turn to the calling warpgroup.
    ///
    /// # Safety
    /// All threads of one warpgroup call this, once.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn begin(self) {
        // SAFETY: the caller's contract. The warpgroup gives itself the turn, which `wait` takes.
        unsafe { thread::arrive_named_aligned(self.own, 2 * WARPGROUP) };
    }

    /// Waits for the warpgroup's turn.
    ///
    /// # Safety
    /// All threads of the warpgroup call this, alternating with [`Self::pass`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn wait(self) {
        // SAFETY: the caller's contract.
        unsafe { thread::sync_named_aligned(self.own, 2 * WARPGROUP) };
    }

    /// Gives the turn to the next warpgroup.
    ///
    /// # Safety
    /// Same as for [`Self::wait`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn pass(self) {
        // SAFETY: the caller's contract.
        unsafe { thread::arrive_named_aligned(self.next, 2 * WARPGROUP) };
    }
}

/// Writes the logarithms of a thread's two queries, unless `log_sum_exp` is null.
///
/// # Safety
/// The arguments are a kernel's.
#[inline(always)]
unsafe fn store_logs<T>(args: &AttentionArgs<T>, tile: &Tile, query: u32, logs: [f32; 2]) {
    if args.log_sum_exp.is_null() || !thread::thread_idx_x().is_multiple_of(4) {
        return;
    }
    for (i, log) in logs.into_iter().enumerate() {
        let query = query + 8 * i as u32;
        if query < args.queries {
            // SAFETY: the query has an element, and only this thread writes it.
            unsafe { *args.log_sum_exp.add(args.log_index(tile.batch, tile.head, query)) = log };
        }
    }
}
