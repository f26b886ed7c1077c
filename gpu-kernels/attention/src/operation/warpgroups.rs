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
use cuda_std::wgmma::{self, Accumulator, Element16, FragmentA, Panel, Pending, Registers};
use cuda_std::{bulk, kernel, thread};

use super::super::args::{AttentionArgs, Keys, Tile, Tiles};
use super::super::panels::{ROWS, copy, fragments, multiply_columns, multiply_rows, store};
#[cfg(not(target_arch = "nvptx64"))]
use super::WarpgroupShape;
use super::mask::Mask;
use super::online::Online;
use super::turns::Turns;
use common_kernels::ring::{Ring, WARPGROUP, init_once};

/// Queries of a consumer.
const QUERIES: usize = ROWS;
/// Stages of Q, of K, and of V.
const STAGES: usize = 2;

/// Returns the bytes of the stages of Q, K and V, of the panels of the results, and of the barriers, after the first multiple
/// of 1024.
pub const fn shared_bytes(head_size: usize, keys: usize, consumers: usize) -> usize {
    let rows = (STAGES + 1) * consumers * QUERIES + 2 * STAGES * keys;
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
    let q = dynamic_shared_mem_aligned::<Panel<T, 8>>().cast::<u8>();
    let k = q.wrapping_add(STAGES * CONSUMERS * QUERIES * 2 * SIZE);
    let v = k.wrapping_add(STAGES * KEYS * 2 * SIZE);
    let out_shared = v.wrapping_add(STAGES * KEYS * 2 * SIZE);
    let barriers = out_shared.wrapping_add(CONSUMERS * QUERIES * 2 * SIZE).cast::<Barrier>();
    // SAFETY: the barriers are the block's. One thread fills the rings, and all lanes of the other warps use them together.
    let [q_ring, k_ring, v_ring] =
        [0, 1, 2].map(|i| unsafe { Ring::new(barriers.wrapping_add(i * Ring::<STAGES>::BARRIERS)) });
    let stages = Stages { q, k, v, q_ring, k_ring, v_ring };
    let tiles = args.tiles((CONSUMERS * QUERIES) as u32);
    // SAFETY: all threads execute this.
    unsafe {
        init_once(|| {
            for ring in [q_ring, k_ring, v_ring] {
                ring.init(4 * CONSUMERS as u32);
            }
        });
    }
    // SAFETY: all lanes of each warp execute this.
    let warpgroup = unsafe { wgmma::warpgroup_idx() };
    if warpgroup == 0 {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { fewer_registers::<FEWER>() };
        if tid == 0 {
            copy_tiles::<T, SIZE, KEYS, CONSUMERS>(&args, stages, tiles);
        }
    } else {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { more_registers::<MORE>() };
        let number = warpgroup - 1;
        // SAFETY: all threads of each consumer use its turns together, and the first consumer begins.
        let turns = unsafe { Turns::new(number, CONSUMERS as u32) };
        let logits = Accumulator::<S>::ZERO;
        Consumer::<T, SIZE, KEYS, CONSUMERS, S, O, FRAGMENTS> {
            args: &args,
            stages,
            number,
            panels: out_shared.wrapping_add(number as usize * QUERIES * 2 * SIZE),
            turns,
            rows: Online::EMPTY,
            logits,
            weights: fragments(&logits),
            factors: [0.0; 2],
            has_first: false,
        }
        .run(tiles);
    }
}

/// The stages of Q, K and V in shared memory.
#[derive(Clone, Copy)]
struct Stages {
    q: *mut u8,
    k: *mut u8,
    v: *mut u8,
    q_ring: Ring<STAGES>,
    k_ring: Ring<STAGES>,
    v_ring: Ring<STAGES>,
}

/// Returns the first key of the first tile of keys.
#[inline(always)]
fn first_key<const KEYS: usize>(tile: &Tile) -> u32 {
    tile.hidden / KEYS as u32 * KEYS as u32
}

