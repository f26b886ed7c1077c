//! Attention by `wgmma` and tensor copies (compute capability 9.0, `compute_90a`), for `bf16` and `f16` and heads of up to
//! 256 elements.
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
//! A head size that is not an instance's uses the next larger one: tensor copies fill rows with zeros, and write no more than
//! the rows of the result have.
//!
//! For heads of more than 128 elements there is no memory to copy the next tile meanwhile: a block computes one tile, and its
//! result replaces its queries. The same kernels with `RAGGED` take keys in pages, and batch entries with their own lengths,
//! whose tiles have different costs. The lanes of the copying warp look up a page each, while the tile before is copied.
//!
//! Heads of up to 64 elements leave registers for a third consumer, which hides more of the exponentials behind multiplications.
//! Its larger tiles are worth it from a few thousand keys on.
//@ ptx(attention_bf16_128_2w, compute_90a): setmaxnreg == 2, .local == 0
//@ ptx(attention_f16_64_2w, attention_bf16_64_3w, compute_90a): setmaxnreg == 2, .local == 0
//@ ptx(attention_f16_80_2w, attention_bf16_256_2w, attention_bf16_64_ragged, compute_90a): setmaxnreg == 2, .local == 0

use cuda_std::barrier::Barrier;
use cuda_std::half::{bf16, f16};
use cuda_std::hint::{fewer_registers, more_registers};
use cuda_std::mem::{store_shared, u32x4};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::tensor::TensorMap;
use cuda_std::wgmma::{self, Accumulator, Element16, FragmentA, Panel, Pending, Registers};
use cuda_std::{bulk, kernel, thread, warp};

use super::super::args::{AttentionArgs, Keys, Tile, Tiles, page_rows};
use super::super::panels::{
    COLS, ROW, ROWS, bytes, copy, copy_box, fragments, multiply_columns, multiply_rows, store,
};
#[cfg(not(target_arch = "nvptx64"))]
use super::WarpgroupShape;
use super::mask::Mask;
use super::online::Online;
use super::turns::Turns;
use common_kernels::ring::{Ring, WARPGROUP, init_once};

/// Queries of a consumer.
const QUERIES: usize = ROWS;
/// Stages of K, and of V; of Q too if tiles share blocks.
const STAGES: usize = 2;

/// Vectors of a panel's row.
const CHUNKS: u32 = (ROW / size_of::<u32x4>()) as u32;
/// The named barrier of all consumers; the turns and the stores use others.
const CLEARED: u32 = 7;

/// Returns whether a block computes several tiles.
pub const fn has_many_tiles(head_size: usize, is_ragged: bool) -> bool {
    head_size <= 128 && !is_ragged
}

/// Returns the sets of queries of a block, with the results as one of them.
const fn query_sets(head_size: usize, is_ragged: bool) -> usize {
    if has_many_tiles(head_size, is_ragged) { STAGES + 1 } else { 1 }
}

/// Returns the bytes of the stages of Q, K and V, of the panels of the results, and of the barriers, after the first multiple
/// of 1024.
pub const fn shared_bytes(head_size: usize, keys: usize, consumers: usize, is_ragged: bool) -> usize {
    let rows = query_sets(head_size, is_ragged) * consumers * QUERIES + 2 * STAGES * keys;
    bytes(rows, head_size) + size_of::<Barrier>() * 3 * Ring::<STAGES>::BARRIERS
}

