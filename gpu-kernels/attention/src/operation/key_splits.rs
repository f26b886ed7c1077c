//! Attention by `mma.sync` for few queries and many keys, and for every head size up to 256 (compute capability 8.0 and
//! later).
//!
//! With few queries, the time is the time to read K and V once. The queries of all heads that share a head of K and V are
//! the rows of one tile, up to 16, and blocks split the keys. The warps of a block take tiles of 32 keys in turns. Each
//! copies them through its own buffers, keeps its own softmax and results in registers, and waits for no other warp until
//! the keys end. It has a buffer of K and one of V: the next keys arrive while it computes exponentials and adds values, and
//! the next values while it computes logits. More buffers are not faster on an H200, nor are more blocks on a multiprocessor:
//! with more streams, memory moves up to 13 % less.
//!
//! At the end, the block adds up the results of its warps. With several splits it writes them as partial results, and
//! [`super::combine`] adds up the splits. Every sum has a fixed order, so two runs give the same bits.
//!
//! A head size between those of two instances uses the larger one: the rest of a row in shared memory is zeros.
//@ ptx(attention_bf16_128_split, compute_80+): mma.sync.aligned.m16n8k16 == 64, ldmatrix.sync.aligned.m8n8.x4.trans == 16, .local == 0
//@ ptx(attention_bf16_128_split, compute_80+): cp.async.cg >= 8, bar.sync == 3
//@ ptx(attention_f16_64_split, attention_f16_256_split, attention_bf16_256_split, compute_80+): .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::{f32x2, store_shared};
use cuda_std::mma::{self, FragmentA, FragmentB, FragmentC, ldmatrix, ldmatrix_trans, mma_sync_tiles};
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::wgmma::{Accumulator, Element16};
use cuda_std::{grid, kernel, pipeline, thread, warp};

use super::super::args::{AttentionArgs, Row};
#[cfg(not(target_arch = "nvptx64"))]
use super::SplitShape;
use super::online::{Online, Total, rescale};
use super::part::{Copies, Mask, Part, Source, UNIT, copy_queries, load_queries, pitch};
pub use super::part::{KEYS, ROWS, shared_bytes};
use common_kernels::element::Number;

const UNITS: usize = KEYS / UNIT;

/// Computes attention, for head sizes up to `SIZE`.
///
/// Launched with one block per split of each tile of [`ROWS`] rows of each head of K and V in the batch, with the threads
/// and the shared memory of `facts`. With several splits [`super::combine`] writes `out` and `log_sum_exp`.
///
/// # Safety
/// The launch is as described. The tensors match their shapes and strides, and the flags hold. No other code uses `out`,
/// `log_sum_exp` and `sums`, which has room for the partial results of all splits if there are several.
#[kernel(
    with(STEPS = SIZE / 16, O = SIZE / 8, THREADS = 32 * WARPS),
    max_threads = THREADS,
    min_arch = 80,
    args,
    facts: SplitShape = SplitShape::new(SIZE, WARPS),
    instances(
        for T in [bf16, f16] {
            attention_{T}_64_split = <64, 4>, min_blocks = 3;
            attention_{T}_96_split = <96, 4>, min_blocks = 2;
            attention_{T}_128_split = <128, 4>, min_blocks = 2;
            attention_{T}_192_split = <192, 2>, min_blocks = 3;
            attention_{T}_256_split = <256, 2>, min_blocks = 3;
        }
    ),
)]
pub unsafe fn attention_splits<
    T: Number + Element16 + mma::Element,
    const SIZE: usize,
    const WARPS: usize,
    const STEPS: usize,
    const O: usize,
    const THREADS: usize,
