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
//@ ptx(attention_bf16_128_2w, compute_90a): setmaxnreg == 2, .local == 0
//@ ptx(attention_f16_64_2w, attention_bf16_64_3w, compute_90a): setmaxnreg == 2, .local == 0
//@ ptx(attention_f16_80_2w, attention_bf16_256_2w, attention_bf16_64_ragged, compute_90a): setmaxnreg == 2, .local == 0

use cuda_std::barrier::Barrier;
use cuda_std::half::{bf16, f16};
use cuda_std::hint::{fewer_registers, more_registers};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::tensor::TensorMap;
use cuda_std::wgmma::{self, Accumulator, Element16, Panel, Registers};
use cuda_std::{kernel, thread, warp};

use super::super::args::{AttentionArgs, Keys, Tile, Tiles, page_rows};
use super::super::panels::{ROWS, bytes, copy, copy_box, fragments};
#[cfg(not(target_arch = "nvptx64"))]
use super::WarpgroupShape;
use super::online::Online;
use super::turns::Turns;
use super::warpgroup_consumer::Consumer;
use common_kernels::ring::{Ring, init_once};

/// Queries of a consumer.
pub(super) const QUERIES: usize = ROWS;
/// Stages of K, and of V; of Q too if tiles share blocks.
const STAGES: usize = 2;

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
pub(super) struct Stages {
    pub q: *mut u8,
    pub k: *mut u8,
    pub v: *mut u8,
    pub q_ring: Ring<STAGES>,
    pub k_ring: Ring<STAGES>,
    pub v_ring: Ring<STAGES>,
}

/// Returns the first key of the first tile of keys.
#[inline(always)]
pub(super) fn first_key<const KEYS: usize>(tile: &Tile) -> u32 {
    tile.hidden / KEYS as u32 * KEYS as u32
}

/// Returns the keys of a batch entry, which exists.
#[inline(always)]
pub(super) fn keys_of<T, const RAGGED: bool>(args: &AttentionArgs<T>, batch: u32) -> Keys {
    // SAFETY: the batch entry exists.
    if RAGGED { unsafe { args.keys_of(batch) } } else { args.all_keys() }
}

/// Returns the block's first tile.
#[inline(always)]
pub(super) fn first_tile<T, const RAGGED: bool>(tiles: &mut Tiles, args: &AttentionArgs<T>) -> Option<Tile> {
    tiles.next(args, |batch| keys_of::<T, RAGGED>(args, batch))
}

/// Returns the block's tile after the first ones.
#[inline(always)]
pub(super) fn next_tile<T, const SIZE: usize, const RAGGED: bool>(
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
