//! The gradients of rows that fit the registers of a warp, a block or a cluster of blocks.
//!
//! With `g = weight d_out` and `x` the normalised row, the gradient of the input is `rstd (g - x mean(g x) - mean(g))`; only
//! LayerNorm has the last mean. Blocks take rows in turns, and load the next row while they compute. They keep their rows'
//! gradients of weight and bias in registers, and write them as parts. [`super::columns`] adds them up in a fixed order.
//!
//! Rows without gaps may start at any element of a vector. With `SHIFTED`, all rows of a thread start at the same one, so that
//! the thread has the same columns in each. It reads and writes whole vectors, and masks the two that a row shares with its
//! neighbours. A thread keeps its columns' weights in shared memory.
//@ ptx(norm_backward_f32_256x8): .local == 0
//@ ptx(norm_backward_bf16_256x4, norm_backward_f16_256x4): .local == 0
//@ ptx(norm_backward_f32_256x8s, norm_backward_bf16_256x4s, norm_backward_f16_256x4s): .local == 0
//@ ptx(norm_backward_f32_cluster, norm_backward_bf16_cluster, compute_90+): mapa >= 1, .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::{load_shared, store_shared, u32x4};
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::{cluster, kernel, shared_array, thread, warp};

use super::args::{ALIGNED, CENTRED, NormBackwardArgs};
use super::exchange::Exchange;
use super::row::{Columns, Held, begin, log_threads, packed, padded, sums_of_row, sums_of_warp};
#[cfg(not(target_arch = "nvptx64"))]
use super::{exchange::MOST_BLOCKS, shapes::RowsShape};
use common_kernels::element::{Element, Output};

/// Computes the gradients of a norm. A part is the rows that a block takes.
///
/// `THREADS` threads hold a row, `VECTORS` vectors of `N` elements each; with `CLUSTER`, the `THREADS` threads of every
/// block of the cluster do. For each vector they keep the gradients of weight and bias, this row's elements and the next
/// row's: about 80 registers, plus `N + 16` per vector. A multiprocessor has registers for `AHEAD` such blocks; if that is
/// 0, it has one block that does not load ahead. Launched with any number of blocks of `BLOCK` threads, or with `CLUSTER` of
/// clusters of two to 16 blocks. There are that many parts.
///
/// With `NARROW`, only as many threads hold a row as it needs, a power of two.
///
/// The launch has the dynamic shared memory of its [`RowsShape`]. With `SHIFTED` the flag `ALIGNED` has no meaning.
///
/// # Safety
/// The launch is as described; `cols` is at least 1 and at most what the threads of a row hold. The pointers are valid for
/// their shapes and strides; the flags hold; no other code uses what is written. `d_inp` may be `d_out`, `d_sum` or `inp`
/// with the same stride. With `SHIFTED` every stride is `cols`, the matrices start at multiples of 16 bytes, `d_inp` is none
/// of the inputs, the rows that a thread takes start at the same element of a vector, and `cols` is at least `N - 1`.
#[kernel(
    with(BLOCK = max(THREADS, 128), AHEAD = 65536 / (BLOCK * (80 + VECTORS * (N + 16))), BLOCKS = max(AHEAD, 1)),
    max_threads = BLOCK,
    min_blocks = BLOCKS,
    args,
    facts: RowsShape = RowsShape::new(N * THREADS * VECTORS, BLOCK, THREADS).with_blocks(BLOCKS)
        .in_clusters(if CLUSTER { MOST_BLOCKS } else { 1 })
        .with_weights(N, SHIFTED).narrow(NARROW),
    instances(
        T = f32, N = 4, CLUSTER = false, SHIFTED = true, NARROW = false {
            norm_backward_f32_64x6s = <64, 6>;
            norm_backward_f32_128x6s = <128, 6>;
            norm_backward_f32_192x6s = <192, 6>;
            norm_backward_f32_256x8s = <256, 8>;
        }
        for T in [f16, bf16], N = 8, CLUSTER = false, SHIFTED = true, NARROW = false {
            norm_backward_{T}_64x2s = <64, 2>;
            norm_backward_{T}_64x3s = <64, 3>;
            norm_backward_{T}_128x3s = <128, 3>;
            norm_backward_{T}_192x3s = <192, 3>;
            norm_backward_{T}_256x4s = <256, 4>;
        }
        T = f32, N = 4, CLUSTER = false, SHIFTED = false, NARROW = false {
            norm_backward_f32_narrow = <32, 2>, NARROW = true;
            norm_backward_f32_32x4 = <32, 4>;
            norm_backward_f32_32x6 = <32, 6>;
            norm_backward_f32_32x8 = <32, 8>;
            norm_backward_f32_64x6 = <64, 6>;
            norm_backward_f32_64x8 = <64, 8>;
            norm_backward_f32_128x6 = <128, 6>;
            norm_backward_f32_128x8 = <128, 8>;
            norm_backward_f32_256x6 = <256, 6>;
            norm_backward_f32_256x8 = <256, 8>;
            norm_backward_f32_cluster = <512, 4>, CLUSTER = true, min_arch = 90;
        }
        for T in [f16, bf16], N = 8, CLUSTER = false, SHIFTED = false, NARROW = false {
            norm_backward_{T}_narrow = <32, 2>, NARROW = true;
            norm_backward_{T}_32x3 = <32, 3>;
            norm_backward_{T}_32x4 = <32, 4>;
            norm_backward_{T}_64x3 = <64, 3>;
            norm_backward_{T}_64x4 = <64, 4>;
            norm_backward_{T}_192x2 = <192, 2>;
            norm_backward_{T}_128x4 = <128, 4>;
            norm_backward_{T}_256x3 = <256, 3>;
            norm_backward_{T}_256x4 = <256, 4>;
            norm_backward_{T}_512x3 = <512, 3>;
            norm_backward_{T}_cluster = <512, 2>, CLUSTER = true, min_arch = 90;
        }
    ),
)]
pub unsafe fn norm_backward_rows<
    T,
    const N: usize,
    const THREADS: usize,
    const VECTORS: usize,
    const BLOCK: usize,
    const CLUSTER: bool,
    const SHIFTED: bool,
    const NARROW: bool,
    const AHEAD: usize,
    const BLOCKS: usize,
