//! The gradients of a warpgroup's keys and values, which [`super::warpgroups`] adds up over tiles of queries.

use cuda_std::fastmath::ex2_approx_ftz;
use cuda_std::mem::{f32x2, load_shared, store_shared};
use cuda_std::mma::{ldmatrix, stmatrix};
use cuda_std::wgmma::{self, Accumulator, Element16, FragmentA, Panel, Pending, Registers};
use cuda_std::{GpuFloat, bulk, thread, warp};

use super::super::panels::{ROWS, multiply_columns, multiply_rows, store};
use super::args::{BackwardArgs, row_index};
use super::walk::Walk;
use super::warpgroups::{CONSUMERS, KEYS, Memory, PANEL, TURNS};
use common_kernels::ring::{Ring, WARPGROUP};

/// The named barrier of all consumers. Those of one consumer are the ones before it.
const ALL: u32 = 1 + CONSUMERS as u32;

/// Computes the gradients of a consumer's keys and values, and adds its share of dQ.
///
/// # Safety
/// All threads of the consumer call this, and those of the other ones.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn consume<
    T: Element16,
    const SIZE: usize,
    const STAGES: usize,
    const O: usize,
    const PARTS: usize,
>(
    args: &BackwardArgs<T>,
    memory: Memory<T, SIZE, STAGES, PARTS>,
    consumer: usize,
) where
    [f32; O]: Registers,
{
    let mut key_ring = memory.key_ring();
    let mut sums = Sums::<T, SIZE, STAGES, O, PARTS> {
        args,
        memory,
        consumer,
        ring: memory.query_ring(),
        turns: memory.turns(),
        first_key: 0,
        held: [[FragmentA::from_registers([0; 4]); 4]; 2],
        logits: Accumulator::ZERO,
        dk: Accumulator::ZERO,
        dv: Accumulator::ZERO,
    };
    let queries = Memory::<T, SIZE, STAGES, PARTS>::TILE[1];
    loop {
        key_ring.wait_full();
        // SAFETY: the stage is full until all warps have released it.
        let number = unsafe { *memory.number() };
        let Some(mut walk) = Walk::new(args, number, Memory::<T, SIZE, STAGES, PARTS>::TILE) else { return };
        let tile = walk.tile;
        sums.first_key = tile.first + (consumer * ROWS) as u32;
        (sums.dk, sums.dv) = (Accumulator::ZERO, Accumulator::ZERO);
        let mut left = walk.steps(args);
        sums.hold();
        if left > 0 {
            // SAFETY: all threads of the warpgroup execute this.
            sums.logits = unsafe { sums.start_logits().finish::<0>() };
            // Tiles without a mask have their own loop, so that the code of the mask is out of their way.
            loop {
                while left > 1 && hides_none(args, sums.first_key, walk.query_tile() * queries, queries) {
                    sums.add_tile::<false>(None);
                    walk.advance(args);
                    left -= 1;
                }
                let query = Some(walk.query_tile() * queries);
                if left == 1 {
                    sums.add_tile::<true>(query);
                    break;
                }
                sums.add_tile::<false>(query);
                walk.advance(args);
                left -= 1;
            }
        }
        sums.dk.scale_rows([args.scale; 2]);
        let at = [tile.head, sums.first_key, tile.batch];
        // SAFETY: all threads of the consumers execute this, and all have read the keys and values. Only the warpgroup uses
        // its panels then.
        unsafe {
            thread::sync_named_aligned(ALL, CONSUMERS as u32 * WARPGROUP);
            store::<T, SIZE, O>(&args.dk_map, at, memory.k(consumer), &sums.dk, 1 + consumer as u32);
            store::<T, SIZE, O>(&args.dv_map, at, memory.v(consumer), &sums.dv, 1 + consumer as u32);
        }
        if thread::thread_idx_x().is_multiple_of(WARPGROUP) {
            bulk::wait_read::<0>();
        }
        key_ring.release_and_advance();
    }
}

