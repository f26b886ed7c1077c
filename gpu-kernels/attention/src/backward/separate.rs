//! The gradients of Q, K and V apart, by `wgmma` and tensor copies (compute capability 9.0, `compute_90a`).
//!
//! A block adds up the gradients of 128 rows, 64 for each of two consumer warpgroups: dQ of queries over the keys that they
//! see, or dK and dV of keys over the queries that see them. Heads of more than 128 elements leave registers for dK or for dV,
//! in blocks of their own. So P is computed twice or three times, but no sum is in global memory, no block waits for another
//! one, and there are more blocks than in [`super::warpgroups`].
//!
//! Two threads of another warpgroup copy the block's rows, and then the other ones, 64 at a time, into two rings: Q or K, of
//! which consumers compute the logits, and the gradients of the results or V. A consumer computes P and dS with its own rows
//! first, and keeps both in registers: they are the first operand of the multiplications that add them to the gradients.
//!
//! If there are few sums, several blocks share each of them. The last block to finish its part adds up all parts, in order.
//@ ptx(attention_bf16_192_separate_gradients, attention_f16_256_separate_gradients, compute_90a): setmaxnreg == 6
//@ allow-local(attention_bf16_256_separate_gradients, attention_f16_256_separate_gradients): too few registers for all sums

use cuda_std::barrier::Barrier;
use cuda_std::half::{bf16, f16};
use cuda_std::hint::{fewer_registers, more_registers};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{self, Element16, Panel, Registers};
use cuda_std::{bulk, grid, kernel, thread};

use super::super::panels::{ROWS, bytes, copy};
#[cfg(not(target_arch = "nvptx64"))]
use super::FusedShape;
use super::args::{BackwardArgs, KeyTile};
use common_kernels::ring::{Ring, init_once};

/// Warpgroups that compute.
pub(super) const CONSUMERS: usize = 2;
/// Threads of a block.
const THREADS: usize = 128 * (CONSUMERS + 1);
/// Rows whose gradients a block computes.
pub const TILE: u32 = (CONSUMERS * ROWS) as u32;
/// Statistics of a stage.
const STATS: usize = 2 * ROWS;

/// What a block computes: a bit for dK or dQ, and a bit for dV.
pub(super) const DQ: u32 = 0;
const DK: u32 = 1;
pub(super) const DV: u32 = 2;
const DK_AND_DV: u32 = DK | DV;

/// Returns the blocks for a tile of keys.
pub const fn blocks_of_keys(head_size: u32) -> u32 {
    if head_size > 128 { 2 } else { 1 }
}

/// Returns the tiles of 64 rows of sums that a consumer leaves of a part.
pub(super) const fn tiles_of_part(head_size: usize) -> usize {
    if head_size > 128 { 1 } else { 2 }
}

/// Returns the elements of sums that a block leaves of a part.
pub const fn elements_of_part(head_size: u32) -> usize {
    tiles_of_part(head_size as usize) * (TILE * head_size) as usize
}

/// Returns the bytes of the block's rows, the stages, the statistics and the barriers, after the first multiple of 1024.
const fn shared_bytes(head_size: usize, first: usize, stages: usize) -> usize {
    let rows = bytes((2 * CONSUMERS + first + stages) * ROWS, head_size);
    let barriers = 2 * (2 + first + stages + 1);
    rows + first * STATS * size_of::<f32>() + barriers * size_of::<Barrier>()
}

/// Computes `dq`, `dk` and `dv`, through the maps of all tensors but the result: [`super::warpgroups`] describes them.
///
/// Launched with [`blocks_of_keys`] times `key_parts` blocks for each [`TILE`] keys of all heads of K in the batch, and with
/// `query_parts` blocks for each [`TILE`] queries of all heads; with the threads and the shared memory of `facts`. If there are
/// several parts, `sums` has [`elements_of_part`] for each block, and `turns` holds two zeros for each sum of parts.
///
/// # Safety
/// The launch is as described. The head size is a multiple of 8, at most the kernel's. The tensors match their shapes and maps.
/// `stats` and `turns` hold the output of [`super::delta`]. No other code uses `dq`, `dk`, `dv`, `sums` and `turns`.
#[kernel(
    with(O = SIZE / 2, MORE_STAGES = STAGES + 1),
    max_threads = 384,
    min_blocks = 1,
    arch = "90a",
    args,
    facts: FusedShape = FusedShape::of_warpgroups(SIZE, [TILE; 2], THREADS, shared_bytes(SIZE, FIRST, STAGES)),
    instances(
        for T in [bf16, f16] {
            attention_{T}_64_separate_gradients = <64, 4, 4>;
            attention_{T}_96_separate_gradients = <96, 4, 4>;
            attention_{T}_128_separate_gradients = <128, 4, 4>;
            attention_{T}_192_separate_gradients = <192, 3, 2>;
            attention_{T}_256_separate_gradients = <256, 2, 1>;
        }
    ),
)]
pub unsafe fn attention_separate_gradients<
    T: Element16,
    const SIZE: usize,
    const FIRST: usize,
    const STAGES: usize,
    const O: usize,
    const MORE_STAGES: usize,
