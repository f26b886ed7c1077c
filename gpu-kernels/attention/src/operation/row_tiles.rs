//! Attention by `mma.sync` for many queries (compute capability 8.0 and later).
//!
//! A block computes a tile of rows: queries of the heads that share a head of K and V. Each warp has some of its rows, and
//! all warps read the same tiles of keys and values. The next keys are copied while the block computes exponentials and
//! multiplies the values; these are copied while it computes the logits. For head size 64 the queries are in registers, and the
//! next keys and values are copied while the block computes with a tile. The logits become exponentials and then operands in
//! their registers.
//!
//! A branch within a step costs up to 5 % of its time, because the compiler moves no instruction across it. So tiles that all
//! rows of a warp see have a loop of their own without any branch, and the others have one with a mask. A warp skips the tiles
//! that none of its rows see. The exponents' rounding is checked once at the end: with logits of millions, the block computes
//! its rows again, more exactly.
//!
//! A head size between those of two instances uses the larger one: the rest of a row in shared memory is zeros.
//@ ptx(attention_bf16_128_rows, compute_80+): mma.sync.aligned.m16n8k16 == 512, ldmatrix.sync.aligned.m8n8.x4.trans == 64, .local == 0
//@ ptx(attention_bf16_128_rows, compute_80+): ldmatrix.sync.aligned.m8n8.x4.shared == 96
//@ allow-local(attention_bf16_80_rows, attention_f16_80_rows, attention_bf16_96_rows, attention_f16_96_rows): in steps with a mask, for 8.0 alone
//@ allow-local(attention_bf16_128_paged_rows, attention_f16_128_paged_rows): addresses of pages
//@ allow-local(attention_bf16_128_rows, attention_f16_128_rows, compute_90): 255 registers are two too few; 9.0 has faster kernels
//@ ptx(attention_f16_64_rows, attention_f16_256_rows, attention_bf16_256_rows, compute_80+): .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::store_shared;
use cuda_std::mma::{self, FragmentC};
use cuda_std::shared::{SharedPtr, dynamic_shared_mem};
use cuda_std::wgmma::Element16;
use cuda_std::{kernel, pipeline, thread, warp};

use super::super::args::{AttentionArgs, Row};
#[cfg(not(target_arch = "nvptx64"))]
use super::RowShape;
use super::block_copies::BlockCopies;
use super::part::{Part, pitch};
use super::row_mask::Mask;
use super::row_steps::{Block, Sums};
use common_kernels::element::Number;

/// Returns the bytes of shared memory: Q, K and V, or two buffers of K and V with Q in the second ones first. Then the block's
/// part and the warps' masks, if they are there.
pub const fn shared_bytes(size: usize, rows: usize, keys: usize, warps: usize) -> usize {
    let stored = if is_stored(size) { size_of::<Part>() + warps * size_of::<Mask>() } else { 0 };
    (rows + 2 * keys) * 2 * pitch(size) + stored
}

/// Whether part and masks are in shared memory, since registers have no room for them. With the largest heads shared memory has
/// none: the tiles take all that compute capability 8.6 has.
const fn is_stored(size: usize) -> bool {
    size < 256
}

/// Computes attention, for head sizes up to `SIZE` that are multiples of 8. K and V are in pages if `PAGED`.
///
/// Launched with one block per tile of `ROWS` rows of each head of K and V in the batch, with the threads and the shared
/// memory of `facts`. A warp has `M` times 16 rows, and a tile of keys `KEYS`. If `STAGED`, the queries are in registers, and K
/// and V have two buffers each.
///
/// # Safety
/// The launch is as described. The tensors match their shapes and strides, and their rows start at multiples of 16 bytes. No
/// other code uses `out` and `log_sum_exp`.
#[kernel(
    with(STEPS = SIZE / 16, O = SIZE / 2, S = KEYS / 2, ROWS = 16 * M * WARPS, THREADS = 32 * WARPS),
    max_threads = THREADS,
    min_arch = 80,
    args,
    facts: RowShape = RowShape::new(SIZE, ROWS, KEYS, THREADS, PAGED),
    instances(
        for T in [bf16, f16], PAGED = false {
            attention_{T}_64_rows = <64, 64, 4, 2, true>, min_blocks = 2;
            attention_{T}_80_rows = <80, 64, 4, 2, false>, min_blocks = 2;
            attention_{T}_96_rows = <96, 64, 4, 2, false>, min_blocks = 2;
            attention_{T}_128_rows = <128, 64, 4, 2, false>, min_blocks = 2;
            attention_{T}_192_rows = <192, 64, 4, 1, false>, min_blocks = 2;
            attention_{T}_256_rows = <256, 64, 4, 1, false>, min_blocks = 2;
        }
        for T in [bf16, f16], PAGED = true {
            attention_{T}_64_paged_rows = <64, 64, 4, 2, true>, min_blocks = 2;
            attention_{T}_80_paged_rows = <80, 64, 4, 2, false>, min_blocks = 2;
            attention_{T}_96_paged_rows = <96, 64, 4, 2, false>, min_blocks = 2;
            attention_{T}_128_paged_rows = <128, 64, 4, 2, false>, min_blocks = 2;
            attention_{T}_192_paged_rows = <192, 64, 4, 1, false>, min_blocks = 2;
            attention_{T}_256_paged_rows = <256, 64, 4, 1, false>, min_blocks = 2;
        }
    ),
)]
pub unsafe fn attention_rows<
    T: Number + Element16 + mma::Element,
    const SIZE: usize,
    const KEYS: usize,
    const WARPS: usize,
    const M: usize,
    const STAGED: bool,
    const PAGED: bool,
    const STEPS: usize,
    const O: usize,
    const S: usize,
    const ROWS: usize,
    const THREADS: usize,
