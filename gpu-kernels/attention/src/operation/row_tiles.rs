//! Attention by `mma.sync` for many queries (compute capability 8.0 and later).
//!
//! A block computes a tile of rows: queries of the heads that share a head of K and V. Each warp has some of its rows, and
//! all warps read the same tiles of keys and values. The next keys are copied while the block computes exponentials and
//! multiplies the values; these are copied while it computes the logits. The logits become exponentials and then operands in
//! their registers.
//!
//! A head size between those of two instances uses the larger one: the rest of a row in shared memory is zeros.
//@ ptx(attention_bf16_128_rows, compute_80+): mma.sync.aligned.m16n8k16 == 256, ldmatrix.sync.aligned.m8n8.x4.trans == 32, .local == 0
//@ ptx(attention_bf16_128_rows, compute_80+): ldmatrix.sync.aligned.m8n8.x4.shared == 48, bar.sync == 3
//@ ptx(attention_f16_64_rows, attention_f16_256_rows, attention_bf16_256_rows, compute_80+): .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::{load_shared, store_global, store_shared, u32x4};
use cuda_std::mma::{self, FragmentA, FragmentB, FragmentC, ldmatrix, ldmatrix_trans, mma_sync_tiles};
use cuda_std::shared::{SharedPtr, dynamic_shared_mem};
use cuda_std::wgmma::{Accumulator, Element16};
use cuda_std::{kernel, pipeline, thread, warp};

use super::super::args::{AttentionArgs, Row};
#[cfg(not(target_arch = "nvptx64"))]
use super::RowShape;
use super::block_copies::BlockCopies;
use super::online::Online;
use super::part::{Part, VECTOR, pitch};
use common_kernels::element::Number;

/// Returns the bytes of Q, K and V in shared memory.
pub const fn shared_bytes(size: usize, rows: usize, keys: usize) -> usize {
    (rows + 2 * keys) * 2 * pitch(size)
}

/// Computes attention, for head sizes up to `SIZE` that are multiples of 8.
///
/// Launched with one block per tile of `ROWS` rows of each head of K and V in the batch, with the threads and the shared
/// memory of `facts`. A warp has `M` times 16 rows, and a tile of keys `KEYS`.
///
/// # Safety
/// The launch is as described. The tensors match their shapes and strides, and their rows start at multiples of 16 bytes. No
/// other code uses `out` and `log_sum_exp`.
#[kernel(
    with(STEPS = SIZE / 16, O = SIZE / 2, S = KEYS / 2, FRAGMENTS = KEYS / 16, ROWS = 16 * M * WARPS, THREADS = 32 * WARPS),
    max_threads = THREADS,
    min_arch = 80,
    args,
    facts: RowShape = RowShape::new(SIZE, ROWS, KEYS, THREADS),
    instances(
        for T in [bf16, f16] {
            attention_{T}_64_rows = <64, 64, 4, 2>, min_blocks = 2;
            attention_{T}_80_rows = <80, 64, 4, 2>, min_blocks = 2;
            attention_{T}_96_rows = <96, 64, 4, 2>, min_blocks = 2;
            attention_{T}_128_rows = <128, 64, 4, 2>, min_blocks = 2;
            attention_{T}_192_rows = <192, 64, 4, 1>, min_blocks = 2;
            attention_{T}_256_rows = <256, 64, 4, 1>, min_blocks = 2;
        }
    ),
)]
pub unsafe fn attention_rows<
    T: Number + Element16 + mma::Element,
    const SIZE: usize,
    const KEYS: usize,
    const WARPS: usize,
    const M: usize,
    const STEPS: usize,
    const O: usize,
    const S: usize,
    const FRAGMENTS: usize,
    const ROWS: usize,
    const THREADS: usize,
