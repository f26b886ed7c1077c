//! All three gradients by `mma.sync`, for every head size up to 256 (compute capability 8.0 and later).
//!
//! A block takes tiles of keys in turns, and adds up their dK and dV in registers. For each tile it takes the tiles of
//! queries that see it, from the last one on, of all heads that share the head of K and V. A warp computes the transposed
//! tiles, keys by queries. So P and dS lie in registers as the first operand of the multiplications that add them to dV and
//! dK. dS also goes to shared memory, where all warps read it as the first operand of the multiplication by K.
//!
//! The sums of large heads fill the registers of several warps, each of which has some of the columns. These warps compute P
//! and dS for some of the queries each, and read the others' from shared memory.
//!
//! dQ of a tile of queries is a sum over the tiles of keys. Their blocks add to it in global memory, one after the other: the
//! first tile of keys first. So two runs give the same bits. A block waits only for tiles that others have taken before its
//! own, and so for blocks that run.
//@ ptx(attention_bf16_128_gradients, attention_f16_128_gradients, compute_80+): mma.sync.aligned.m16n8k16 >= 64, red.relaxed.gpu.global.add.f32 == 32
//@ ptx(attention_bf16_64_gradients, attention_bf16_96_gradients, compute_80+): cp.async.cg >= 8
//@ ptx(attention_bf16_192_gradients, attention_bf16_256_gradients, compute_80+): ldmatrix.sync.aligned.m8n8.x4.trans >= 16
//@ allow-local(attention_bf16_64_gradients, attention_f16_64_gradients, attention_bf16_128_gradients, attention_f16_128_gradients): 255 registers are a few too few; with fewer operands in them, shared memory would be read more often
//@ allow-local(attention_bf16_192_gradients, attention_f16_192_gradients, attention_bf16_256_gradients, attention_f16_256_gradients): the same
//@ allow-local(attention_bf16_128_small_gradients, attention_f16_128_small_gradients, attention_bf16_96_gradients, attention_f16_96_gradients): the same
//@ allow-local(attention_bf16_256_small_gradients, attention_f16_256_small_gradients): the same

use core::sync::atomic::Ordering;

use cuda_std::atomic::AtomicU32;
use cuda_std::half::{bf16, f16};
use cuda_std::hint::opaque;
use cuda_std::mem::{add_global, u32x4};
use cuda_std::mma::{self, FragmentA, FragmentC};
use cuda_std::pipeline::memcpy_async_l2;
use cuda_std::shared::{SharedPtr, dynamic_shared_mem};
use cuda_std::wgmma::Element16;
use cuda_std::{grid, kernel, pipeline, thread, warp};

use super::super::args::{ALIGNED, Strides};
use super::super::panels::ROWS;
use super::super::tiles::{Lanes, Rows, add, pitch};
#[cfg(not(target_arch = "nvptx64"))]
use super::FusedShape;
use super::args::{BackwardArgs, sum_index};
use super::key_sums::{KeySums, Place, Queries, Weights};
use common_kernels::element::Number;

/// Returns the bytes of K, the stages, dS and P, the statistics, and the number of the tile.
pub const fn shared_bytes(size: usize, keys: usize, queries: usize, stages: usize, with: usize) -> usize {
    let tiles = if with > 1 { 2 } else { 1 };
    let elements = (keys + 2 * stages * queries) * pitch(size) + tiles * keys * pitch(queries);
    elements * 2 + stages * 2 * queries * size_of::<f32>() + 16
}