>(
    args: AttentionArgs<T>,
) {
    let tid = thread::thread_idx_x() as usize;
    let (warp, lane) = (tid / 32, tid % 32);
    let pitch = const { pitch(SIZE) };
    let q_shared = dynamic_shared_mem::<T>();
    let buffers = q_shared.wrapping_add((ROWS + warp * 2 * KEYS) * pitch);
    let totals = q_shared.wrapping_add((ROWS + WARPS * 2 * KEYS) * pitch).cast::<Total>();
    // SAFETY: the arguments are a kernel's.
    let part = unsafe { Part::new::<T, ROWS, KEYS>(&args, args.splits) };
    let copies = Copies::<T, SIZE>::new(&args, lane);
    let k = copies.source(&args, args.k, &args.k_strides, &part);
    let v = copies.source(&args, args.v, &args.v_strides, &part);
    let factor = args.scale * core::f32::consts::LOG2_E;
    // The kernel that adds up the splits may start; it waits for their results.
    grid::launch_dependents();
    // SAFETY: the unit lies in the block's shared memory.
    let at = |unit: usize| unsafe { buffers.add(unit * UNIT * pitch) };
    let copy = |tile: u32, source: &Source<T>, first: usize| {
        let mut unit = 0;
        while unit < UNITS && tile < part.end {
            let key = tile * KEYS as u32 + (unit * UNIT) as u32;
            // SAFETY: all lanes of the warp execute this, after all have read the buffer. The part has the tile.
            unsafe { copies.copy(&args, at(first + unit), source, &part, key) };
            unit += 1;
        }
        pipeline::commit();
    };
    // SAFETY: all threads execute this. The queries and the warp's buffers lie in shared memory, and nothing uses them yet.
    unsafe {
        copies.clear_rest(buffers);
        copy_queries::<T, SIZE, THREADS>(&args, &part, q_shared, tid);
        pipeline::commit();
    }
    let mut tile = part.first + warp as u32;
    copy(tile, &k, 0);
    pipeline::wait_prior::<1>();
    // SAFETY: all threads execute this.
    unsafe { thread::sync_threads_aligned() };
    let mask = Mask::new(&args, &part, lane);
    // The largest heads leave no registers for the queries.
    let mut queries = [[0; 4]; STEPS];
    let mut i = 0;
    while i < STEPS && SIZE <= 128 {
        // SAFETY: all lanes of the warp execute this, and the queries have arrived.
        queries[i] = unsafe { load_queries::<T, SIZE>(q_shared, i, lane) };
        i += 1;
    }

    let mut rows = Online::EMPTY;
    let mut out = [FragmentC::ZERO; O];
    while tile < part.end {
        copy(tile, &v, UNITS);
        // K has arrived, and V is in flight.
        pipeline::wait_prior::<1>();
        // SAFETY: all lanes of the warp execute this.
        unsafe { warp::sync_warp(u32::MAX) };
        let mut logits = [[[FragmentC::ZERO; 2]]; UNITS];
        let mut i = 0;
        while i < STEPS {
            // SAFETY: all lanes of the warp execute this. The queries and the keys have arrived.
            unsafe {
                let q = if SIZE <= 128 { queries[i] } else { load_queries::<T, SIZE>(q_shared, i, lane) };
                let row = lane % 8 + lane / 16 * 8;
                let mut unit = 0;
                while unit < UNITS {
                    let [a, b, c, d] = ldmatrix(at(unit).add(row * pitch + 16 * i + lane / 8 % 2 * 8));
                    let keys = [[a, b], [c, d]].map(FragmentB::<T>::from_registers);
                    mma_sync_tiles(&[FragmentA::<T>::from_registers(q)], &keys, &mut logits[unit]);
                    unit += 1;
                }
            }
            i += 1;
        }
        // SAFETY: all lanes of the warp execute this.
        unsafe { warp::sync_warp(u32::MAX) };
        copy(tile + WARPS as u32, &k, 0);
        let mut x =
            Accumulator::<{ 8 * UNITS }>(core::array::from_fn(|i| logits[i / 8][0][i / 4 % 2].0[i % 4]));
        mask.apply(&mut x.0, tile * KEYS as u32);
        // SAFETY: all lanes of the warp execute this.
        let factors = unsafe { rows.update(&mut x, factor) };
        let pair = |i: usize| T::pack([x.0[i], x.0[i + 1]]);
        let weights: [_; UNITS] = core::array::from_fn(|unit| [0, 2, 4, 6].map(|i| pair(8 * unit + i)));
        // V has arrived, and the next K is in flight.
        pipeline::wait_prior::<1>();
        // SAFETY: all lanes of the warp execute this.
        unsafe { warp::sync_warp(u32::MAX) };
        // Later tiles seldom have a larger maximum.
        // SAFETY: all lanes of the warp execute this.
        if unsafe { warp::warp_vote_any(u32::MAX, factors[0] != 1.0 || factors[1] != 1.0) } {
            let mut i = 0;
            while i < O {
                let FragmentC([a, b, c, d]) = out[i];
                out[i] = FragmentC([a * factors[0], b * factors[0], c * factors[1], d * factors[1]]);
                i += 1;
            }
        }
        let mut i = 0;
        while i < STEPS {
            let mut pair = [[out[2 * i], out[2 * i + 1]]];
            let mut unit = 0;
            while unit < UNITS {
                // SAFETY: all lanes of the warp execute this, and the values have arrived.
                unsafe {
                    let row = lane % 16;
                    let [a, b, c, d] =
                        ldmatrix_trans(at(UNITS + unit).add(row * pitch + 16 * i + lane / 16 * 8));
                    let values = [[a, b], [c, d]].map(FragmentB::<T>::from_registers);
                    mma_sync_tiles(&[FragmentA::<T>::from_registers(weights[unit])], &values, &mut pair);
                }
                unit += 1;
            }
            [[out[2 * i], out[2 * i + 1]]] = pair;
            i += 1;
        }
        // SAFETY: all lanes of the warp execute this.
        unsafe { warp::sync_warp(u32::MAX) };
        tile += WARPS as u32;
    }
    pipeline::wait_all();
    // SAFETY: all threads reach the barriers, and all lanes the collectives. The results of a warp replace its buffers, and
    // the totals have their own memory; after the barrier, one thread adds up a row's.
    unsafe {
        warp::sync_warp(u32::MAX);
        let results = buffers.cast::<f32>();
        let (row, col) = FragmentC::position(lane as u32, 0);
        let mut i = 0;
        while i < O {
            let FragmentC([a, b, c, d]) = out[i];
            let to = results.add(row * pitch + 8 * i + col);
            store_shared(to.cast(), f32x2::new(a, b));
            store_shared(to.add(8 * pitch).cast(), f32x2::new(c, d));
            i += 1;
        }
        let [first, second] = rows.totals();
        if lane.is_multiple_of(4) {
            *totals.add(warp * ROWS + row) = first;
            *totals.add(warp * ROWS + row + 8) = second;
        }
        thread::sync_threads_aligned();
        if tid < part.rows as usize {
            add_totals::<T, WARPS>(&args, &part, totals, tid, factor);
        }
        thread::sync_threads_aligned();
        let all = q_shared.add(ROWS * pitch).cast::<f32>();
        store_results::<T, SIZE, WARPS, THREADS>(&args, &part, totals, all, tid);
    }
}

