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
#[cfg(not(target_arch = "nvptx64"))]
use super::BackwardShape;
use super::args::BackwardArgs;
use common_kernels::ring::{Ring, WARPGROUP, init_once};

/// Stages of the ring.
const STAGES: usize = 2;

/// Returns the bytes of the panels of Q and of the result's gradient, of the stages and of the barriers, after the first
/// multiple of 1024.
pub const fn shared_bytes(head_size: usize, keys: usize, consumers: usize) -> usize {
    let rows = 2 * consumers * ROWS + 2 * STAGES * keys;
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
    let v_shared = k_shared.wrapping_add(STAGES * stage);
    let barriers = v_shared.wrapping_add(STAGES * stage).cast::<Barrier>();
    // SAFETY: the barriers are the block's. One thread fills the rings, and all lanes of the other warps use them together.
    let (query_ring, mut ring) = unsafe {
        (Ring::<1>::new(barriers), Ring::<STAGES>::new(barriers.wrapping_add(Ring::<1>::BARRIERS)))
    };
    let tile = args.query_tile(thread::block_idx_x(), (CONSUMERS * ROWS) as u32);
    let mut key = tile.hidden / KEYS as u32 * KEYS as u32;
    // SAFETY: all threads execute this.
    unsafe {
        init_once(|| {
            query_ring.init(4 * CONSUMERS as u32);
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
        let full = query_ring.fill((2 * CONSUMERS * own) as u32);
        for consumer in 0..CONSUMERS {
            let at = [tile.head, tile.row + (consumer * ROWS) as u32, tile.batch];
            // SAFETY: the panels lie in shared memory, and no thread has used them yet.
            unsafe {
                copy::<SIZE, ROWS, ROWS>(q_shared.add(consumer * own), &args.q_map, at, full);
                copy::<SIZE, ROWS, ROWS>(d_shared.add(consumer * own), &args.d_out_map, at, full);
            }
        }
        while key < tile.visible {
            let full = ring.fill(2 * stage as u32);
            let (i, at) = (ring.stage(), [tile.key_head, key, tile.batch]);
            // SAFETY: the stage lies in shared memory, and is empty.
            unsafe {
                copy::<SIZE, KEYS, ROWS>(k_shared.add(i * stage), &args.k_map, at, full);
                copy::<SIZE, KEYS, ROWS>(v_shared.add(i * stage), &args.v_map, at, full);
            }
            ring.advance();
            key += KEYS as u32;
        }
    } else {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { more_registers::<MORE>() };
        let consumer = warpgroup - 1;
        let q = q_shared.wrapping_add(consumer as usize * own);
        let first_query = tile.row + ROWS as u32 * consumer;
        let (row, _) = Accumulator::<S>::position(tid % WARPGROUP, 0);
        // Queries after the last one take the statistics of others; their gradients are not stored.
        let of_stats = first_query.min(args.padded() - ROWS as u32);
        // SAFETY: a tile of 64 queries has 64 logarithms, and then 64 deltas.
        let (logs, deltas) = unsafe {
            let stats = args.stats.cast_const();
            let stats = stats.add(args.stat_index(tile.batch, tile.head, of_stats) + row);
            ([*stats, *stats.add(8)], [*stats.add(ROWS), *stats.add(ROWS + 8)])
        };
        let mut sums = Sums::<T, SIZE, KEYS, S, O, FRAGMENTS> {
            args: &args,
            q,
            d_out: d_shared.wrapping_add(consumer as usize * own),
            k: k_shared,
            v: v_shared,
            ring,
            first_query,
            logs,
            deltas,
            logits: Accumulator::ZERO,
            dq: Accumulator::ZERO,
        };
        query_ring.wait_full();
        if key < tile.visible {
            sums.next_logits();
            while key + (KEYS as u32) < tile.visible {
                sums.step::<false>(key);
                key += KEYS as u32;
            }
            sums.step::<true>(key);
        }
        let mut dq = sums.dq;
        dq.scale_rows([args.scale; 2]);
        let at = [tile.head, first_query, tile.batch];
        // SAFETY: all threads of the warpgroup execute this. Only they use the panels, whose queries they have read.
        unsafe { store::<T, SIZE, O>(&args.dq_map, at, q, &dq, 1 + consumer) };
        if tid.is_multiple_of(WARPGROUP) {
            bulk::wait_read::<0>();
        }
    }
}

/// The gradients of a warpgroup's 64 queries. All its threads call the methods together.
struct Sums<
    'a,
    T,
    const SIZE: usize,
    const KEYS: usize,
    const S: usize,
    const O: usize,
    const FRAGMENTS: usize,
> {
    args: &'a BackwardArgs<T>,
    q: *const u8,
    d_out: *const u8,
    k: *const u8,
    v: *const u8,
    /// The stages of `k` and `v`.
    ring: Ring<STAGES>,
    first_query: u32,
    /// The statistics of the thread's two queries.
    logs: [f32; 2],
    deltas: [f32; 2],
    /// The logits of the keys in the stage.
    logits: Accumulator<S>,
    dq: Accumulator<O>,
}

impl<
    T: Element16,
    const SIZE: usize,
    const KEYS: usize,
    const S: usize,
    const O: usize,
    const FRAGMENTS: usize,
> Sums<'_, T, SIZE, KEYS, S, O, FRAGMENTS>
where
    [f32; S]: Registers,
    [f32; O]: Registers,
{
    /// Bytes of a stage of `k` or `v`.
    const BYTES: usize = KEYS * 2 * SIZE;

    /// Computes the logits of the keys in the stage, once it is full.
    #[inline(always)]
    fn next_logits(&mut self) {
        self.ring.wait_full();
        // SAFETY: all threads of the warpgroup execute this. The stage is full until all warps have released it.
        self.logits = unsafe {
            let k = self.k.add(self.ring.stage() * Self::BYTES);
            multiply_rows::<T, SIZE, KEYS, S>(Accumulator::ZERO, self.q, k).finish::<0>()
        };
    }

    /// Adds the keys from `key` on. The logits of the next tile start right after the sum of this one, before it is done.
    #[inline(always)]
    fn step<const IS_LAST: bool>(&mut self, key: u32) {
        let (now, factor) = (self.ring, self.args.scale * core::f32::consts::LOG2_E);
        // SAFETY: all threads of the warpgroup execute this. The stage is full until all warps have released it.
        unsafe {
            let (k, v) = (self.k.add(now.stage() * Self::BYTES), self.v.add(now.stage() * Self::BYTES));
            let products = multiply_rows::<T, SIZE, KEYS, S>(Accumulator::ZERO, self.d_out, v);
            let mut p = self.logits;
            hide(self.args, &mut p, self.first_query, key);
            p.map_rows(|row, x| ex2_approx_ftz(x.mul_add(factor, -self.logs[row])));
            let mut ds = products.finish::<0>();
            let mut i = 0;
            ds.map_rows(|row, x| {
                let ds = p.0[i] * (x - self.deltas[row]);
                i += 1;
                ds
            });
            let dq = multiply_columns::<T, SIZE, KEYS, O, FRAGMENTS>(self.dq, &fragments(&ds), k);
            self.ring.advance();
            if !IS_LAST {
                self.next_logits();
            }
            self.dq = dq.finish::<0>();
        }
        now.release();
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
    tile.mask(|row, key| key as u32 >= to[row / 8 % 2]);
    if is_cut {
        let from = [query, query + 8].map(|query| keys.hidden(query).saturating_sub(first_key));
        tile.mask(|row, key| (key as u32) < from[row / 8 % 2]);
    }
}
