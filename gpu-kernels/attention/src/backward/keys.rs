//! The gradients of K and V by `wgmma` and tensor copies (compute capability 9.0, `compute_90a`).
//!
//! A block computes the gradients of 64 keys per consumer warpgroup, which keeps them in registers. One thread of another
//! warpgroup copies K and V once. Then it copies tiles of 64 queries, with the gradients of their results and their
//! statistics, into a ring: those of all heads that share the head of K and V.
//!
//! A consumer computes the transposed tiles, keys by queries. So P and dS lie in registers as the first operand of the
//! multiplications that add them to dV and dK, and are never written to memory.
//@ ptx(attention_bf16_128_dkv, attention_f16_64_dkv, compute_90a): setmaxnreg == 2, .local == 0

use cuda_std::barrier::Barrier;
use cuda_std::fastmath::ex2_approx_ftz;
use cuda_std::half::{bf16, f16};
use cuda_std::hint::{fewer_registers, more_registers};
use cuda_std::mem::{f32x2, load_shared};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{self, Accumulator, Element16, Panel, Registers};
use cuda_std::{GpuFloat, bulk, kernel, thread};

use super::super::panels::{ROWS, copy, fragments, multiply_columns, multiply_rows, store};
#[cfg(not(target_arch = "nvptx64"))]
use super::BackwardShape;
use super::args::BackwardArgs;
use common_kernels::ring::{Ring, WARPGROUP, init_once};

/// Stages of the ring.
const STAGES: usize = 2;
/// Statistics of a tile.
const STATS: usize = 2 * ROWS;

/// Returns the bytes of the panels of K and V, of the stages and of the barriers, after the first multiple of 1024.
pub const fn shared_bytes(head_size: usize, consumers: usize) -> usize {
    let rows = 2 * consumers * ROWS + 2 * STAGES * ROWS;
    let stats = STAGES * STATS * size_of::<f32>();
    rows * 2 * head_size + stats + size_of::<Barrier>() * (Ring::<1>::BARRIERS + Ring::<STAGES>::BARRIERS)
}

/// Computes the gradients `dk` and `dv`, through the maps of Q, K, V, `d_out`, `dk`, `dv`. Their dimensions are head size,
/// heads, length and batch, innermost first. Boxes have 64 columns of one head and one batch entry, and 64 positions.
///
/// Launched with one block per tile of keys of each head of K and V in the batch, with the launch of `facts`.
///
/// # Safety
/// The launch is as described. The head size is at most the kernel's. The tensors match their shapes and maps, `stats` holds
/// the output of [`super::delta`], and no other code uses `dk` and `dv`. There is at least one query.
#[kernel(
    with(
        O = SIZE / 2, THREADS = 128 * CONSUMERS + 128,
        // A multiprocessor's registers: a thread's share in the copying warpgroup, and in a consumer.
        FEWER = 8 * CONSUMERS + 8, MORE = 400 - 80 * CONSUMERS,
    ),
    max_threads = THREADS,
    min_blocks = 1,
    arch = "90a",
    args,
    facts: BackwardShape = BackwardShape::of_keys(SIZE, CONSUMERS, THREADS),
    instances(
        for T in [bf16, f16] {
            attention_{T}_128_dkv = <128, 2>;
            attention_{T}_64_dkv = <64, 3>;
        }
    ),
)]
pub unsafe fn attention_dkv<
    T: Element16,
    const SIZE: usize,
    const CONSUMERS: usize,
    const O: usize,
    const THREADS: usize,
    const FEWER: u32,
    const MORE: u32,