>(
    args: AttentionArgs<T>,
) {
    let tid = thread::thread_idx_x() as usize;
    let (warp, lane) = (tid / 32, tid % 32);
    let pitch = const { pitch(SIZE) };
    let q_shared = dynamic_shared_mem::<T>();
    let k_shared = q_shared.wrapping_add(ROWS * pitch);
    let v_shared = k_shared.wrapping_add(KEYS * pitch);
    let at = |tile: *mut T, row: usize, col: usize| SharedPtr::from(tile.wrapping_add(row * pitch + col));
    // The lane's rows of the matrices that `ldmatrix` loads.
    let q_rows = at(q_shared, warp * 16 * M + lane % 16, lane / 16 * 8);
    let k_rows = at(k_shared, lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8);
    let v_rows = at(v_shared, lane % 16, lane / 16 * 8);
    let offset = |row: usize, col: usize| (2 * (row * pitch + col)) as u32;
    // SAFETY: the arguments are a kernel's.
    let part = unsafe { Part::new::<T, ROWS, KEYS>(&args, 1) };
    let copies = BlockCopies::<SIZE, THREADS>::new(tid);
    let [q_to, k_to] = [q_shared, k_shared].map(|tile| copies.target(tile));
    let v_to = k_to.wrapping_byte_add(offset(KEYS, 0));
    let k = copies.source(&args, args.k, &args.k_strides, &part);
    let v = copies.source(&args, args.v, &args.v_strides, &part);
    let factor = args.scale * core::f32::consts::LOG2_E;
    // SAFETY: all threads execute this. The queries and the keys lie in shared memory, and nothing uses them yet.
    unsafe {
        if part.first < part.end {
            copies.keys::<T, KEYS>(&args, &part, k_to, k, &args.k_strides, part.first * KEYS as u32);
        }
        copies.queries::<T, ROWS>(&args, &part, q_to);
    }
    pipeline::commit();
    let mask = Mask::new::<T, M>(&args, &part, warp);
    let load_queries = |step: usize| -> [FragmentA<T>; M] {
        core::array::from_fn(|m| {
            let rows = q_rows.wrapping_byte_add(offset(16 * m, 16 * step));
            // SAFETY: all lanes of the warp execute this, and the queries have arrived.
            FragmentA::from_registers(unsafe { ldmatrix(rows) })
        })
    };
    let mut rows = [Online::EMPTY; M];
    let mut out = [Accumulator::<O>::ZERO; M];
    let mut tile = part.first;
    while tile < part.end {
        let first = tile * KEYS as u32;
        // K has arrived, and no warp reads the last tile's values any more.
        pipeline::wait_all();
        // SAFETY: all threads execute this, and then nothing uses the buffer of V.
        unsafe {
            thread::sync_threads_aligned();
            copies.keys::<T, KEYS>(&args, &part, v_to, v, &args.v_strides, first);
        }
        pipeline::commit();
        let mut logits = [Accumulator::<S>::ZERO; M];
        let mut step = 0;
        while step < STEPS {
            let q = load_queries(step);
            let mut i = 0;
            while i < FRAGMENTS {
                // SAFETY: all lanes of the warp execute this. The queries and the keys have arrived.
                unsafe {
                    let [a, b, c, d] = ldmatrix(k_rows.wrapping_byte_add(offset(16 * i, 16 * step)));
                    multiply(&q, [[a, b], [c, d]], &mut logits, i);
                }
                i += 1;
            }
            step += 1;
        }
        mask.apply::<T, M, S>(&args, &part, &mut logits, first);
        // V has arrived, and no warp reads these keys any more.
        pipeline::wait_all();
        // SAFETY: all threads execute this, and then nothing uses the buffer of K.
        unsafe {
            thread::sync_threads_aligned();
            if tile + 1 < part.end {
                copies.keys::<T, KEYS>(&args, &part, k_to, k, &args.k_strides, first + KEYS as u32);
            }
        }
        pipeline::commit();
        // SAFETY: all lanes of the warp execute this.
        let [offsets, factors] = unsafe { Online::raise(&mut rows, &mut logits, factor) };
        // Later tiles seldom have a larger maximum.
        let is_scaled = factors.iter().any(|[a, b]| *a != 1.0 || *b != 1.0);
        // SAFETY: all lanes of the warp execute this.
        if unsafe { warp::warp_vote_any(u32::MAX, is_scaled) } {
            let mut m = 0;
            while m < M {
                out[m].scale_rows(factors[m]);
                m += 1;
            }
        }
        let mut step = 0;
        while step < FRAGMENTS {
            // The tensor cores multiply these values while the warp computes the next weights.
            let weights = Online::weigh::<T, M, S>(&mut rows, &logits, step, factor, &offsets);
            let weights = weights.map(FragmentA::<T>::from_registers);
            let mut i = 0;
            while i < STEPS {
                // SAFETY: all lanes of the warp execute this, and the values have arrived.
                unsafe {
                    let [a, b, c, d] = ldmatrix_trans(v_rows.wrapping_byte_add(offset(16 * step, 16 * i)));
                    multiply(&weights, [[a, b], [c, d]], &mut out, i);
                }
                i += 1;
            }
            step += 1;
        }
        tile += 1;
    }
    pipeline::wait_all();
    // SAFETY: all threads reach the barrier, and all lanes the collectives. The results of a warp replace its queries.
    unsafe {
        thread::sync_threads_aligned();
        let mut m = 0;
        while m < M {
            let [[a, log_a], [b, log_b]] = rows[m].finish(args.scale);
            out[m].scale_rows([a, b]);
            let (row, col) = FragmentC::position(lane as u32, 0);
            let first = warp * 16 * M + 16 * m + row;
            store_logs(&args, &part, lane, first as u32, [log_a, log_b]);
            let to = q_shared.add(first * pitch + col);
            let mut i = 0;
            while i < O / 4 {
                let x = &out[m].0;
                store_shared(to.add(8 * i).cast(), T::pack([x[4 * i], x[4 * i + 1]]));
                store_shared(to.add(8 * pitch + 8 * i).cast(), T::pack([x[4 * i + 2], x[4 * i + 3]]));
                i += 1;
            }
            m += 1;
        }
        warp::sync_warp(u32::MAX);
        let across = SIZE / VECTOR;
        let mut i = lane;
        while i < 16 * M * across {
            let (row, col) = (warp * 16 * M + i / across, i % across * VECTOR);
            if (row as u32) < part.rows && (col as u32) < args.head_size {
                let to = args.out.add(part.row_offset(&args, &args.out_strides, row as u32) + col);
                let vector: u32x4 = load_shared(q_shared.add(row * pitch + col).cast());
                store_global(to.cast(), vector);
            }
            i += 32;
        }
    }
}

