//! All three gradients by `wgmma` and tensor copies (compute capability 9.0, `compute_90a`).
//!
//! A block takes tiles of 128 keys, 64 for each of two consumer warpgroups, which add up their dK and dV in registers. One
//! thread of another warpgroup copies K and V, and then tiles of 64 queries, with the gradients of their results and their
//! statistics, into a ring: those of all heads that share the head of K and V.
//!
//! A consumer computes the transposed tiles, keys by queries. So P and dS lie in registers as the first operand of the
//! multiplications that add them to dV and dK. dS also goes to shared memory: a consumer multiplies that of all 128 keys by K,
//! for half of the columns of dQ, or for half of the queries if dQ has 64 columns.
//!
//! dQ of a tile of queries is a sum over the tiles of keys. Their blocks add to it in global memory in a fixed order, the one
//! of the module `walk`. So two runs give the same bits. Consumers leave their shares in a buffer. For each of two buffers a
//! thread waits for the turn, adds by a bulk copy, and announces the next turn.
//@ ptx(attention_bf16_128_warpgroup_gradients, attention_f16_64_warpgroup_gradients, compute_90a): setmaxnreg == 2, cp.reduce.async.bulk == 2
//@ allow-local(attention_bf16_128_warpgroup_gradients, attention_f16_128_warpgroup_gradients): the consumers have a few registers too few; with fewer operands in them, they would read shared memory more often
//@ allow-local(attention_bf16_64_warpgroup_gradients, attention_f16_64_warpgroup_gradients): the same

use core::marker::PhantomData;
use core::sync::atomic::Ordering;

use cuda_std::atomic::AtomicU32;
use cuda_std::barrier::Barrier;
use cuda_std::half::{bf16, f16};
use cuda_std::hint::{fewer_registers, more_registers};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{self, Element16, Panel, Registers};
use cuda_std::{bulk, grid, kernel, thread};

use super::super::panels::{ROW, ROWS, copy};
#[cfg(not(target_arch = "nvptx64"))]
use super::FusedShape;
use super::args::BackwardArgs;
use super::walk::Walk;
use super::warpgroup_sums::consume;
use common_kernels::ring::{Ring, init_once};

/// Warpgroups that compute.
pub(super) const CONSUMERS: usize = 2;
/// Threads of a block.
const THREADS: usize = 128 * (CONSUMERS + 1);
/// Keys of a tile.
pub(super) const KEYS: usize = ROWS * CONSUMERS;
/// Statistics of a stage.
const STATS: usize = 2 * ROWS;
/// Bytes of 64 rows of 64 columns.
pub(super) const PANEL: usize = ROWS * ROW;
/// Elements of dQ of a tile.
const DQ: usize = CONSUMERS * 64 * 64;
/// Buffers of dS and dQ.
pub(super) const TURNS: usize = 2;

/// Returns the bytes of K and V, of the stages, dS, dQ, the numbers and the barriers, after the first multiple of 1024.
pub const fn shared_bytes(head_size: usize, stages: usize) -> usize {
    let rows = 2 * KEYS + 2 * stages * ROWS;
    let ds = TURNS * parts(head_size) * CONSUMERS * PANEL;
    let numbers = (TURNS * DQ + stages * STATS) * size_of::<f32>() + 16;
    let barriers = Ring::<1>::BARRIERS * (1 + stages + 2 * TURNS);
    rows * 2 * head_size + ds + numbers + size_of::<Barrier>() * barriers
}

/// Returns the keys, and the queries, of a tile.
const fn tile(parts: usize) -> [u32; 2] {
    [KEYS as u32, (parts * ROWS) as u32]
}

/// Returns how many times 64 queries have a common turn, so that dQ is 64 x 64 elements for each consumer.
const fn parts(head_size: usize) -> usize {
    CONSUMERS * 64 / head_size
}

/// Computes `dk` and `dv`, through the maps of Q, K, V, `d_out`, `dk`, `dv`, and adds up `sums` for [`super::finish`], in
/// [`ROWS_IN_ORDER`](super::args::ROWS_IN_ORDER). The maps' dimensions are head size, heads, length and batch, innermost
/// first. Boxes have 64 columns of one head and one batch entry, and 64 positions.
///
/// `sum_size` is `SIZE`, and `turn_queries` are the queries of `facts`. Launched with any number of blocks, with the threads
/// and the shared memory of `facts`.
///
/// # Safety
/// The launch is as described. The head size is at most the kernel's. The tensors match their shapes and maps. `stats` and
/// `turns` hold the output of [`super::delta`]. No other code uses `dk`, `dv`, `turns` and `sums`, which has a row for each
/// padded query.
#[kernel(
    with(O = SIZE / 2, PARTS = 128 / SIZE),
    cooperative,
    max_threads = 384,
    min_blocks = 1,
    arch = "90a",
    args,
    facts: FusedShape = FusedShape::of_warpgroups(SIZE, tile(PARTS), THREADS, shared_bytes(SIZE, STAGES)),
    instances(
        for T in [bf16, f16] {
            attention_{T}_64_warpgroup_gradients = <64, 3>;
            attention_{T}_128_warpgroup_gradients = <128, 2>;
        }
    ),
)]
pub unsafe fn attention_warpgroup_gradients<
    T: Element16,
    const SIZE: usize,
    const STAGES: usize,
    const O: usize,
    const PARTS: usize,