/// Computes `dk` and `dv`, and adds up `sums` for [`super::finish`], for head sizes up to `SIZE`.
///
/// `sum_size` is `SIZE`, and `turn_queries` is `QUERIES`. Launched with any number of blocks, with the threads and the shared
/// memory of `facts`.
///
/// # Safety
/// The launch is as described. The tensors match their shapes and strides, and the flags hold. `stats` and `turns` hold the
/// output of [`super::delta`]. No other code uses `dk`, `dv`, `turns` and `sums`, which has a row for each padded query.
#[kernel(
    with(
        THREADS = 32 * WARPS,
        // Steps of a dot product of rows, and those of K in registers.
        STEPS = SIZE / 16, HELD = SIZE / 16 * min(1, 192 / SIZE),
        // Fragments of 16 keys whose P a warp computes, and the warps that share these keys and compute it for other queries.
        M = max(1, KEYS / 16 / WARPS), PARTS = max(1, 16 * WARPS / KEYS),
        // Fragments of 16 keys, and of eight columns, of a warp's dK and dV.
        MM = max(1, KEYS / 16 / WARPS) * WITH / max(1, 16 * WARPS / KEYS), O = SIZE / 8 / WITH,
        // Fragments of a warp's part of dQ: 16 rows, and eight columns.
        QM = QUERIES / 16 / DOWN, QN = SIZE / 8 * DOWN / WARPS,
    ),
    cooperative,
    max_threads = THREADS,
    min_arch = 80,
    args,
    facts: FusedShape = FusedShape::new(SIZE, KEYS, QUERIES, [THREADS, STAGES, WITH]),
    instances(
        for T in [bf16, f16] {
            attention_{T}_64_gradients = <64, 128, 64, 4, 2, 2, 1>, min_blocks = 2;
            attention_{T}_96_gradients = <96, 128, 64, 8, 4, 2, 1>, min_blocks = 1;
            attention_{T}_128_gradients = <128, 128, 64, 8, 2, 2, 1>, min_blocks = 1;
            // For a block's 99 KB of shared memory.
            attention_{T}_128_small_gradients = <128, 128, 32, 8, 2, 2, 1>, min_blocks = 1;
            attention_{T}_192_gradients = <192, 64, 32, 8, 2, 2, 4>, min_blocks = 1;
            attention_{T}_256_gradients = <256, 64, 32, 8, 1, 2, 4>, min_blocks = 1;
            attention_{T}_256_small_gradients = <256, 64, 32, 8, 1, 1, 4>, min_blocks = 1;
        }
    ),
)]
pub unsafe fn attention_gradients<
    T: Number + Element16 + mma::Element,
    const SIZE: usize,
    const KEYS: usize,
    const QUERIES: usize,
    const WARPS: usize,
    const DOWN: usize,
    const STAGES: usize,
    const WITH: usize,
    const THREADS: usize,
    const STEPS: usize,
    const HELD: usize,
    const M: usize,
    const PARTS: usize,
    const MM: usize,
    const O: usize,
    const QM: usize,
    const QN: usize,