>(
    args: AttentionArgs<T>,
) {
    const { assert!(!STAGED || ROWS == 2 * KEYS, "Q is in the second buffers first") };
    let tid = thread::thread_idx_x() as usize;
    let (warp, lane) = (tid / 32, tid % 32);
    let pitch = const { pitch(SIZE) };
    let q_shared = dynamic_shared_mem::<T>();
    let at = |row: usize, col: usize| SharedPtr::from(q_shared.wrapping_add(row * pitch + col));
    let stored = q_shared.wrapping_add((ROWS + 2 * KEYS) * pitch).cast::<Part>();
    let mask = stored.wrapping_add(1).cast::<Mask>().wrapping_add(warp);
    let copies = BlockCopies::<SIZE, THREADS, PAGED>::new(tid);
    let mut start;
    // SAFETY: the arguments are a kernel's.
    let own_part = unsafe { Part::new::<T, ROWS, KEYS>(&args, 1) };
    let own_mask = Mask::new::<T, M, KEYS>(&args, &own_part, warp);
    // SAFETY: all threads execute this, and nothing uses the memory yet. After the barrier all see the part, and no thread changes
    // it.
    let (part, mask) = unsafe {
        let part = &own_part;
        copies.queries::<T, ROWS>(&args, part, copies.target(q_shared));
        pipeline::commit();
        if is_stored(SIZE) && tid == 0 {
            *stored = own_part;
        }
        if is_stored(SIZE) && lane == 0 {
            *mask = own_mask;
        }
        start = copies.start::<T, KEYS, STAGED>(&args, part, copies.target(q_shared), ROWS);
        if STAGED {
            pipeline::wait_prior::<1>();
        }
        thread::sync_threads_aligned();
        if is_stored(SIZE) { (&*stored, &*mask) } else { (part, &own_mask) }
    };
    let mut block = Block::<T, SIZE, KEYS, M, STEPS, THREADS, STAGED, PAGED> {
        args: &args,
        part,
        mask,
        copies,
        to: copies.target(q_shared),
        // The lane's rows of the matrices that `ldmatrix` loads.
        q_rows: at(warp * 16 * M + lane % 16, lane / 16 * 8),
        k_rows: at(lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8),
        v_rows: at(KEYS + lane % 16, lane / 16 * 8),
        queries: [[[0; 4]; M]; STEPS],
        factor: args.scale * core::f32::consts::LOG2_E,
    };
    let mut step = 0;
    while step < STEPS && STAGED {
        // SAFETY: all lanes of the warp execute this, and the queries have arrived.
        block.queries[step] = unsafe { block.load_queries(step) };
        step += 1;
    }
    let mut is_exact = false;
    let Sums { rows, mut out } = loop {
        // SAFETY: all threads execute this. The queries and the first tile are being copied.
        let sums = unsafe { block.run::<O, S>(start, is_exact) };
        // SAFETY: all threads execute this.
        let is_inexact = unsafe { thread::sync_threads_or_aligned(block.is_inexact(&sums).into()) } != 0;
        if is_exact || !is_inexact {
            break sums;
        }
        is_exact = true;
        // SAFETY: all threads have passed the barrier, so nothing uses the buffers.
        start = unsafe { copies.start::<T, KEYS, STAGED>(&args, part, block.to, ROWS) };
    };
    let unit = if is_exact { args.scale } else { core::f32::consts::LN_2 };
    // SAFETY: all threads have passed the barrier, and all lanes reach the collectives. The results of a warp replace its queries.
    unsafe {
        let mut m = 0;
        while m < M {
            let [[a, log_a], [b, log_b]] = rows[m].finish(unit);
            out[m].scale_rows([a, b]);
            let (row, col) = FragmentC::position(lane as u32, 0);
            let first = warp * 16 * M + 16 * m + row;
            store_logs(&args, part, lane, first as u32, [log_a, log_b]);
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
        let copies = BlockCopies::<SIZE, 32, PAGED>::new(lane);
        copies.results(&args, part, q_shared, warp * 16 * M, 16 * M);
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