/// Copies the queries of all tiles, and the keys and values that they see. One thread of the block calls this.
#[inline(always)]
fn copy_tiles<T: Element16, const SIZE: usize, const KEYS: usize, const CONSUMERS: usize>(
    args: &AttentionArgs<T>,
    Stages { q, k, v, mut q_ring, mut k_ring, mut v_ring }: Stages,
    mut tiles: Tiles,
) {
    let mut copy_queries = |tile: Tile| {
        let full = q_ring.fill((CONSUMERS * QUERIES * 2 * SIZE) as u32);
        for consumer in 0..CONSUMERS {
            let at = [tile.head, tile.row + (consumer * QUERIES) as u32, tile.batch];
            // SAFETY: the stage lies in shared memory, and is empty.
            unsafe {
                let to = q.add((q_ring.stage() * CONSUMERS + consumer) * QUERIES * 2 * SIZE);
                copy::<SIZE, QUERIES, QUERIES>(to, &args.q_map, at, full);
            }
        }
        q_ring.advance();
    };
    let mut next = tiles.next(args);
    next.map(&mut copy_queries);
    while let Some(tile) = next {
        next = tiles.next(args);
        // The next queries are copied early: all blocks start tiles at the same time, and want much at once.
        let mut queries = next;
        let mut key = first_key::<KEYS>(&tile);
        while key < tile.visible {
            let at = [tile.key_head, key, tile.batch];
            let bytes = KEYS * 2 * SIZE;
            // SAFETY: the stages lie in shared memory, and are empty once `fill` returns.
            unsafe {
                let full = k_ring.fill(bytes as u32);
                copy::<SIZE, KEYS, KEYS>(k.add(k_ring.stage() * bytes), &args.k_map, at, full);
                let full = v_ring.fill(bytes as u32);
                copy::<SIZE, KEYS, KEYS>(v.add(v_ring.stage() * bytes), &args.v_map, at, full);
            }
            k_ring.advance();
            v_ring.advance();
            queries.take().map(&mut copy_queries);
            key += KEYS as u32;
        }
        queries.map(&mut copy_queries);
    }
}

/// A warpgroup that computes 64 queries of each tile. All its threads call the methods together.
struct Consumer<
    'a,
    T,
    const SIZE: usize,
    const KEYS: usize,
    const CONSUMERS: usize,
    const S: usize,
    const O: usize,
    const FRAGMENTS: usize,
> {
    args: &'a AttentionArgs<T>,
    stages: Stages,
    number: u32,
    /// Its part of the result, on the way to global memory.
    panels: *mut u8,
    turns: Turns,
    rows: Online,
    logits: Accumulator<S>,
    /// The exponentials of the last logits, whose values are not added yet.
    weights: [FragmentA<T>; FRAGMENTS],
    /// The factors of the sums before these values.
    factors: [f32; 2],
    /// Whether these are the weights of the tile's first keys.
    has_first: bool,
}

impl<
    T: Element16,
    const SIZE: usize,
    const KEYS: usize,
    const CONSUMERS: usize,
    const S: usize,
    const O: usize,
    const FRAGMENTS: usize,