>(
    args: BackwardArgs<T>,
) where
    [f32; O]: Registers,
{
    let tid = thread::thread_idx_x();
    let (own, stage) = (const { ROWS * 2 * SIZE }, const { ROWS * 2 * SIZE });
    let k_shared = dynamic_shared_mem_aligned::<Panel<T, 8>>().cast::<u8>();
    let v_shared = k_shared.wrapping_add(CONSUMERS * own);
    let q_shared = v_shared.wrapping_add(CONSUMERS * own);
    let d_shared = q_shared.wrapping_add(STAGES * stage);
    let stats = d_shared.wrapping_add(STAGES * stage).cast::<f32>();
    let barriers = stats.wrapping_add(STAGES * STATS).cast::<Barrier>();
    // SAFETY: the barriers are the block's. One thread fills the rings, and all lanes of the other warps use them together.
    let (key_ring, mut ring) = unsafe {
        (Ring::<1>::new(barriers), Ring::<STAGES>::new(barriers.wrapping_add(Ring::<1>::BARRIERS)))
    };
    let tile = args.key_tile(thread::block_idx_x(), (CONSUMERS * ROWS) as u32);
    let first_query = args.first_query(tile.first) / ROWS as u32 * ROWS as u32;
    let end = args.end_of_queries(args.keys.min(tile.first + (CONSUMERS * ROWS) as u32) - 1);
    // SAFETY: all threads execute this.
    unsafe {
        init_once(|| {
            key_ring.init(4 * CONSUMERS as u32);
            ring.init(4 * CONSUMERS as u32);
        });
    }
    // SAFETY: all lanes of each warp execute this.
    let warpgroup = unsafe { wgmma::warpgroup_idx() };
    if warpgroup == 0 {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { fewer_registers::<FEWER>() };
        if tid != 0 {
            return;
        }
        let full = key_ring.fill((2 * CONSUMERS * own) as u32);
        for consumer in 0..CONSUMERS {
            let at = [tile.head, tile.first + (consumer * ROWS) as u32, tile.batch];
            // SAFETY: the panels lie in shared memory, and no thread has used them yet.
            unsafe {
                copy::<SIZE, ROWS, ROWS>(k_shared.add(consumer * own), &args.k_map, at, full);
                copy::<SIZE, ROWS, ROWS>(v_shared.add(consumer * own), &args.v_map, at, full);
            }
        }
        let mut head = tile.head * args.group;
        while head < (tile.head + 1) * args.group {
            let mut query = first_query;
            while query < end {
                let full = ring.fill((2 * stage + STATS * size_of::<f32>()) as u32);
                let (i, at) = (ring.stage(), [head, query, tile.batch]);
                // SAFETY: the stage lies in shared memory, and is empty. The statistics are padded to whole tiles.
                unsafe {
                    copy::<SIZE, ROWS, ROWS>(q_shared.add(i * stage), &args.q_map, at, full);
                    copy::<SIZE, ROWS, ROWS>(d_shared.add(i * stage), &args.d_out_map, at, full);
                    let from = args.stats.cast_const().add(args.stat_index(tile.batch, head, query));
                    bulk::global_to_shared(stats.add(i * STATS), from, STATS as u32, full);
                }
                ring.advance();
                query += ROWS as u32;
            }
            head += 1;
        }
    } else {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { more_registers::<MORE>() };
        let consumer = warpgroup - 1;
        let k = k_shared.wrapping_add(consumer as usize * own);
        let v = v_shared.wrapping_add(consumer as usize * own);
        let first_key = tile.first + ROWS as u32 * consumer;
        let (logits, zero) = (Accumulator::ZERO, Accumulator::<O>::ZERO);
        let mut sums = Sums::<T, SIZE, O> {
            args: &args,
            k,
            v,
            q: q_shared,
            d_out: d_shared,
            stats,
            ring,
            first_key,
            logits,
            dk: zero,
            dv: zero,
        };
        let tiles = end.saturating_sub(first_query).div_ceil(ROWS as u32);
        let (mut query, mut left) = (first_query, tiles * args.group);
        key_ring.wait_full();
        if left > 0 {
            sums.next_logits();
            let after =
                |query: u32| if query + ROWS as u32 >= end { first_query } else { query + ROWS as u32 };
            // Tiles without a mask have their own loop, so that the code of the mask is out of their way.
            loop {
                while left > 1 && hides_none(&args, first_key, query) {
                    sums.step::<false>(None);
                    (query, left) = (after(query), left - 1);
                }
                if left == 1 {
                    break;
                }
                sums.step::<false>(Some(query));
                (query, left) = (after(query), left - 1);
            }
            sums.step::<true>(Some(query));
        }
        let Sums { mut dk, dv, .. } = sums;
        dk.scale_rows([args.scale; 2]);
        let at = [tile.head, first_key, tile.batch];
        // SAFETY: all threads of the warpgroup execute this. Only they use the panels, whose keys and values they have read.
        unsafe {
            store::<T, SIZE, O>(&args.dk_map, at, k, &dk, 1 + consumer);
            store::<T, SIZE, O>(&args.dv_map, at, v, &dv, 1 + consumer);
        }
        if tid.is_multiple_of(WARPGROUP) {
            bulk::wait_read::<0>();
        }
    }
}