>(
    args: BackwardArgs<T>,
) where
    [f32; O]: Registers,
{
    let start = dynamic_shared_mem_aligned::<Panel<T, 8>>().cast();
    let of_tile = const { blocks_of_keys(SIZE as u32) };
    let of_keys = of_tile * args.keys.div_ceil(TILE) * args.key_heads * args.batch;
    let block = thread::block_idx_x();
    // SAFETY: all threads execute this, and the same branch. The launch brings the memory.
    unsafe {
        core::hint::assert_unchecked(args.key_parts != 0);
        if block >= of_keys * args.key_parts {
            Block::<T, SIZE, FIRST, STAGES, O, DQ>::new(&args, start, block).run();
        } else if of_tile == 1 {
            Block::<T, SIZE, FIRST, STAGES, O, DK_AND_DV>::new(&args, start, block).run();
        } else if (block / args.key_parts).is_multiple_of(of_tile) {
            Block::<T, SIZE, FIRST, STAGES, O, DK>::new(&args, start, block).run();
        } else {
            // The rows of V lie in stages.
            Block::<T, SIZE, FIRST, MORE_STAGES, O, DV>::new(&args, start, block).run();
        }
    }
}

/// A part of the tiles over which blocks add up.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// The number of the sum.
    pub of: u32,
    /// The number of the part.
    pub number: u32,
    /// The number of parts.
    pub count: u32,
}

/// The tiles of 64 queries, or of keys, over which a block adds up.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    head: u32,
    pub at: u32,
    pub first: u32,
    pub end: u32,
    pub left: u32,
}

impl Steps {
    #[inline(always)]
    pub fn position(&self) -> u32 {
        self.at * ROWS as u32
    }

    #[inline(always)]
    pub fn advance(&mut self) {
        self.left -= 1;
        self.at += 1;
        if self.at == self.end {
            (self.at, self.head) = (self.first, self.head + 1);
        }
    }
}

/// A block's work, and its memory: its rows of K or Q, stages, its rows of V or of the gradients of the results, statistics
/// and barriers.
#[derive(Clone, Copy)]
pub(super) struct Block<
    'a,
    T,
    const SIZE: usize,
    const FIRST: usize,
    const STAGES: usize,
    const O: usize,
    const WHAT: u32,
> {
    pub args: &'a BackwardArgs<T>,
    pub start: *mut u8,
    pub tile: KeyTile,
    pub part: Part,
}

impl<
    'a,
    T: Element16,
    const SIZE: usize,
    const FIRST: usize,
    const STAGES: usize,
    const O: usize,
    const WHAT: u32,