>(
    args: NormBackwardArgs<T>,
) where
    T: Element<N>,
    f32: Output<N>,
{
    begin();
    // The sums of the warps, for two turns.
    let of_warps = shared_array![[f32; 2]; 64];
    let tid = thread::thread_idx_x() as usize;
    let (group, of_group, threads) = if NARROW {
        let log = log_threads(args.cols, (N * VECTORS) as u32);
        (tid >> log, tid & ((1 << log) - 1), 1 << log)
    } else {
        (tid / THREADS, tid % THREADS, THREADS)
    };
    let groups = BLOCK / threads;
    let (rank, blocks) =
        if CLUSTER { (cluster::block_rank() as usize, cluster::num_blocks() as usize) } else { (0, 1) };
    let block = thread::block_idx_x() as usize / blocks;
    let first_row = block * groups + group;
    let (stride, rows) = (thread::grid_dim_x() as usize / blocks * groups, args.rows as usize);
    let thread = rank * threads + of_group;
    let skip = if SHIFTED { first_row * args.cols as usize % N } else { 0 };
    let of_row =
        Columns::new::<N>(thread, blocks * threads, args.cols as usize, SHIFTED || args.has(ALIGNED));
    let of_row = Columns::<SHIFTED> { skip, len: args.cols as usize + skip, ..of_row };
    // Nothing follows the last row.
    let shares = |row: usize| !SHIFTED || row + 1 < rows;
    let (mut d_weight, mut d_bias) = ([[0.0; N]; VECTORS], [[0.0; N]; VECTORS]);
    // All groups of the block take the same number of turns as its first one.
    let turns = rows.saturating_sub(block * groups).div_ceil(stride);
    let fetch = |turn: usize| -> Fetched<VECTORS> {
        let row = first_row + turn * stride;
        let (row, len) = if row < rows { (row, args.cols as usize + skip) } else { (0, 0) };
        let columns = Columns { len, is_aligned: of_row.is_aligned && shares(row), ..of_row };
        // SAFETY: the kernel's contract; every turn of the block's first group has a row. Groups without one read row 0.
        unsafe {
            let x = columns.load_all(args.inp.add(row * args.inp_stride as usize).wrapping_sub(skip));
            let d_out = args.d_out.add(row * args.d_out_stride as usize).wrapping_sub(skip);
            let d_out = columns.load_all(d_out);
            (x, d_out, [if args.has(CENTRED) { *args.mean.add(row) } else { 0.0 }, *args.rstd.add(row)])
        }
    };
    let own_weight = |i: usize| dynamic_shared_mem::<u32x4>().wrapping_add(i * BLOCK + tid);
    // The mean and the deviation of a row, from the first lane. If a block has one row, ptxas wants them in uniform registers,
    // and without this it would wait for them where they are loaded. All threads call it.
    let late = |of_row: [f32; 2]| match THREADS == BLOCK {
        // SAFETY: all lanes of the warp call this.
        true => of_row.map(|x| unsafe { warp::warp_shuffle_idx(u32::MAX, x, 0, 32) }.0),
        false => of_row,
    };
    // The normalised elements of a vector, and the gradients before and after the weight.
    let vector = |(x, d_out, _): &Fetched<VECTORS>, [mean, rstd]: [f32; 2], i: usize| {
        let (x, d) = (T::unpack(x[i]).map(|x| (x - mean) * rstd), T::unpack(d_out[i]));
        let mut g = d;
        if !args.weight.is_null() {
            // SAFETY: the vector is the thread's own.
            let weight = T::unpack(unsafe { load_shared(own_weight(i)) });
            g = core::array::from_fn(|j| d[j] * weight[j]);
        }
        (x, d, g)
    };
    // Adds to the gradients of weight and bias, and returns the thread's sums for the gradient of the input.
    let mut sums_of = |row: &Fetched<VECTORS>| {
        let (mut sums, of_row) = ([0.0; 2], late(row.2));
        for i in 0..VECTORS {
            let (x, d, g) = vector(row, of_row, i);
            for j in 0..N {
                // Past the row's end the gradients are zeros.
                sums = [sums[0] + g[j] * x[j], sums[1] + g[j]];
                d_weight[i][j] += d[j] * x[j];
                d_bias[i][j] += d[j];
            }
        }
        sums
    };
    // Writes the gradient of the input, from the sums over the row.
    let write = |columns: &Columns<SHIFTED>, turn: usize, fetched: &Fetched<VECTORS>, sums: [f32; 2]| {
        let row = first_row + turn * stride;
        let row = if row < rows { row } else { 0 };
        let [of_x, of_mean] = sums.map(|sum| sum * args.per_column);
        let of_mean = if args.has(CENTRED) { of_mean } else { 0.0 };
        let of_row = late(fetched.2);
        for i in 0..VECTORS {
            let (x, _, g) = vector(fetched, of_row, i);
            let mut d: [f32; N] = core::array::from_fn(|j| of_row[1] * (g[j] - x[j] * of_x - of_mean));
            // SAFETY: the kernel's contract; a row without elements is neither read nor written.
            unsafe {
                if !args.d_sum.is_null() {
                    let d_sum = args.d_sum.add(row * args.d_sum_stride as usize).wrapping_sub(skip);
                    let other: [f32; N] = columns.load(d_sum, i);
                    d = core::array::from_fn(|j| d[j] + other[j]);
                }
                let to = args.d_inp.add(row * args.d_inp_stride as usize).wrapping_sub(skip);
                columns.store(to, i, d);
            }
        }
    };
    if turns > 0 && !args.weight.is_null() {
        for i in 0..VECTORS {
            let weight = |j| match of_row.has(i, j) {
                // SAFETY: a column of the row.
                true => unsafe { *args.weight.add(of_row.at(i, j) - skip) }.to_f32(),
                false => 0.0,
            };
            let weight = match SHIFTED {
                true => core::array::from_fn(weight),
                // SAFETY: the weight has the thread's columns.
                false => unsafe { of_row.load(args.weight, i) },
            };
            // SAFETY: the vector is the thread's own.
            unsafe { store_shared(own_weight(i), packed::<T, N>(weight)) };
        }
    }
    // Without registers for one such block, the next row is not loaded ahead.
    let is_ahead = AHEAD > 0;
    if CLUSTER && turns > 0 {
        // SAFETY: all threads of the cluster call it, and wait below.
        let exchange = unsafe { Exchange::new(turns) };
        let mut this = fetch(0);
        let mut next = if is_ahead { fetch(1) } else { this };
        // SAFETY: all threads of the cluster take the same turns; each row's sums are sent, and then received.
        unsafe {
            cluster::wait();
            exchange.send(0, sums_of(&this));
        }
        for turn in 0..turns {
            if !is_ahead {
                next = fetch(turn + 1);
            }
            // SAFETY: all warps of the cluster have sent these sums, or will.
            let sums = unsafe { exchange.receive(turn) };
            let after = if is_ahead { fetch(turn + 2) } else { next };
            if is_ahead && turn + 1 < turns {
                // SAFETY: all threads execute this, after they have received the sums of two turns before.
                unsafe { exchange.send(turn + 1, sums_of(&next)) };
            }
            write(&of_row, turn, &this, sums);
            this = next;
            if !is_ahead && turn + 1 < turns {
                // SAFETY: all threads execute this, after they have received the sums of two turns before.
                unsafe { exchange.send(turn + 1, sums_of(&this)) };
            }
            next = after;
        }
    } else if turns > 0 {
        let mut ahead = if is_ahead {
            fetch(0)
        } else {
            ([u32x4::new(0, 0, 0, 0); VECTORS], [u32x4::new(0, 0, 0, 0); VECTORS], [0.0; 2])
        };
        for turn in 0..turns {
            let mut this = if is_ahead { ahead } else { fetch(turn) };
            if is_ahead {
                ahead = fetch(turn + 1);
            }
            let row = first_row + turn * stride;
            let (row, len) = if row < rows { (row, args.cols as usize + skip) } else { (0, 0) };
            let columns = Columns { len, is_aligned: of_row.is_aligned && shares(row), ..of_row };
            if SHIFTED {
                let (x, d_out, of_mean) = this;
                this = (columns.masked::<T, N, VECTORS>(x), columns.masked::<T, N, VECTORS>(d_out), of_mean);
            }
            // SAFETY: all threads call it. Another turn separates two with the same memory.
            let sums = unsafe {
                let of_turn = of_warps.cast::<[f32; 2]>().add(turn % 2 * 32);
                sums_of_row::<THREADS, NARROW, 2>(threads, of_turn, sums_of(&this))
            };
            write(&columns, turn, &this, sums);
        }
    }
    // SAFETY: the kernel's contract. All threads reach the barriers; each shared element has one thread in each group.
    unsafe {
        if SHIFTED {
            let at = block * args.pitch as usize;
            if !args.d_weight.is_null() {
                write_sums::<N, VECTORS, BLOCK, SHIFTED>(
                    &of_row,
                    [group, groups],
                    &d_weight,
                    args.d_weight.add(at),
                );
            }
            if !args.d_bias.is_null() {
                write_sums::<N, VECTORS, BLOCK, SHIFTED>(
                    &of_row,
                    [group, groups],
                    &d_bias,
                    args.d_bias.add(at),
                );
            }
            return;
        }
        if NARROW {
            d_weight = d_weight.map(|all| sums_of_warp(threads, all));
            d_bias = d_bias.map(|all| sums_of_warp(threads, all));
        }
        // A narrow row's groups are warps now.
        let groups = BLOCK / THREADS;
        if groups > 1 {
            let sums = shared_array![f32; LARGEST];
            add_groups::<N, VECTORS, THREADS>(sums, groups, &mut d_weight);
            add_groups::<N, VECTORS, THREADS>(sums, groups, &mut d_bias);
        }
        if tid < threads {
            let at = block * args.pitch as usize;
            for i in 0..VECTORS {
                if !args.d_weight.is_null() {
                    of_row.store_own(args.d_weight.add(at), i, d_weight[i]);
                }
                if !args.d_bias.is_null() {
                    of_row.store_own(args.d_bias.add(at), i, d_bias[i]);
                }
            }
        }
    }
}