/// The gradients of a warpgroup's 64 keys and values. All its threads call the methods together.
struct Sums<'a, T, const SIZE: usize, const STAGES: usize, const O: usize, const PARTS: usize> {
    args: &'a BackwardArgs<T>,
    memory: Memory<T, SIZE, STAGES, PARTS>,
    consumer: usize,
    ring: Ring<STAGES>,
    /// Its stage is the buffer of dS and dQ.
    turns: Ring<TURNS>,
    first_key: u32,
    /// For the smaller head size, the keys and the values.
    held: [[FragmentA<T>; 4]; 2],
    /// The logits of the queries in the stage.
    logits: Accumulator<32>,
    dk: Accumulator<O>,
    dv: Accumulator<O>,
}

impl<T: Element16, const SIZE: usize, const STAGES: usize, const O: usize, const PARTS: usize>
    Sums<'_, T, SIZE, STAGES, O, PARTS>
where
    [f32; O]: Registers,
{
    /// Reads the operands in registers.
    #[inline(always)]
    fn hold(&mut self) {
        if PARTS == 1 {
            return;
        }
        let thread = thread::thread_idx_x() % WARPGROUP;
        let (warp, lane) = (thread / 32, thread % 32);
        let mut i = 0;
        while i < 4 {
            let chunk = |panel: *mut u8| {
                Panel::chunk(panel.cast::<Panel<T, ROWS>>(), 16 * warp + lane % 16, 2 * i as u32 + lane / 16)
            };
            let (k, v) = (chunk(self.memory.k(self.consumer)), chunk(self.memory.v(self.consumer)));
            // SAFETY: all lanes of the warp execute this, and the panels are complete.
            unsafe {
                self.held[0][i] = FragmentA::from_registers(ldmatrix(k));
                self.held[1][i] = FragmentA::from_registers(ldmatrix(v));
            }
            i += 1;
        }
    }

    /// Starts the dot products of the consumer's keys or values, `a`, with the rows in a stage.
    ///
    /// # Safety
    /// All threads of the warpgroup call this. The stage is full until the products are finished.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn multiply_rows(&self, which: usize, a: *const u8, rows: *const u8) -> Pending<32> {
        // SAFETY: all threads execute this, with rows that stay as they are.
        unsafe {
            if PARTS == 1 {
                return multiply_rows::<T, SIZE, ROWS, 32>(Accumulator::ZERO, a, rows);
            }
            let mut products = Accumulator::<32>::ZERO.start();
            let rows = Panel::<T, ROWS>::k_major::<ROWS>(rows.cast(), 0);
            wgmma::fence();
            let mut i = 0;
            while i < 4 {
                products.multiply_keeping(i > 0, self.held[which][i], rows.step(i as u32));
                i += 1;
            }
            wgmma::commit();
            products
        }
    }

    /// Starts to compute the logits of the queries in the stage, once it is full.
    #[inline(always)]
    fn start_logits(&self) -> Pending<32> {
        self.ring.wait_full();
        // SAFETY: all threads of the warpgroup execute this. The stage is full until all warps have released it.
        unsafe {
            let (k, q) = (self.memory.k(self.consumer), self.memory.q(self.ring.stage()));
            self.multiply_rows(0, k, q)
        }
    }

    /// Adds a tile of queries, which starts at `masked` if a query may not see all keys.
    #[inline(always)]
    fn add_tile<const IS_LAST: bool>(&mut self, masked: Option<u32>) {
        if PARTS == 2 {
            self.add_part::<false, false>(masked, 0);
        }
        let before = (PARTS as u32 - 1) * ROWS as u32;
        self.add_part::<true, IS_LAST>(masked.map(|query| query + before), PARTS - 1);
    }

    /// Adds 64 queries, and with `ADDS` the whole tile's dQ. The logits of the next ones start before the sums are done.
    #[inline(always)]
    fn add_part<const ADDS: bool, const IS_LAST: bool>(&mut self, masked: Option<u32>, part: usize) {
        let (memory, now, factor) = (self.memory, self.ring, self.args.scale * core::f32::consts::LOG2_E);
        let thread = thread::thread_idx_x() % WARPGROUP;
        let (warp, lane) = (thread / 32, thread % 32);
        // SAFETY: all threads of the warpgroup execute this. The stage is full until all warps have released it. When `ds` is
        // finished, only the group of `dv` may be in progress, and after dQ only the next logits. All consumers have read
        // a buffer of dS before they come to the barrier of the next one.
        unsafe {
            let (q, d_out) = (memory.q(now.stage()), memory.d_out(now.stage()));
            let v = memory.v(self.consumer);
            let products = self.multiply_rows(1, v, d_out);
            let mut p = self.logits;
            if let Some(query) = masked {
                hide(self.args, &mut p, [self.first_key, query], true);
            }
            let numbers = memory.stats(now.stage());
            each(numbers, &mut p, |x, log| ex2_approx_ftz(x.mul_add(factor, -log)));
            let weights = words::<T>(&p).map(FragmentA::from_registers);
            let dv = multiply_columns::<T, SIZE, ROWS, O, 4>(self.dv, &weights, d_out);
            let mut ds = products.finish::<1>();
            let mut i = 0;
            each(numbers.add(ROWS), &mut ds, |x, delta| {
                let ds = p.0[i] * (x - delta);
                i += 1;
                ds
            });
            let words = words::<T>(&ds);
            let panel = memory.ds(self.turns.stage(), part, self.consumer);
            let mut i = 0;
            while i < words.len() {
                let at = Panel::chunk(panel, 16 * warp + lane % 16, 2 * i as u32 + lane / 16);
                stmatrix(at, words[i]);
                i += 1;
            }
            bulk::fence_shared();
            let weights = words.map(FragmentA::from_registers);
            let dk = multiply_columns::<T, SIZE, ROWS, O, 4>(self.dk, &weights, q);
            self.dv = dv.finish::<1>();
            self.ring.advance();
            if ADDS {
                thread::sync_named_aligned(ALL, CONSUMERS as u32 * WARPGROUP);
                let dq = self.multiply_keys();
                if IS_LAST {
                    self.dk = dk.finish::<0>();
                    now.release();
                    self.put_queries(&dq.finish::<0>(), lane);
                } else {
                    self.dk = dk.finish::<1>();
                    let logits = self.start_logits();
                    now.release();
                    self.put_queries(&dq.finish::<1>(), lane);
                    self.logits = logits.finish::<0>();
                }
            } else {
                let logits = self.start_logits();
                self.dk = dk.finish::<1>();
                now.release();
                self.logits = logits.finish::<0>();
            }
        }
    }

    /// Starts to multiply dS of all keys by K: for the consumer's columns of dQ, or for its queries.
    ///
    /// # Safety
    /// All threads of the consumers call this, and all have written the buffer.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn multiply_keys(&self) -> Pending<32> {
        let (part, panel) = if PARTS == 1 { (0, self.consumer) } else { (self.consumer, 0) };
        let mut dq = Accumulator::<32>::ZERO.start();
        let mut i = 0;
        // SAFETY: all threads execute this, with panels that stay as they are.
        unsafe {
            wgmma::fence();
            while i < KEYS / 16 {
                let (of_keys, step) = (i / 4, (i % 4) as u32);
                let ds = Panel::mn_major::<64>(self.memory.ds(self.turns.stage(), part, of_keys));
                let k = self.memory.k(of_keys).wrapping_add(panel * PANEL).cast::<Panel<T, ROWS>>();
                dq.multiply_keeping(i > 0, ds.step(step), Panel::mn_major::<64>(k).step(step));
                i += 1;
            }
            wgmma::commit();
        }
        dq
    }

    /// Writes the consumer's share of dQ into a buffer.
    #[inline(always)]
    fn put_queries(&mut self, dq: &Accumulator<32>, lane: u32) {
        self.turns.wait_empty();
        let warp = thread::thread_idx_x() % WARPGROUP / 32;
        // The lane's first row, whose number modulo 8 its other one shares, and its first column.
        let (row, column) = (16 * warp as usize + lane as usize / 4, lane as usize % 4 * 2);
        let (row, own) = if PARTS == 1 { (row, 64 * self.consumer) } else { (row + 64 * self.consumer, 0) };
        let dq_shared = self.memory.dq(self.turns.stage());
        let mut i = 0;
        // SAFETY: the thread alone writes these elements, and the buffer is empty. All lanes of the warp execute this.
        unsafe {
            while i < 8 {
                let to = dq_shared.wrapping_add(row_index(SIZE, row, own + 8 * i + column));
                store_shared(to.cast(), f32x2::new(dq.0[4 * i], dq.0[4 * i + 1]));
                store_shared(to.wrapping_add(8 * SIZE).cast(), f32x2::new(dq.0[4 * i + 2], dq.0[4 * i + 3]));
                i += 1;
            }
            bulk::fence_shared();
            warp::sync_warp(u32::MAX);
        }
        self.memory.written().release_stage(self.turns.stage());
        self.turns.advance();
    }
}