> Block<'a, T, SIZE, FIRST, STAGES, O, WHAT>
where
    [f32; O]: Registers,
{
    pub const OF_KEYS: bool = WHAT != DQ;
    pub const HAS_DV: bool = WHAT & DV != 0;
    pub const HAS_DS: bool = WHAT != DV;
    /// Bytes of 64 rows.
    const ROWS_BYTES: usize = bytes(ROWS, SIZE);

    /// Returns the work of a block.
    #[inline(always)]
    pub fn new(args: &'a BackwardArgs<T>, start: *mut u8, block: u32) -> Self {
        let of_tile = const { blocks_of_keys(SIZE as u32) };
        let (count, heads) = (args.key_parts, args.key_heads * args.batch);
        let tiles = args.keys.div_ceil(TILE);
        // SAFETY: the parts are at least 1. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(count != 0 && args.query_parts != 0) };
        if Self::OF_KEYS {
            let part = Part { of: block / count, number: block % count, count };
            let (index, head) = args.tile_in_order(part.of / of_tile, tiles, heads, 1);
            return Self { args, start, tile: KeyTile::new(index * TILE, head, args.key_heads), part };
        }
        let of_keys = of_tile * tiles * heads;
        let (block, tiles) = (block - of_keys * count, args.queries.div_ceil(TILE));
        let (number, counted) = (block / args.query_parts, if count > 1 { of_keys } else { 0 });
        let (index, head) = args.tile_in_order(number, tiles, args.heads * args.batch, args.group);
        let part = Part { of: counted + number, number: block % args.query_parts, count: args.query_parts };
        Self { args, start, tile: KeyTile::new((tiles - 1 - index) * TILE, head, args.heads), part }
    }

    #[inline(always)]
    fn rows(self, i: usize) -> *mut u8 {
        self.start.wrapping_add(i * Self::ROWS_BYTES)
    }

    /// A consumer's rows: the first ones of K or Q, the second ones of V or of the gradients of the results.
    #[inline(always)]
    pub fn own(self, is_second: bool, consumer: usize) -> *mut u8 {
        self.rows(if is_second { CONSUMERS + FIRST + STAGES } else { 0 } + consumer)
    }

    /// A stage of the first ring.
    #[inline(always)]
    pub fn first(self, stage: usize) -> *mut u8 {
        self.rows(CONSUMERS + stage)
    }

    /// A stage of the second ring.
    #[inline(always)]
    pub fn second(self, stage: usize) -> *mut u8 {
        self.rows(CONSUMERS + FIRST + stage)
    }

    /// The statistics of queries in a stage of the first ring.
    #[inline(always)]
    pub fn stats(self, stage: usize) -> *mut f32 {
        let rows = 2 * CONSUMERS + FIRST + STAGES - usize::from(WHAT == DV);
        self.rows(rows).cast::<f32>().wrapping_add(stage * STATS)
    }

    #[inline(always)]
    fn ring<const N: usize>(self, first: usize) -> Ring<N> {
        let barriers = self.stats(FIRST).cast::<Barrier>();
        // SAFETY: the barriers are the block's. One thread fills each ring, and all lanes of other warps release it together.
        unsafe { Ring::new(barriers.wrapping_add(first)) }
    }

    /// The ring of the block's first or second rows, which are copied once.
    #[inline(always)]
    pub fn own_ring(self, is_second: bool) -> Ring<1> {
        self.ring(2 * usize::from(is_second))
    }

    #[inline(always)]
    pub fn first_ring(self) -> Ring<FIRST> {
        self.ring(4)
    }

    #[inline(always)]
    pub fn second_ring(self) -> Ring<STAGES> {
        self.ring(4 + 2 * FIRST)
    }

    /// Returns the tiles over which the block adds up the gradients of `count` rows from number `own` on.
    #[inline(always)]
    pub fn steps(self, own: u32, count: u32) -> Steps {
        let (args, KeyTile { head, .. }) = (self.args, self.tile);
        // SAFETY: there is a head. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(args.group != 0) };
        let [first, end, head, heads] = if Self::OF_KEYS {
            let last = args.keys.min(own + count) - 1;
            [args.first_query(own), args.end_of_queries(last), head * args.group, args.group]
        } else {
            let (keys, last) = (args.all_keys(), args.queries.min(own + count) - 1);
            [keys.hidden(own), keys.visible(last), head / args.group, 1]
        };
        let (first, end) = (first / ROWS as u32, end.div_ceil(ROWS as u32));
        let count = end.saturating_sub(first);
        if self.part.count == 1 || count == 0 {
            return Steps { head, at: first, first, end, left: count * heads };
        }
        let [begin, after] = [0, 1].map(|i| count * heads * (self.part.number + i) / self.part.count);
        Steps { head: head + begin / count, at: first + begin % count, first, end, left: after - begin }
    }

    /// Computes the gradients.
    ///
    /// # Safety
    /// All threads of the block call this.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn run(self) {
        // SAFETY: all threads execute this, and all of a warpgroup the same branch. One thread copies.
        unsafe {
            init_once(|| {
                let warps = 4 * CONSUMERS as u32;
                self.own_ring(false).init(warps);
                self.own_ring(true).init(warps);
                self.first_ring().init(warps);
                self.second_ring().init(warps);
            });
            let warpgroup = wgmma::warpgroup_idx();
            if warpgroup == 0 {
                fewer_registers::<24>();
                match thread::thread_idx_x() {
                    0 => self.copy(false, self.first_ring()),
                    32 => self.copy(true, self.second_ring()),
                    _ => {}
                }
            } else {
                more_registers::<240>();
                self.consume(warpgroup as usize - 1);
            }
        }
    }

    /// Copies the block's first or second rows, and the others through the ring.
    ///
    /// # Safety
    /// One thread for each ring calls this.
    #[inline(always)]
    unsafe fn copy<const N: usize>(self, is_second: bool, mut ring: Ring<N>) {
        let (args, KeyTile { first, head, batch }) = (self.args, self.tile);
        let of_queries = if is_second { &args.d_out_map } else { &args.q_map };
        let of_keys = if is_second { &args.v_map } else { &args.k_map };
        let (own, others) = if Self::OF_KEYS { (of_keys, of_queries) } else { (of_queries, of_keys) };
        let stats = if Self::OF_KEYS && !is_second { STATS } else { 0 };
        let mut steps = self.steps(first, TILE);
        // SAFETY: the rows and the stages lie in shared memory, and are empty. The statistics are padded.
        unsafe {
            if steps.left > 0 && (Self::HAS_DS || !is_second) {
                let full = self.own_ring(is_second).fill((CONSUMERS * Self::ROWS_BYTES) as u32);
                for consumer in 0..CONSUMERS {
                    let at = [head, first + (consumer * ROWS) as u32, batch];
                    copy::<SIZE, ROWS, ROWS>(self.own(is_second, consumer), own, at, full);
                }
            }
            if stats > 0 {
                grid::wait_for_dependencies();
            }
            while steps.left > 0 {
                let (stage, at) = (ring.stage(), [steps.head, steps.position(), batch]);
                let full = ring.fill((Self::ROWS_BYTES + stats * size_of::<f32>()) as u32);
                let to = if is_second { self.second(stage) } else { self.first(stage) };
                copy::<SIZE, ROWS, ROWS>(to, others, at, full);
                if stats > 0 {
                    let from =
                        args.stats.cast_const().add(args.stat_index(batch, steps.head, steps.position()));
                    bulk::global_to_shared(self.stats(stage), from, stats as u32, full);
                }
                ring.advance();
                steps.advance();
            }
        }
    }
}