/// A row's x and gradient of the output, its mean, and the reciprocal of its standard deviation.
type Fetched<const VECTORS: usize> = (Held<VECTORS>, Held<VECTORS>, [f32; 2]);

/// Columns of the largest kernel that has several rows in a block.
const LARGEST: usize = 2048;

/// Adds up the groups' sums, in order. The block's first group gets the result.
///
/// # Safety
/// All threads of the block call this; `shared` belongs to the block and has an element for each column.
#[inline(always)]
unsafe fn add_groups<const N: usize, const VECTORS: usize, const THREADS: usize>(
    shared: *mut f32,
    groups: usize,
    sums: &mut [[f32; N]; VECTORS],
) {
    let tid = thread::thread_idx_x() as usize;
    let (group, thread) = (tid / THREADS, tid % THREADS);
    // SAFETY: neighbouring threads have neighbouring elements, and the barriers separate the groups.
    unsafe {
        for turn in (0..groups).rev() {
            if group == turn {
                for i in 0..VECTORS {
                    for j in 0..N {
                        let at = shared.add((i * N + j) * THREADS + thread);
                        if turn + 1 < groups {
                            sums[i][j] += *at;
                        }
                        *at = sums[i][j];
                    }
                }
            }
            thread::sync_threads_aligned();
        }
    }
}