/// Returns the numbers of a tile, rounded, as the registers of operands.
#[inline(always)]
fn words<T: Element16>(tile: &Accumulator<32>) -> [[u32; 4]; 4] {
    let x = &tile.0;
    core::array::from_fn(|i| core::array::from_fn(|j| T::pack([x[8 * i + 2 * j], x[8 * i + 2 * j + 1]])))
}

/// Replaces each element of a tile, keys by queries, by `f` of it and its query's number in `numbers`.
///
/// # Safety
/// `numbers` points to 64 numbers in shared memory.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) unsafe fn each(
    numbers: *const f32,
    tile: &mut Accumulator<32>,
    mut f: impl FnMut(f32, f32) -> f32,
) {
    let thread = thread::thread_idx_x() % WARPGROUP;
    let mut i = 0;
    while i < tile.0.len() {
        let (_, col) = Accumulator::<32>::position(thread, i);
        // SAFETY: the column and the next are below 64.
        let pair: f32x2 = unsafe { load_shared(numbers.add(col).cast()) };
        let [a, b] = pair.to_array();
        tile.0[i] = f(tile.0[i], a);
        tile.0[i + 1] = f(tile.0[i + 1], b);
        tile.0[i + 2] = f(tile.0[i + 2], a);
        tile.0[i + 3] = f(tile.0[i + 3], b);
        i += 4;
    }
}