/// Adds the products of fragments with the two fragments at columns `16 * i` to the accumulators there.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn multiply<T: mma::Element, const M: usize, const R: usize>(
    a: &[FragmentA<T>; M],
    b: [[u32; 2]; 2],
    to: &mut [Accumulator<R>; M],
    i: usize,
) {
    let pair = |at: &Accumulator<R>, i: usize| FragmentC([at.0[i], at.0[i + 1], at.0[i + 2], at.0[i + 3]]);
    let mut sums: [[FragmentC; 2]; M] =
        core::array::from_fn(|m| [pair(&to[m], 8 * i), pair(&to[m], 8 * i + 4)]);
    // SAFETY: all lanes execute this.
    unsafe { mma_sync_tiles(a, &b.map(FragmentB::<T>::from_registers), &mut sums) };
    let mut m = 0;
    while m < M {
        let mut j = 0;
        while j < 8 {
            to[m].0[8 * i + j] = sums[m][j / 4].0[j % 4];
            j += 1;
        }
        m += 1;
    }
}

/// Writes the logarithms of a lane's two rows, unless `log_sum_exp` is null.
///
/// # Safety
/// The lane has this row of the part and the eighth after it.
#[inline(always)]
unsafe fn store_logs<T>(args: &AttentionArgs<T>, part: &Part, lane: usize, row: u32, logs: [f32; 2]) {
    if args.log_sum_exp.is_null() || !lane.is_multiple_of(4) {
        return;
    }
    for (i, log) in logs.into_iter().enumerate() {
        let row = row + 8 * i as u32;
        if row < part.rows {
            let Row { query, head, batch, .. } = part.row_at(args, row);
            // SAFETY: the query has an element, and only this lane writes it.
            unsafe { *args.log_sum_exp.add(args.log_index(batch, head, query)) = log };
        }
    }
}

/// The keys that the rows of a warp see.
#[derive(Clone, Copy)]
struct Mask {
    /// The warp's first row in the part.
    row: u32,
    /// The first key and the end of the keys that all its rows see.
    common: [u32; 2],
}

impl Mask {
    #[inline(always)]
    fn new<T, const M: usize>(args: &AttentionArgs<T>, part: &Part, warp: usize) -> Self {
        let row = (warp * 16 * M) as u32;
        let query = |row: u32| part.row_at(args, row.min(part.rows - 1)).query;
        let [first, last] = [query(row), query(row + 16 * M as u32 - 1)];
        let common = [part.keys.hidden(last), part.keys.visible(first)];
        Self { row, common }
    }

    /// Replaces the logits of keys that a row does not see by -inf, for the keys from `first` on.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn apply<T, const M: usize, const S: usize>(
        self,
        args: &AttentionArgs<T>,
        part: &Part,
        logits: &mut [Accumulator<S>; M],
        first: u32,
    ) {
        let [from, to] = self.common;
        if first >= from && first + 2 * S as u32 <= to {
            return;
        }
        let mut m = 0;
        while m < M {
            let lane = thread::thread_idx_x() % 32;
            let row = self.row + 16 * m as u32 + lane / 4;
            let queries = [row, row + 8].map(|row| part.row_at(args, row.min(part.rows - 1)).query);
            let to = queries.map(|query| part.keys.visible(query).saturating_sub(first));
            logits[m].mask(|row, key| key as u32 >= to[row / 8 % 2]);
            // Without a window no key is hidden from the start.
            if first < from {
                let from = queries.map(|query| part.keys.hidden(query).saturating_sub(first));
                logits[m].mask(|row, key| (key as u32) < from[row / 8 % 2]);
            }
            m += 1;
        }
    }
}