>(
    args: BackwardArgs<T>,
) {
    // The values pass through the stages.
    const { assert!(KEYS <= 2 * STAGES * QUERIES) };
    let tid = thread::thread_idx_x() as usize;
    let (warp, lane) = (tid / 32, tid % 32);
    let k_shared = dynamic_shared_mem::<T>();
    // The values are in registers before the first stage is filled.
    let stages = k_shared.wrapping_add(KEYS * pitch(SIZE));
    let ds_shared = stages.wrapping_add(2 * STAGES * QUERIES * pitch(SIZE));
    let p_shared = ds_shared.wrapping_add(KEYS * pitch(QUERIES));
    let stats = ds_shared.wrapping_add(if WITH > 1 { 2 } else { 1 } * KEYS * pitch(QUERIES)).cast::<f32>();
    let taken = stats.wrapping_add(STAGES * 2 * QUERIES).cast::<u32>();
    let (d_after, stage_size) = const { (QUERIES * pitch(SIZE), 2 * QUERIES * pitch(SIZE)) };
    let k_down = Lanes::<T, SIZE>::down(k_shared, lane);
    let ds_across = Lanes::<T, QUERIES>::across(ds_shared, lane);
    let (q_down, q_across) = (Lanes::<T, SIZE>::down(stages, lane), Lanes::<T, SIZE>::across(stages, lane));
    let (p, ds) = (Weights::new(p_shared, lane), Weights::new(ds_shared, lane));
    let of_stats = SharedPtr::from(stats);
    let is_aligned = args.flags & ALIGNED != 0;
    let rows = |tensor: *const T, strides: &Strides, [batch, first, head]: [u32; 3], end: u32| Rows {
        first: tensor.wrapping_add(strides.row(batch, first, head)),
        stride: strides.length,
        count: end.saturating_sub(first),
        size: args.head_size,
        is_aligned,
    };
    let tiles = args.keys.div_ceil(KEYS as u32) * args.key_heads * args.batch;
    loop {
        // SAFETY: all threads execute this. One takes the next tile, and all read its number after the barrier.
        let block = unsafe {
            if tid == 0 {
                let all = AtomicU32::from_ptr(args.turns.add(args.taken_index()));
                *taken = all.fetch_add(1, Ordering::Relaxed);
            }
            thread::sync_threads_aligned();
            *taken
        };
        if block >= tiles {
            return;
        }
        let tile = args.key_tile(block, KEYS as u32);
        // SAFETY: all threads execute this, and are done with the previous tile.
        unsafe {
            let at = [tile.batch, tile.first, tile.head];
            rows(args.k, &args.k_strides, at, args.keys).copy::<SIZE, KEYS, THREADS>(k_shared, tid);
            rows(args.v, &args.v_strides, at, args.keys).copy::<SIZE, KEYS, THREADS>(stages, tid);
            pipeline::wait_all();
            thread::sync_threads_aligned();
        }
        let at = Place {
            own: warp / PARTS * 16 * M,
            part: warp % PARTS,
            shared: warp / WITH * 16 * MM,
            column: 8 * O * (warp % WITH),
            barrier: [1 + warp / WITH, 32 * WITH].map(|number| number as u32),
        };
        // SAFETY: all threads execute this, and the tiles are complete.
        let mut keys = unsafe {
            let keys =
                KeySums::<T, SIZE, HELD, STEPS, M, O, MM>::new(&args, tile, [k_down, q_down], lane, at);
            thread::sync_threads_aligned();
            keys
        };
        let first = args.first_query(tile.first) / QUERIES as u32;
        let end = args.end_of_queries(args.keys.min(tile.first + KEYS as u32) - 1).div_ceil(QUERIES as u32);
        let count = end.saturating_sub(first);
        let copy_queries = |stage: usize, head: u32, query: u32| {
            let at = [tile.batch, query, head];
            let to = stages.wrapping_add(stage * stage_size);
            // SAFETY: all threads execute this, after all have read the stage. A tile's statistics are contiguous.
            unsafe {
                rows(args.q, &args.q_strides, at, args.queries).copy::<SIZE, QUERIES, THREADS>(to, tid);
                rows(args.d_out, &args.d_out_strides, at, args.queries)
                    .copy::<SIZE, QUERIES, THREADS>(to.add(d_after), tid);
                if tid < QUERIES / 2 {
                    let (which, i) = (tid / (QUERIES / 4), tid % (QUERIES / 4) * 4);
                    let from = args.stats.cast_const().add(args.stat_index(tile.batch, head, query));
                    let to = stats.add((2 * stage + which) * QUERIES + i);
                    memcpy_async_l2::<u32x4>(to.cast::<u32x4>(), from.add(which * ROWS + i).cast());
                }
            }
        };
        let mut head = tile.head * args.group;
        let mut query = (end.max(1) - 1) * QUERIES as u32;
        let all = count * args.group;
        if all > 0 && STAGES > 1 {
            copy_queries(0, head, query);
        }
        // Where the next turn is announced of the queries whose dQ is added, and their turn.
        let (mut done, mut turn): (*mut u32, u32) = (core::ptr::null_mut(), 0);
        let mut step = 0;
        while step < all {
            if STAGES == 1 {
                // SAFETY: all threads execute this.
                unsafe { thread::sync_threads_aligned() };
                copy_queries(0, head, query);
            }
            pipeline::wait_all();
            // SAFETY: all threads execute this. What they have added is visible to who sees the next turn.
            unsafe {
                thread::sync_threads_aligned();
                if tid == THREADS - 1 && !done.is_null() {
                    grid::store_release(done, turn + 1);
                }
            }
            let stage = step as usize % STAGES;
            let is_first = query == first * QUERIES as u32;
            let (next_head, next_query) = if is_first {
                (head + 1, (end - 1) * QUERIES as u32)
            } else {
                (head, query - QUERIES as u32)
            };
            if step + 1 < all && STAGES > 1 {
                copy_queries(stage ^ 1, next_head, next_query);
            }
            let (q_down, q_across) = (q_down.after(stage * stage_size), q_across.after(stage * stage_size));
            let queries = Queries::<T, SIZE, QUERIES> {
                first: query,
                q_down,
                q_across,
                d_down: q_down.after(d_after),
                d_across: q_across.after(d_after),
                stats: of_stats.wrapping_byte_add((2 * stage * QUERIES * size_of::<f32>()) as u32),
                p,
                ds,
            };
            let is_masked = !keys.hides_none(query, QUERIES as u32);
            let mut c = 0;
            // SAFETY: all lanes of the warp execute this, and the tile is complete.
            unsafe {
                while is_masked && c < QUERIES {
                    keys.add_queries::<QUERIES, PARTS, true>(&queries, c);
                    c = opaque(c + 16 * PARTS);
                }
                while c < QUERIES {
                    keys.add_queries::<QUERIES, PARTS, false>(&queries, c);
                    c += 16 * PARTS;
                }
            }
            let sum_row = args.padded_row(tile.batch, head, query);
            // The number of tiles of keys that have to add first.
            turn = tile.first / KEYS as u32 - args.all_keys().hidden(query) / KEYS as u32;
            let (down, across) = (warp % DOWN * QM, warp / DOWN * QN);
            let (row, column) = (sum_row as usize + 16 * down, 8 * across);
            // With one block of more warps, half of them multiply while the others wait. Otherwise one thread waits for all.
            let is_alone = const { WARPS > 4 && WITH == 1 };
            // SAFETY: all threads execute this. There is a turn for the queries, for which they wait. After the barrier dS is
            // complete. The lane alone adds to its elements, in the turn of the queries.
            unsafe {
                done = args.turns.add((sum_row / QUERIES as u32) as usize);
                let wait = |does_wait: bool| {
                    if does_wait && turn > 0 {
                        grid::wait_until(done, Ordering::Acquire, |turns| turns == turn);
                    }
                };
                wait(!is_alone && tid == 0);
                thread::sync_threads_aligned();
                let waits_first = warp < WARPS / 2;
                wait(is_alone && lane == 0 && waits_first);
                let (ds, k) = (ds_across.after(16 * down), k_down.after(column));
                let dq = multiply::<T, QUERIES, SIZE, KEYS, QM, QN>(ds, k);
                wait(is_alone && lane == 0 && !waits_first);
                if is_alone {
                    warp::sync_warp(u32::MAX);
                }
                let sums = args.sums.add(sum_index(SIZE, row, column, lane));
                if turn == 0 {
                    for_sums::<SIZE, QM, QN>(&dq, |i, x| *sums.add(i) = x);
                } else {
                    for_sums::<SIZE, QM, QN>(&dq, |i, x| add_global(sums.add(i), x));
                }
            }
            (head, query) = (next_head, next_query);
            step += 1;
        }
        // SAFETY: all threads execute this. What they have added is visible to who sees the next turn.
        unsafe {
            thread::sync_threads_aligned();
            if tid == THREADS - 1 && !done.is_null() {
                grid::store_release(done, turn + 1);
            }
        }
        // SAFETY: no other code uses the gradients.
        unsafe { keys.store() };
    }
}