/// Computes attention, through the maps of Q, K, V and the result. A map has the dimensions head size, heads, length and
/// batch or pages, the innermost first. Its boxes have 64 columns of one head and one batch entry; `facts` states their
/// positions, which for pages are [`page_rows`].
///
/// Launched with any number of blocks along x, which share the tiles of queries of all heads of the batch, or with a block per
/// tile unless [`has_many_tiles`]; with the threads and the shared memory of `facts`.
///
/// # Safety
/// The launch is as described. The head size is a multiple of 8, at most the kernel's. The tensors match their shapes and maps, and no other code
/// uses `out` and `log_sum_exp`. Without keys the maps of K and V are not used. `page_table` and `lengths` are null unless the
/// kernel is `RAGGED`.
#[kernel(
    with(S = KEYS / 2, O = SIZE / 2, FRAGMENTS = KEYS / 16, THREADS = 128 * CONSUMERS + 128),
    max_threads = THREADS,
    min_blocks = 1,
    arch = "90a",
    args,
    facts: WarpgroupShape = WarpgroupShape::new(SIZE, KEYS, CONSUMERS, RAGGED, THREADS),
    instances(
        // `FEWER` registers of a thread that copies, `MORE` of one that computes: as many together as at the launch.
        for T in [bf16, f16], CONSUMERS = 2, RAGGED = false, FEWER = 24, MORE = 240 {
            attention_{T}_256_2w = <256, 80>;
            attention_{T}_192_2w = <192, 112>;
            attention_{T}_128_2w = <128, 128>;
            attention_{T}_112_2w = <112, 128>;
            attention_{T}_96_2w = <96, 128>;
            attention_{T}_80_2w = <80, 128>;
            attention_{T}_64_2w = <64, 128>;
        }
        for T in [bf16, f16], CONSUMERS = 3, FEWER = 32, MORE = 160 {
            attention_{T}_64_3w = <64, 128, false>;
            attention_{T}_64_ragged = <64, 128, true>;
        }
        for T in [bf16, f16], CONSUMERS = 2, RAGGED = true, FEWER = 40, MORE = 232 {
            attention_{T}_256_ragged = <256, 64>;
            attention_{T}_192_ragged = <192, 96>;
            attention_{T}_128_ragged = <128, 128>;
        }
    ),
)]
pub unsafe fn attention_warpgroups<
    T: Element16,
    const SIZE: usize,
    const KEYS: usize,
    const CONSUMERS: usize,
    const RAGGED: bool,
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
    let set = CONSUMERS * const { bytes(QUERIES, SIZE) };
    let out_shared = q.wrapping_add(const { query_sets(SIZE, RAGGED) - 1 } * set);
    let k = out_shared.wrapping_add(set);
    let v = k.wrapping_add(STAGES * const { bytes(KEYS, SIZE) });
    let barriers = v.wrapping_add(STAGES * const { bytes(KEYS, SIZE) }).cast::<Barrier>();
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
        if tid < const { if RAGGED { 32 } else { 1 } } {
            copy_tiles::<T, SIZE, KEYS, CONSUMERS, RAGGED>(&args, stages, tiles);
        }
    } else {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { more_registers::<MORE>() };
        let number = warpgroup - 1;
        // SAFETY: all threads of each consumer use its turns together, and the first consumer begins.
        let turns = unsafe { Turns::new(number, CONSUMERS as u32) };
        let logits = Accumulator::<S>::ZERO;
        Consumer::<T, SIZE, KEYS, CONSUMERS, RAGGED, S, O, FRAGMENTS> {
            args: &args,
            stages,
            number,
            panels: out_shared.wrapping_add(number as usize * const { bytes(QUERIES, SIZE) }),
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

/// Returns the keys of a batch entry, which exists.
#[inline(always)]
fn keys_of<T, const RAGGED: bool>(args: &AttentionArgs<T>, batch: u32) -> Keys {
    // SAFETY: the batch entry exists.
    if RAGGED { unsafe { args.keys_of(batch) } } else { args.all_keys() }
}

/// Returns the block's first tile.
#[inline(always)]
fn first_tile<T, const RAGGED: bool>(tiles: &mut Tiles, args: &AttentionArgs<T>) -> Option<Tile> {
    tiles.next(args, |batch| keys_of::<T, RAGGED>(args, batch))
}

/// Returns the block's tile after the first ones.
#[inline(always)]
fn next_tile<T, const SIZE: usize, const RAGGED: bool>(
    tiles: &mut Tiles,
    args: &AttentionArgs<T>,
) -> Option<Tile> {
    if const { has_many_tiles(SIZE, RAGGED) } { first_tile::<T, RAGGED>(tiles, args) } else { None }
}

/// Copies the queries of all tiles, and the keys and values that they see. One thread of the block calls this, or, if the keys
/// may be in pages, the lanes of one warp, the first of which copies.
#[inline(always)]
fn copy_tiles<
    T: Element16,
    const SIZE: usize,
    const KEYS: usize,
    const CONSUMERS: usize,
    const RAGGED: bool,
>(
    args: &AttentionArgs<T>,
    Stages { q, k, v, mut q_ring, mut k_ring, mut v_ring }: Stages,
    mut tiles: Tiles,
) {
    let lane = thread::thread_idx_x();
    let mut copy_queries = |tile: Tile| {
        if lane != 0 {
            return;
        }
        let full = q_ring.fill((CONSUMERS * const { bytes(QUERIES, SIZE) }) as u32);
        for consumer in 0..CONSUMERS {
            let at = [tile.head, tile.row + (consumer * QUERIES) as u32, tile.batch];
            // SAFETY: the stage lies in shared memory, and is empty.
            unsafe {
                let to = q.add((q_ring.stage() * CONSUMERS + consumer) * const { bytes(QUERIES, SIZE) });
                copy::<SIZE, QUERIES, QUERIES>(to, &args.q_map, at, full);
            }
        }
        q_ring.advance();
    };
    let mut next = first_tile::<T, RAGGED>(&mut tiles, args);
    next.map(&mut copy_queries);
    while let Some(tile) = next {
        next = next_tile::<T, SIZE, RAGGED>(&mut tiles, args);
        // The next queries are copied early: all blocks start tiles at the same time, and want much at once.
        let mut queries = next;
        let mut key = first_key::<KEYS>(&tile);
        let mut boxes = Boxes::new::<T, KEYS, RAGGED>(args, &tile, key);
        while key < tile.visible {
            let now = boxes;
            key += KEYS as u32;
            boxes = Boxes::new::<T, KEYS, RAGGED>(args, &tile, key);
            let copy_to = |stage: *mut u8, ring: &mut Ring<STAGES>, map: &TensorMap| {
                let bytes = const { bytes(KEYS, SIZE) };
                let full = if lane == 0 { ring.fill(bytes as u32) } else { core::ptr::null_mut() };
                // SAFETY: the stage lies in shared memory, and is empty. All lanes execute this.
                unsafe {
                    now.copy::<SIZE, KEYS, RAGGED>(stage.add(ring.stage() * bytes), map, tile.key_head, full)
                };
                ring.advance();
            };
            copy_to(k, &mut k_ring, &args.k_map);
            copy_to(v, &mut v_ring, &args.v_map);
            queries.take().map(&mut copy_queries);
        }
        queries.map(&mut copy_queries);
    }
}

/// The boxes of a tile of keys: each lane has the place of one.
#[derive(Clone, Copy)]
struct Boxes {
    /// Rows of each box.
    rows: u32,
    /// The box's first position in its batch entry or page, and which one.
    at: [u32; 2],
}

impl Boxes {
    /// Returns those of the tile of keys from `first` on. After the keys that the tile sees, there are zeros.
    #[inline(always)]
    fn new<T, const KEYS: usize, const RAGGED: bool>(
        args: &AttentionArgs<T>,
        tile: &Tile,
        first: u32,
    ) -> Self {
        if !RAGGED || args.page_table.is_null() {
            return Self { rows: KEYS as u32, at: [first, tile.batch] };
        }
        let rows = page_rows(args.page_size, KEYS as u32);
        let key = first + rows * warp::lane_id();
        // There is no page `pages`, so nothing of it is read.
        let is_seen = key < tile.visible && key < first + KEYS as u32;
        // SAFETY: the key exists.
        let [page, position] = if is_seen { unsafe { args.page(tile.batch, key) } } else { [args.pages, 0] };
        Self { rows, at: [position, page] }
    }

    /// Starts the copies of the boxes.
    ///
    /// # Safety
    /// Same as for [`copy_box`], for the first lane. All lanes of the warp call this, or with `RAGGED` false one thread.
    #[inline(always)]
    unsafe fn copy<const SIZE: usize, const KEYS: usize, const RAGGED: bool>(
        self,
        to: *mut u8,
        map: &TensorMap,
        head: u32,
        full: *mut Barrier,
    ) {
        let (mut row, mut lane) = (0, 0);
        while row < KEYS as u32 {
            let [mut position, mut entry] = self.at;
            // SAFETY: all lanes execute this, and the first one has the room and the barrier.
            unsafe {
                if RAGGED {
                    (position, _) = warp::warp_shuffle_idx(u32::MAX, position, lane, 32);
                    (entry, _) = warp::warp_shuffle_idx(u32::MAX, entry, lane, 32);
                }
                if !RAGGED || thread::thread_idx_x() == 0 {
                    copy_box::<SIZE, KEYS>(to, row as usize, map, [head, position, entry], full);
                }
            }
            row += if RAGGED { self.rows } else { KEYS as u32 };
            lane += 1;
        }
    }
}

/// A warpgroup that computes 64 queries of each tile. All its threads call the methods together.
struct Consumer<
    'a,
    T,
    const SIZE: usize,
    const KEYS: usize,
    const CONSUMERS: usize,
    const RAGGED: bool,
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
    const RAGGED: bool,
    const S: usize,
    const O: usize,
    const FRAGMENTS: usize,
> Consumer<'_, T, SIZE, KEYS, CONSUMERS, RAGGED, S, O, FRAGMENTS>
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
        let mut next = first_tile::<T, RAGGED>(&mut tiles, self.args);
        while let Some(tile) = next {
            next = next_tile::<T, SIZE, RAGGED>(&mut tiles, self.args);
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
        let keys = Keys { count: tile.visible, ..keys_of::<T, RAGGED>(self.args, tile.batch) };
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
        if RAGGED {
            self.clear_values(tile.visible - (first - KEYS as u32));
        }
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
        if mask.is_some() && const { CONSUMERS == 3 || SIZE > 192 } {
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
            let q =
                q.add((q_ring.stage() * CONSUMERS + self.number as usize) * const { bytes(QUERIES, SIZE) });
            let k = k.add(k_ring.stage() * const { bytes(KEYS, SIZE) });
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
            let v = v.add(v_ring.stage() * const { bytes(KEYS, SIZE) });
            multiply_columns::<T, SIZE, KEYS, O, FRAGMENTS>(out, &self.weights, v)
        }
    }

    /// Replaces the rows of V from `from` on by zeros, once the stage of V is full: they may be anything after the last key of a
    /// batch entry, and a weight of 0 does not hide a NaN.
    #[inline(always)]
    fn clear_values(&self, from: u32) {
        let Stages { v, v_ring, .. } = self.stages;
        if from >= KEYS as u32 {
            return;
        }
        v_ring.wait_full();
        let all = CONSUMERS as u32 * WARPGROUP;
        let mut i = WARPGROUP * self.number + thread::thread_idx_x() % WARPGROUP + from * CHUNKS;
        // SAFETY: all consumers execute this, and each chunk of the stage is written by one thread, before any reads it.
        unsafe {
            let v = v.add(v_ring.stage() * const { bytes(KEYS, SIZE) });
            while i < KEYS as u32 * CHUNKS {
                let mut panel = 0;
                while panel < SIZE.div_ceil(COLS) {
                    let to = v.add(panel * KEYS * ROW + i as usize * size_of::<u32x4>());
                    store_shared(to.cast(), u32x4::default());
                    panel += 1;
                }
                i += all;
            }
            bulk::fence_shared();
            thread::sync_named_aligned(CLEARED, all);
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