>(
    args: BackwardArgs<T>,
) where
    [f32; O]: Registers,
{
    // SAFETY: the launch brings the memory, and all threads execute this.
    let (memory, warpgroup) = unsafe {
        let memory =
            Memory::<T, SIZE, STAGES, PARTS>::new(dynamic_shared_mem_aligned::<Panel<T, 8>>().cast());
        init_once(|| memory.init());
        (memory, wgmma::warpgroup_idx())
    };
    if warpgroup == 0 {
        // SAFETY: all threads of the warpgroup execute this. Each role has one thread.
        unsafe {
            fewer_registers::<40>();
            match thread::thread_idx_x() {
                0 => memory.copy(&args),
                32 => memory.add::<0>(&args),
                64 => memory.add::<1>(&args),
                _ => {}
            }
        }
    } else {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe {
            more_registers::<232>();
            consume::<T, SIZE, STAGES, O, PARTS>(&args, memory, warpgroup as usize - 1);
        }
    }
}

/// The block's shared memory.
#[derive(Clone, Copy)]
pub(super) struct Memory<T, const SIZE: usize, const STAGES: usize, const PARTS: usize> {
    start: *mut u8,
    element: PhantomData<T>,
}

impl<T: Element16, const SIZE: usize, const STAGES: usize, const PARTS: usize>
    Memory<T, SIZE, STAGES, PARTS>
{
    /// Bytes of 64 rows.
    pub const ROWS_BYTES: usize = ROWS * 2 * SIZE;
    /// Keys, and queries, of a tile.
    pub const TILE: [u32; 2] = tile(PARTS);
    const DQ_AT: usize = (2 * CONSUMERS + 2 * STAGES) * Self::ROWS_BYTES + TURNS * PARTS * CONSUMERS * PANEL;

    fn new(start: *mut u8) -> Self {
        Self { start, element: PhantomData }
    }

    /// The keys of a consumer.
    #[inline(always)]
    pub fn k(self, consumer: usize) -> *mut u8 {
        self.start.wrapping_add(consumer * Self::ROWS_BYTES)
    }

    /// Its values.
    #[inline(always)]
    pub fn v(self, consumer: usize) -> *mut u8 {
        self.k(CONSUMERS + consumer)
    }

    /// The queries of a stage.
    #[inline(always)]
    pub fn q(self, stage: usize) -> *mut u8 {
        self.k(2 * CONSUMERS + stage)
    }

    /// The gradients of their results.
    #[inline(always)]
    pub fn d_out(self, stage: usize) -> *mut u8 {
        self.k(2 * CONSUMERS + STAGES + stage)
    }

    /// A panel of dS: of a part of the queries, and a consumer's keys.
    #[inline(always)]
    pub fn ds(self, buffer: usize, part: usize, consumer: usize) -> *mut Panel<T, ROWS> {
        let i = (buffer * PARTS + part) * CONSUMERS + consumer;
        self.k(2 * CONSUMERS + 2 * STAGES).wrapping_add(i * PANEL).cast()
    }

    /// A buffer of dQ, like [`BackwardArgs::sums`].
    #[inline(always)]
    pub fn dq(self, buffer: usize) -> *mut f32 {
        self.start.wrapping_add(Self::DQ_AT).cast::<f32>().wrapping_add(buffer * DQ)
    }

    /// The statistics of a stage.
    #[inline(always)]
    pub fn stats(self, stage: usize) -> *mut f32 {
        self.dq(TURNS).wrapping_add(stage * STATS)
    }

    /// The number of the tile of keys.
    #[inline(always)]
    pub fn number(self) -> *mut u32 {
        self.stats(STAGES).cast()
    }

    #[inline(always)]
    fn ring<const N: usize>(self, first: usize) -> Ring<N> {
        let barriers = self.number().wrapping_add(4).cast::<Barrier>();
        // SAFETY: the barriers are the block's. One thread fills each ring, and all lanes of other warps release it together.
        unsafe { Ring::new(barriers.wrapping_add(first)) }
    }

    /// The stage of K and V.
    #[inline(always)]
    pub fn key_ring(self) -> Ring<1> {
        self.ring(0)
    }

    /// The stages of queries.
    #[inline(always)]
    pub fn query_ring(self) -> Ring<STAGES> {
        self.ring(2)
    }

    /// The buffers of dQ: empty when it has been added. Nothing fills the ring.
    #[inline(always)]
    pub fn turns(self) -> Ring<TURNS> {
        self.ring(2 + 2 * STAGES)
    }

    /// The same buffers: empty when the consumers have written them.
    #[inline(always)]
    pub fn written(self) -> Ring<TURNS> {
        self.ring(2 + 2 * STAGES + 2 * TURNS)
    }

    fn init(self) {
        let warps = 4 * CONSUMERS as u32;
        self.key_ring().init(warps + TURNS as u32);
        self.query_ring().init(warps);
        self.turns().init(1);
        self.written().init(warps);
    }

    /// Copies keys, values and queries.
    ///
    /// # Safety
    /// One thread calls this.
    #[inline(always)]
    unsafe fn copy(self, args: &BackwardArgs<T>) {
        let (mut key_ring, mut ring) = (self.key_ring(), self.query_ring());
        let mut number = thread::block_idx_x();
        loop {
            // SAFETY: only this thread uses the number while the stage is empty.
            unsafe {
                if args.hides_any() {
                    let taken = AtomicU32::from_ptr(args.turns.add(args.taken_index()));
                    number = taken.fetch_add(1, Ordering::Relaxed);
                }
                key_ring.wait_empty();
                *self.number() = number;
            }
            let Some(walk) = Walk::new(args, number, Self::TILE) else {
                key_ring.fill(0);
                return;
            };
            let tile = walk.tile;
            let full = key_ring.fill((2 * CONSUMERS * Self::ROWS_BYTES) as u32);
            for consumer in 0..CONSUMERS {
                let at = [tile.head, tile.first + (consumer * ROWS) as u32, tile.batch];
                // SAFETY: the panels lie in shared memory, and are empty.
                unsafe {
                    copy::<SIZE, ROWS, ROWS>(self.k(consumer), &args.k_map, at, full);
                    copy::<SIZE, ROWS, ROWS>(self.v(consumer), &args.v_map, at, full);
                }
            }
            key_ring.advance();
            for_steps(args, walk, |walk| {
                let mut part = 0;
                while part < PARTS {
                    let query = walk.query_tile() * Self::TILE[1] + (part * ROWS) as u32;
                    let full = ring.fill((2 * Self::ROWS_BYTES + STATS * size_of::<f32>()) as u32);
                    let (i, at) = (ring.stage(), [walk.head, query, tile.batch]);
                    // SAFETY: the stage lies in shared memory, and is empty. The statistics are padded.
                    unsafe {
                        copy::<SIZE, ROWS, ROWS>(self.q(i), &args.q_map, at, full);
                        copy::<SIZE, ROWS, ROWS>(self.d_out(i), &args.d_out_map, at, full);
                        let from = args.stats.cast_const().add(args.stat_index(tile.batch, walk.head, query));
                        bulk::global_to_shared(self.stats(i), from, STATS as u32, full);
                    }
                    ring.advance();
                    part += 1;
                }
            });
            number += thread::grid_dim_x();
        }
    }

    /// Adds a buffer to dQ, whenever it has been written, in the turn of its queries.
    ///
    /// # Safety
    /// One thread for each buffer, the first of a warp, calls this.
    #[inline(always)]
    unsafe fn add<const BUFFER: usize>(self, args: &BackwardArgs<T>) {
        let (mut key_ring, mut written) = (self.key_ring(), self.written());
        loop {
            key_ring.wait_full();
            // SAFETY: the stage is full until this thread has released it.
            let walk = Walk::new(args, unsafe { *self.number() }, Self::TILE);
            key_ring.release_and_advance();
            let Some(walk) = walk else { return };
            for_steps(args, walk, |walk| {
                if written.stage() == BUFFER {
                    let turn = walk.turn(args, Self::TILE);
                    let row = args.padded_row(walk.tile.batch, walk.head, walk.query_tile() * Self::TILE[1]);
                    written.wait_released();
                    // SAFETY: the queries have a turn and sums, to which only this thread adds in this turn. What it has added
                    // is visible to who sees the next turn. The buffer stays as it is until the thread has released it.
                    unsafe {
                        let word = args.turns.add((row / Self::TILE[1]) as usize);
                        let (sums, dq) = (args.sums.add(row as usize * SIZE), self.dq(BUFFER));
                        if turn == 0 {
                            bulk::shared_to_global(sums, dq, DQ as u32);
                        } else {
                            grid::wait_until(word, Ordering::Acquire, |turns| turns == turn);
                            bulk::fence_global();
                            bulk::add_to_global(sums, dq, DQ as u32);
                        }
                        bulk::commit();
                        bulk::wait::<0>();
                        bulk::fence_global();
                        grid::store_release(word, turn + 1);
                    }
                    self.turns().release_stage(BUFFER);
                }
                written.advance();
            });
        }
    }
}

/// Calls `f` at each step of a way.
#[inline(always)]
fn for_steps<T>(args: &BackwardArgs<T>, mut walk: Walk, mut f: impl FnMut(&Walk)) {
    let mut left = walk.steps(args);
    while left > 0 {
        f(&walk);
        walk.advance(args);
        left -= 1;
    }
}