/// Multiplies the transposed dS, `QM` times 16 queries of it, by K, `QN` times 8 columns of it.
///
/// # Safety
/// All lanes of the warp call this. The tiles are complete.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn multiply<
    T: mma::Element,
    const QUERIES: usize,
    const SIZE: usize,
    const KEYS: usize,
    const QM: usize,
    const QN: usize,
>(
    mut ds: Lanes<T, QUERIES>,
    mut k: Lanes<T, SIZE>,
) -> [[FragmentC; QN]; QM] {
    let mut dq = [[FragmentC::ZERO; QN]; QM];
    let mut key = 0;
    while key < KEYS {
        // SAFETY: all lanes of the warp execute this, and the tiles are complete.
        unsafe {
            let mut of_ds = [FragmentA::<T>::from_registers([0; 4]); QM];
            let mut m = 0;
            while m < QM {
                of_ds[m] = ds.a_trans(0, 16 * m);
                m += 1;
            }
            let mut n = 0;
            while n < QN {
                add(&mut dq, &of_ds, &k.b_trans(0, 8 * n), n);
                n += 2;
            }
        }
        (ds, k) = (ds.after(16 * pitch(QUERIES)), k.after(16 * pitch(SIZE)));
        key = opaque(key + 16);
    }
    dq
}

/// Passes each of a lane's elements to `store`, with its offset in the sums.
#[inline(always)]
fn for_sums<const SIZE: usize, const QM: usize, const QN: usize>(
    dq: &[[FragmentC; QN]; QM],
    store: impl Fn(usize, f32),
) {
    let mut i = 0;
    while i < 4 * QM * QN {
        let (m, n, element) = (i / 4 / QN, i / 4 % QN, i % 4);
        store(sum_index(SIZE, 16 * m, 8 * n, 32 * element), dq[m][n].0[element]);
        i += 1;
    }
}