/// Returns whether every one of `count` queries, from `first_query` on, sees all of 64 keys.
#[inline(always)]
pub(super) fn hides_none<T>(args: &BackwardArgs<T>, first_key: u32, first_query: u32, count: u32) -> bool {
    let seen = first_query as i32 + args.diagonal - first_key as i32;
    let is_seen = seen >= ROWS as i32 - 1 && seen <= args.window - count as i32;
    is_seen && first_key + ROWS as u32 <= args.keys
}

/// Replaces the logits of keys that a query does not see by -inf. The tile starts at a key and a query; its rows are keys, or
/// queries.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) fn hide<T>(
    args: &BackwardArgs<T>,
    tile: &mut Accumulator<32>,
    [first_key, first_query]: [u32; 2],
    are_rows_keys: bool,
) {
    let key_and_query = |row: usize, col: usize| {
        let [key, query] = if are_rows_keys { [row, col] } else { [col, row] };
        [key as i32, query as i32]
    };
    if hides_none(args, first_key, first_query, ROWS as u32) {
        return;
    }
    // The first query sees the keys up to `seen`, and each later one sees one more. None sees a key from `end` on.
    let seen = first_query as i32 + args.diagonal - first_key as i32;
    let end = args.keys as i32 - first_key as i32;
    tile.mask(|row, col| {
        let [key, query] = key_and_query(row, col);
        key > query + seen || key >= end
    });
    if seen > args.window - ROWS as i32 {
        tile.mask(|row, col| {
            let [key, query] = key_and_query(row, col);
            key <= query + seen - args.window
        });
    }
}