/// Adds up the warps' totals of a row and writes them. Replaces the warps' maxima by the factors of their results.
///
/// # Safety
/// One thread calls this for the row, and the others wait.
#[inline(always)]
unsafe fn add_totals<T, const WARPS: usize>(
    args: &AttentionArgs<T>,
    part: &Part,
    totals: *mut Total,
    row: usize,
    factor: f32,
) {
    // SAFETY: this thread alone uses the totals of the row, and writes its elements in global memory.
    unsafe {
        let mut total = Total { max: f32::NEG_INFINITY, sum: 0.0 };
        let mut warp = 0;
        while warp < WARPS {
            total.max = total.max.max((*totals.add(warp * ROWS + row)).max);
            warp += 1;
        }
        let mut weights = [0.0; WARPS];
        let mut warp = 0;
        while warp < WARPS {
            let of_warp = *totals.add(warp * ROWS + row);
            weights[warp] = rescale(of_warp.max, total.max, factor);
            total.sum += weights[warp] * of_warp.sum;
            warp += 1;
        }
        let mut last = 1.0;
        let index = part.row + row as u32;
        if args.splits == 1 {
            let [factor, log] = total.finish(args.scale);
            last = factor;
            if !args.log_sum_exp.is_null() {
                let Row { query, head, batch, .. } = args.row(index);
                *args.log_sum_exp.add(args.log_index(batch, head, query)) = log;
            }
        } else {
            *args.sums.add(args.total_index(part.split, index)).cast() = f32x2::new(total.max, total.sum);
        }
        let mut warp = 0;
        while warp < WARPS {
            (*totals.add(warp * ROWS + row)).max = weights[warp] * last;
            warp += 1;
        }
    }
}

/// Adds up the results of the warps, times their factors, and writes them. Skips a split without keys.
///
/// # Safety
/// All threads of the block call this, after the factors and the results are complete and visible.
#[inline(always)]
unsafe fn store_results<T: Number, const SIZE: usize, const WARPS: usize, const THREADS: usize>(
    args: &AttentionArgs<T>,
    part: &Part,
    factors: *const Total,
    results: *const f32,
    tid: usize,
) {
    let is_whole = args.splits == 1;
    if !is_whole && part.first == part.end {
        return;
    }
    let size = args.head_size as usize;
    let mut i = tid;
    while i < part.rows as usize * SIZE {
        let (row, col) = (i / SIZE, i % SIZE);
        if col < size {
            let index = part.row + row as u32;
            // SAFETY: the results of the row, and its elements in global memory, which only this thread writes.
            unsafe {
                let mut sum = 0.0;
                let mut warp = 0;
                while warp < WARPS {
                    let of_warp = warp * 2 * KEYS * const { pitch(SIZE) } / 2;
                    let result = *results.add(of_warp + row * const { pitch(SIZE) } + col);
                    sum += (*factors.add(warp * ROWS + row)).max * result;
                    warp += 1;
                }
                if is_whole {
                    let Row { query, head, batch, .. } = args.row(index);
                    *args.out.add(args.out_strides.row(batch, query, head) + col) = T::from_f32(sum);
                } else {
                    *args.sums.add(args.results_index(part.split, index) + col) = sum;
                }
            }
        }
        i += THREADS;
    }
}