> Consumer<'_, T, SIZE, KEYS, CONSUMERS, S, O, FRAGMENTS>
where
    [f32; S]: Registers,
    [f32; O]: Registers,
{
    /// Computes and stores the tiles.
    #[inline(always)]
    fn run(mut self, mut tiles: Tiles) {
        if self.number == 0 {
            self.turns.begin();
        }
        let mut next = tiles.next(self.args);
        while let Some(tile) = next {
            next = tiles.next(self.args);
            let mask = self.mask(&tile);
            let (mut out, totals) = self.compute(&tile, mask, next);
            // SAFETY: all threads of the warpgroup execute this, and only they use the panels.
            unsafe {
                let [[a, log_a], [b, log_b]] = totals.finish(self.args.scale);
                out.scale_rows([a, b]);
                self.args.store_logs(&tile, mask.query(), [log_a, log_b]);
                let at = [tile.head, mask.first, tile.batch];
                store::<T, SIZE, O>(&self.args.out_map, at, self.panels, &out, 1 + self.number);
            }
        }
        if thread::thread_idx_x().is_multiple_of(WARPGROUP) {
            bulk::wait_read::<0>();
        }
    }

    /// Returns the mask of the warpgroup's queries. Without queries it sees no more keys than the other warpgroups.
    #[inline(always)]
    fn mask(&self, tile: &Tile) -> Mask {
        let keys = Keys { count: tile.visible, ..self.args.all_keys() };
        Mask { keys, first: tile.row + QUERIES as u32 * self.number }
    }

    /// Returns the results of a tile, before the division by the sums of exponentials, and these sums. The last keys of the
    /// tile come with the first keys of the next.
    #[inline(always)]
    fn compute(&mut self, tile: &Tile, mask: Mask, next: Option<Tile>) -> (Accumulator<O>, Online) {
        let mut out = Accumulator::<O>::ZERO;
        let mut first = first_key::<KEYS>(tile);
        if !self.has_first {
            self.stages.q_ring.wait_full();
        }
        if first >= tile.visible {
            self.stages.q_ring.release_and_advance();
            self.has_first = false;
            return (out, Online::EMPTY);
        }
        if !self.has_first {
            self.stages.k_ring.wait_full();
            // SAFETY: all threads of the warpgroup execute this.
            self.logits = unsafe { self.start_logits().finish::<0>() };
            self.stages.k_ring.release_and_advance();
            self.rows = Online::EMPTY;
            self.exponentiate(Some((mask, first)));
            self.weights = fragments(&self.logits);
        }
        first += KEYS as u32;
        // Steps without a mask have their own loop, so that the code of the mask is out of their way.
        loop {
            while mask.hides_none(first, KEYS as u32) {
                out = self.step(out, None);
                first += KEYS as u32;
            }
            if first >= tile.visible {
                break;
            }
            out = self.step(out, Some((mask, first)));
            first += KEYS as u32;
        }
        let totals = self.rows;
        // The queries after the next may be copied.
        self.stages.q_ring.release_and_advance();
        let with_keys = next.filter(|next| first_key::<KEYS>(next) < next.visible);
        self.has_first = with_keys.is_some();
        if let Some(next) = with_keys {
            self.stages.q_ring.wait_full();
            self.rows = Online::EMPTY;
            out = self.step(out, Some((self.mask(&next), first_key::<KEYS>(&next))));
        } else {
            // SAFETY: all threads of the warpgroup execute this.
            out = unsafe { self.start_sums(out).finish::<0>() };
            self.stages.v_ring.release_and_advance();
        }
        (out, totals)
    }

    /// Computes the weights of the next keys while the tensor cores add the values of these keys to `out`. Some of the next
    /// keys may be hidden by a mask, which comes with the first of them.
    #[inline(always)]
    fn step(&mut self, mut out: Accumulator<O>, mask: Option<(Mask, u32)>) -> Accumulator<O> {
        self.stages.k_ring.wait_full();
        self.turns.wait();
        let logits = self.start_logits();
        let sums = self.start_sums(out);
        self.turns.pass();
        // SAFETY: all threads of the warpgroup execute this. Of the two groups, the later one writes the sums.
        self.logits = unsafe { logits.finish::<1>() };
        self.stages.k_ring.release_and_advance();
        if mask.is_some() && CONSUMERS == 3 {
            // There are no registers for the mask and for sums in flight.
            // SAFETY: all threads of the warpgroup execute this.
            out = unsafe { sums.finish::<0>() };
            self.exponentiate(mask);
        } else {
            self.exponentiate(mask);
            // SAFETY: all threads of the warpgroup execute this.
            out = unsafe { sums.finish::<0>() };
        }
        self.stages.v_ring.release_and_advance();
        self.weights = fragments(&self.logits);
        out
    }

    /// Starts the logits of the keys in the stage of K.
    #[inline(always)]
    fn start_logits(&self) -> Pending<S> {
        let Stages { q, k, q_ring, k_ring, .. } = self.stages;
        // SAFETY: all threads of the warpgroup execute this. The stages are full until all warps have released them.
        unsafe {
            let q = q.add((q_ring.stage() * CONSUMERS + self.number as usize) * (QUERIES * 2 * SIZE));
            let k = k.add(k_ring.stage() * (KEYS * 2 * SIZE));
            multiply_rows::<T, SIZE, KEYS, S>(self.logits, q, k)
        }
    }

    /// Scales the sums, and starts to add the values, once the stage of V is full.
    #[inline(always)]
    fn start_sums(&self, mut out: Accumulator<O>) -> Pending<O> {
        let Stages { v, v_ring, .. } = self.stages;
        out.scale_rows(self.factors);
        v_ring.wait_full();
        // SAFETY: all threads of the warpgroup execute this. The stage is full until all warps have released it.
        unsafe {
            let v = v.add(v_ring.stage() * (KEYS * 2 * SIZE));
            multiply_columns::<T, SIZE, KEYS, O, FRAGMENTS>(out, &self.weights, v)
        }
    }

    /// Masks the logits, and replaces them by exponentials.
    #[inline(always)]
    fn exponentiate(&mut self, mask: Option<(Mask, u32)>) {
        if let Some((mask, first)) = mask {
            mask.apply(&mut self.logits, first);
        }
        let factor = self.args.scale * core::f32::consts::LOG2_E;
        // SAFETY: all lanes of the warp execute this.
        self.factors = unsafe { self.rows.update(&mut self.logits, factor) };
    }
}