/// The gradients of a warpgroup's 64 keys and values. All its threads call the methods together.
struct Sums<'a, T, const SIZE: usize, const O: usize> {
    args: &'a BackwardArgs<T>,
    k: *const u8,
    v: *const u8,
    q: *const u8,
    d_out: *const u8,
    stats: *const f32,
    /// The stages of `q`, `d_out` and `stats`.
    ring: Ring<STAGES>,
    first_key: u32,
    /// The logits of the queries in the stage.
    logits: Accumulator<32>,
    dk: Accumulator<O>,
    dv: Accumulator<O>,
}

impl<T: Element16, const SIZE: usize, const O: usize> Sums<'_, T, SIZE, O>
where
    [f32; O]: Registers,
{
    /// Bytes of a stage of `q` or `d_out`.
    const BYTES: usize = ROWS * 2 * SIZE;

    /// Computes the logits of the queries in the stage, once it is full.
    #[inline(always)]
    fn next_logits(&mut self) {
        self.ring.wait_full();
        // SAFETY: all threads of the warpgroup execute this. The stage is full until all warps have released it.
        self.logits = unsafe {
            let q = self.q.add(self.ring.stage() * Self::BYTES);
            multiply_rows::<T, SIZE, ROWS, 32>(Accumulator::ZERO, self.k, q).finish::<0>()
        };
    }

    /// Adds a tile of queries, which starts at `masked` if a query may not see all keys. The logits of the next tile start
    /// right after the sums of this one, before these are done.
    #[inline(always)]
    fn step<const IS_LAST: bool>(&mut self, masked: Option<u32>) {
        let (now, factor) = (self.ring, self.args.scale * core::f32::consts::LOG2_E);
        // SAFETY: all threads of the warpgroup execute this. The stage is full until all warps have released it. When `ds` is
        // finished, only the group of `dv` may be in progress.
        unsafe {
            let (q, d_out) =
                (self.q.add(now.stage() * Self::BYTES), self.d_out.add(now.stage() * Self::BYTES));
            let products = multiply_rows::<T, SIZE, ROWS, 32>(Accumulator::ZERO, self.v, d_out);
            let mut p = self.logits;
            if let Some(query) = masked {
                hide(self.args, &mut p, self.first_key, query);
            }
            let numbers = self.stats.add(now.stage() * STATS);
            each(numbers, &mut p, |x, log| ex2_approx_ftz(x.mul_add(factor, -log)));
            let dv = multiply_columns::<T, SIZE, ROWS, O, 4>(self.dv, &fragments(&p), d_out);
            let mut ds = products.finish::<1>();
            let mut i = 0;
            each(numbers.add(ROWS), &mut ds, |x, delta| {
                let ds = p.0[i] * (x - delta);
                i += 1;
                ds
            });
            let dk = multiply_columns::<T, SIZE, ROWS, O, 4>(self.dk, &fragments(&ds), q);
            self.ring.advance();
            if !IS_LAST {
                self.next_logits();
            }
            self.dv = dv.finish::<0>();
            self.dk = dk.finish::<0>();
        }
        now.release();
    }
}

/// Replaces each element of a tile, keys by queries, by `f` of it and its query's number in `numbers`.
///
/// # Safety
/// `numbers` points to 64 numbers in shared memory.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn each(numbers: *const f32, tile: &mut Accumulator<32>, mut f: impl FnMut(f32, f32) -> f32) {
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

/// Returns whether every query of a tile sees every key of it. The tile starts at `first_key` and `first_query`.
#[inline(always)]
fn hides_none<T>(args: &BackwardArgs<T>, first_key: u32, first_query: u32) -> bool {
    let seen = first_query as i32 + args.diagonal - first_key as i32;
    seen >= ROWS as i32 - 1 && seen <= args.window - ROWS as i32
}

/// Replaces the logits of keys that a query does not see by -inf. The tile starts at `first_key` and `first_query`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn hide<T>(args: &BackwardArgs<T>, tile: &mut Accumulator<32>, first_key: u32, first_query: u32) {
    if hides_none(args, first_key, first_query) {
        return;
    }
    // The first query sees the keys up to `seen`, and each later one sees one more.
    let seen = first_query as i32 + args.diagonal - first_key as i32;
    tile.mask(|key, query| key as i32 > query as i32 + seen);
    if seen > args.window - ROWS as i32 {
        tile.mask(|key, query| key as i32 <= query as i32 + seen - args.window);
    }
}