/// Adds up the groups' sums of each column, in order, and writes them to `part`. The groups' columns may differ.
///
/// # Safety
/// All threads of the block call this. The dynamic shared memory has [`padded`] elements for the columns of each group; no
/// thread needs what was in it. `part` has the columns, and no other code uses it.
#[inline(always)]
unsafe fn write_sums<const N: usize, const VECTORS: usize, const BLOCK: usize, const SHIFTED: bool>(
    columns: &Columns<SHIFTED>,
    [own, groups]: [usize; 2],
    sums: &[[f32; N]; VECTORS],
    part: *mut f32,
) {
    let (tid, cols) = (thread::thread_idx_x() as usize, columns.len - columns.skip);
    let of_group = |group: usize| dynamic_shared_mem::<f32>().wrapping_add(group * padded(cols));
    // SAFETY: each column of a group has one thread, and the barriers separate it from the others.
    unsafe {
        thread::sync_threads_aligned();
        for i in 0..VECTORS {
            for j in 0..N {
                if columns.has(i, j) {
                    *of_group(own).add(padded(columns.at(i, j) - columns.skip)) = sums[i][j];
                }
            }
        }
        thread::sync_threads_aligned();
        for col in (tid..cols).step_by(BLOCK) {
            *part.add(col) = (0..groups).fold(0.0, |sum, group| sum + *of_group(group).add(padded(col)));
        }
    }
}
