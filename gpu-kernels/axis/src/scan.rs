//! Cumulative sums of rows.
//!
//! A tile is 8192 elements of a row, or fewer. Each warp has neighbouring elements of it, and adds them up by shuffles. Sums are
//! added from left to right: first those of the warps, then those of 16 neighbouring tiles, a group, and then those of the
//! groups. So a result depends neither on timing nor on which block has which tile.
//!
//! In [`axis_scan_short()`] a few lanes have a short row. [`axis_scan()`] takes longer rows of one tile, so many of several
//! tiles that each block has one, or so few that each has a cluster. In [`axis_scan_grid()`] blocks share long rows, and read
//! each element once: a block publishes the sum of its tile, and waits for the sums of the tiles before it. It goes back only
//! to the group of its own last tile, because it knows the sum of all groups before. All blocks are on the device at once. A
//! block publishes the sum of its next tile before it waits for the sums that the current tile needs. The current tile stays
//! in shared memory meanwhile, and the loads of the tile after the next are in flight.
//@ allow-local(axis_scan_f32_any, compute_75): it spills a little on this architecture, where it was not measured
//@ allow-local(axis_scan_f32_any, compute_80): likewise
//@ ptx(axis_scan_short_f32, axis_scan_short_f16, axis_scan_short_bf16): bar.sync == 0, .shared == 0, .local == 0
//@ ptx(axis_scan_f32, axis_scan_bf16, axis_scan_short_f32, axis_scan_short_bf16, compute_90+): griddepcontrol.wait == 1
//@ ptx(axis_scan_f32): ld.global.nc.v4 >= 8, st.global.v4 == 4, .local == 0
//@ ptx(axis_scan_f16, axis_scan_bf16): ld.global.nc.v4 >= 4, st.global.v4 == 2, .local == 0
//@ ptx(axis_scan_grid_f32, axis_scan_grid_f16, axis_scan_grid_bf16): ld.relaxed.gpu >= 1, st.relaxed.gpu >= 1, bar.sync == 5, .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::{load_shared, store_global, store_shared, u32x4};
use cuda_std::{cluster, grid, kernel, shared_array, thread};

use super::args::ScanArgs;
#[cfg(not(target_arch = "nvptx64"))]
use super::shapes::ScanShape;
use super::tile::{BLOCK, GROUP, OF_WARP, Place, Share, TILE, WARPS, add_lanes, add_up, add_warps, lane};
use common_kernels::element::{Element, Number};

/// Elements that a CPU's thread adds up before it adds their sum to the sum of the elements before.
const RUN: usize = 256;
/// 16-byte vectors for a thread's elements of a tile, as `f32`.
const HELD: usize = TILE / BLOCK / 4;
/// The bit of a published word that marks it as written. The lower 16 bits are half of a number.
const WRITTEN: u32 = 1 << 16;

/// Computes the cumulative sums of short rows.
///
/// `threads` neighbouring lanes have a row, a vector each. A lane has a vector of `ROWS` rows. Launched with blocks of 128
/// threads along x, enough for the rows. With `WHOLE` all rows start at multiples of 16 bytes.
///
/// # Safety
/// The launch is as described. The pointers are valid for their shapes and strides; the flags hold; no other code uses
/// `out`, and no code writes `inp`.
#[kernel(
    max_threads = 128,
    args,
    facts: ScanShape = ScanShape { tile: 32 * N as u32, of_warp: (32 * N * ROWS) as u32, block: 128 },
    instances(
        WHOLE = true {
            axis_scan_short_f32 = <f32, 4, 4>;
            axis_scan_short_f16 = <f16, 8, 4>;
            axis_scan_short_bf16 = <bf16, 8, 4>;
            axis_scan_short_f32_few = <f32, 4, 1>;
            axis_scan_short_f16_few = <f16, 8, 1>;
            axis_scan_short_bf16_few = <bf16, 8, 1>;
        }
        WHOLE = false {
            axis_scan_short_f32_any = <f32, 4, 4>;
            axis_scan_short_f16_any = <f16, 8, 2>;
            axis_scan_short_bf16_any = <bf16, 8, 2>;
            axis_scan_short_f32_any_few = <f32, 4, 1>;
            axis_scan_short_f16_any_few = <f16, 8, 1>;
            axis_scan_short_bf16_any_few = <bf16, 8, 1>;
        }
    ),
)]
pub unsafe fn axis_scan_short<T, const N: usize, const ROWS: usize, const WHOLE: bool>(args: ScanArgs<T>)
where
    T: Element<N>,
{
    grid::wait_for_dependencies();
    grid::launch_dependents();
    let (lane, lanes) = (lane() as u32, args.threads);
    let (group, groups, own) = (lane / lanes, 32 / lanes, lane % lanes);
    let first = thread::index_1d() / 32 * ROWS as u32 * groups + group;
    // Lanes without a row take part in the shuffles.
    let place = |i: usize| {
        let row = first + i as u32 * groups;
        if group < groups && row < args.rows { (row as usize, args.cols) } else { (0, 0) }
    };
    let (row, share) = (
        |i| place(i).0,
        |i| {
            let (row, cols) = place(i);
            Share::<WHOLE>::new(&args, row, [N as u32 * own, 0], cols)
        },
    );
    // SAFETY: the rows have the shares' columns; all lanes call `add_lanes`.
    unsafe {
        let inp = |i| args.inp.add(row(i) * args.inp_stride as usize);
        let packed: [[u32x4; 1]; ROWS] = core::array::from_fn(|i| share(i).load::<T, N, 1>(inp(i)));
        let mut x = core::array::from_fn(|i| share(i).unpack::<T, N, 1>(inp(i), packed[i])[0]);
        let before: [[f32; 2]; ROWS] = add_lanes(&mut x, [own, lanes]);
        for i in 0..ROWS {
            let out = args.out.add(row(i) * args.out_stride as usize);
            share(i).store::<T, N, 1>(out, before[i][0], [x[i]]);
        }
    }
}

/// Computes the cumulative sums of rows, tile by tile.
///
/// A block has a row, or a tile of it at a time, or each `threads` threads of it, 32 or 64, have a row. Launched with blocks of
/// whole warps along x, enough for the rows, with 512 threads for rows of several tiles. With `CLUSTER` the tiles of a row are
/// the blocks of a cluster, at most 16. With `WHOLE` all rows start at multiples of 16 bytes.
///
/// # Safety
/// Same as for [`axis_scan_short()`].
#[kernel(
    max_threads = 512,
    args,
    facts: ScanShape =
        ScanShape { tile: (512 * N * VECTORS) as u32, of_warp: (32 * N * VECTORS) as u32, block: BLOCK as u32 },
    instances(
        CLUSTER = false, WHOLE = true {
            axis_scan_f32 = <f32, 4, 4>;
            axis_scan_f16 = <f16, 8, 2>, min_blocks = 3;
            axis_scan_bf16 = <bf16, 8, 2>, min_blocks = 3;
            axis_scan_f32_few = <f32, 4, 1>;
            axis_scan_f16_few = <f16, 8, 1>, min_blocks = 3;
            axis_scan_bf16_few = <bf16, 8, 1>, min_blocks = 3;
        }
        CLUSTER = false, WHOLE = false {
            axis_scan_f32_any = <f32, 4, 4>, min_blocks = 2;
            axis_scan_f16_any = <f16, 8, 2>, min_blocks = 2;
            axis_scan_bf16_any = <bf16, 8, 2>, min_blocks = 2;
            axis_scan_f32_any_few = <f32, 4, 1>, min_blocks = 2;
            axis_scan_f16_any_few = <f16, 8, 1>, min_blocks = 2;
            axis_scan_bf16_any_few = <bf16, 8, 1>, min_blocks = 2;
        }
        CLUSTER = true, WHOLE = true {
            axis_scan_f32_cluster = <f32, 4, 4>, min_arch = 90;
            axis_scan_f16_cluster = <f16, 8, 2>, min_blocks = 3, min_arch = 90;
            axis_scan_bf16_cluster = <bf16, 8, 2>, min_blocks = 3, min_arch = 90;
        }
        CLUSTER = true, WHOLE = false {
            axis_scan_f32_any_cluster = <f32, 4, 4>, min_blocks = 2, min_arch = 90;
            axis_scan_f16_any_cluster = <f16, 8, 2>, min_blocks = 2, min_arch = 90;
            axis_scan_bf16_any_cluster = <bf16, 8, 2>, min_blocks = 2, min_arch = 90;
        }
    ),
)]
pub unsafe fn axis_scan<T, const N: usize, const VECTORS: usize, const CLUSTER: bool, const WHOLE: bool>(
    args: ScanArgs<T>,
) where
    T: Element<N>,
{
    grid::wait_for_dependencies();
    grid::launch_dependents();
    let (shared, of_blocks) = (shared_array![f32; 2 * WARPS], shared_array![f32; 16]);
    let (tid, block, threads) = (thread::thread_idx_x(), thread::block_dim_x(), args.threads);
    // Threads without a row reach the barriers too.
    let (log, of_row) = (threads.trailing_zeros(), if threads < block { tid & (threads - 1) } else { tid });
    let (row, own, tiles) = if CLUSTER {
        let own = cluster::block_rank();
        (thread::block_idx_x() / cluster::num_blocks(), own, own + 1)
    } else if threads < block {
        ((thread::block_idx_x() * (block >> log)) + (tid >> log), 0, 1)
    } else {
        (thread::block_idx_x(), 0, args.tiles)
    };
    let of_warp = 32 * N * VECTORS;
    let (row, cols) = if row < args.rows { (row as usize, args.cols) } else { (0, 0) };
    let inp = args.inp.wrapping_add(row * args.inp_stride as usize);
    let out = args.out.wrapping_add(row * args.out_stride as usize);
    let first = of_row / 32 * of_warp as u32 + (N * lane()) as u32;
    let of_group = [(tid - of_row) / 32, threads / 32].map(|warps| warps as usize);
    let share = |tile: u32| {
        Share::<WHOLE>::new(&args, row, [tile * (WARPS * of_warp) as u32 + first, 32 * N as u32], cols)
    };
    // SAFETY: the row has the share's columns.
    let load = |tile: u32| -> [u32x4; VECTORS] { unsafe { share(tile).load::<T, N, VECTORS>(inp) } };
    if CLUSTER {
        // SAFETY: all threads of the cluster wait.
        unsafe { cluster::arrive_relaxed() };
    }
    let mut packed = load(own);
    // The sums of the groups of tiles before this one, and of the tiles before it in its group.
    let (mut of_groups, mut of_tiles) = (0.0, 0.0);
    for tile in own..tiles {
        // SAFETY: the kernel's contract. All threads of the block call `add_up` and `add_warps`, whose memory the next tile
        // does not use. All of the cluster reach its barriers.
        unsafe {
            let x = share(tile).unpack(inp, packed);
            // With elements of 4 bytes this would take more registers than a thread has.
            if N > 4 && tile + 1 < tiles {
                packed = load(tile + 1);
            }
            let (x, of_warp) = add_up(x);
            let [before, of_tile] = add_warps(shared.add(tile as usize % 2 * WARPS), of_warp, of_group);
            if CLUSTER {
                // The other blocks have started. Each gets the sum of this one.
                cluster::wait();
                if tid < cluster::num_blocks() {
                    *cluster::map_shared(of_blocks.add(tile as usize), tid) = of_tile;
                }
                cluster::sync();
                for i in 0..16 {
                    of_tiles += if i < tile { *of_blocks.add(i as usize) } else { 0.0 };
                }
            }
            share(tile).store::<T, N, VECTORS>(out, of_groups + of_tiles + before, x);
            of_tiles += of_tile;
            if N <= 4 && tile + 1 < tiles {
                packed = load(tile + 1);
            }
        }
        if (tile as usize + 1).is_multiple_of(GROUP) {
            (of_groups, of_tiles) = (of_groups + of_tiles, 0.0);
        }
    }
}

/// Computes the cumulative sums of rows of any length.
///
/// Launched with at most 496 blocks of 512 threads along x, and at most one per tile. `sums` holds zeros before the launch.
///
/// # Safety
/// Same as for [`axis_scan_short()`]; no other code uses `sums`, a multiple of 16. The number of
/// tiles plus twice the number of blocks fits `u32`.
#[kernel(
    cooperative,
    max_threads = 512,
    min_blocks = 2,
    args,
    facts: ScanShape = ScanShape { tile: TILE as u32, of_warp: OF_WARP as u32, block: BLOCK as u32 },
    instances(
        axis_scan_grid_f32 = <f32, 4, 4>;
        axis_scan_grid_f16 = <f16, 8, 2>;
        axis_scan_grid_bf16 = <bf16, 8, 2>;
    ),
)]
pub unsafe fn axis_scan_grid<T, const N: usize, const VECTORS: usize>(args: ScanArgs<T>)
where
    T: Element<N>,
{
    // A gap after each group's sums prevents bank conflicts when they are read.
    let (of_warps, of_tiles, of_groups) = (
        shared_array![f32; WARPS],
        shared_array![f32; BLOCK + BLOCK / GROUP],
        shared_array![f32; BLOCK / GROUP + 1],
    );
    let (tid, blocks) = (thread::thread_idx_x() as usize, thread::grid_dim_x());
    // The thread's elements of the current tile.
    let held = shared_array![u32x4; HELD * BLOCK].cast::<u32x4>().wrapping_add(tid);
    let tiles = args.rows * args.tiles;
    // SAFETY: each tile is one of an existing row.
    let inp = |at: Place| unsafe { args.inp.add(at.row as usize * args.inp_stride as usize) };
    // SAFETY: each tile is one of an existing row.
    let out = |at: Place| unsafe { args.out.add(at.row as usize * args.out_stride as usize) };
    let share = |at: Place| {
        let first = at.of_row * TILE as u32 + (tid / 32 * OF_WARP + N * lane()) as u32;
        Share::<false>::new(&args, at.row as usize, [first, 32 * N as u32], args.cols)
    };
    // SAFETY: there is a sum for each tile of the matrix.
    let sum_of = |tile: u32| unsafe { args.sums.cast::<[u32; 4]>().add(tile as usize) };
    let load = |at: Place| -> [u32x4; VECTORS] {
        if at.tile < tiles {
            // SAFETY: the row has the share's columns, aligned if the share is.
            unsafe { share(at).load::<T, N, VECTORS>(inp(at)) }
        } else {
            [u32x4::splat(0); VECTORS]
        }
    };
    // Scans a tile and publishes its sum. Returns the scanned elements and the sum of the preceding warps.
    let publish = |at: Place, packed: [u32x4; VECTORS]| {
        // SAFETY: all threads of the block execute this. Only the functions of `grid` access the words of `sums`.
        unsafe {
            let (x, of_warp) = add_up(share(at).unpack(inp(at), packed));
            let [before, of_tile] = add_warps(of_warps, of_warp, [0, WARPS]);
            if tid == 0 {
                let bits = of_tile.to_bits();
                grid::store_all(sum_of(at.tile), [WRITTEN | bits >> 16, WRITTEN | bits & 0xffff, 0, 0]);
            }
            (x, before)
        }
    };
    let hold = |x: [[f32; N]; VECTORS]| {
        // SAFETY: a thread's elements fill `HELD` vectors, and it has shared memory for them.
        unsafe {
            let x: [u32x4; HELD] = core::mem::transmute_copy(&x);
            for i in 0..HELD {
                store_shared(held.add(i * BLOCK), x[i]);
            }
        }
    };
    let mut this = Place::new(thread::block_idx_x(), args.tiles);
    let (x, mut before) = publish(this, load(this));
    hold(x);
    // SAFETY: all threads of the block execute this.
    unsafe { thread::sync_threads_aligned() };
    let mut next = Place::new(this.tile + blocks, args.tiles);
    let mut packed = load(next);
    // The sum of the groups before the group of the block's last tile.
    let mut last = 0.0;
    while this.tile < tiles {
        let mut ahead = ([[0.0; N]; VECTORS], 0.0);
        let after = Place::new(next.tile + blocks, args.tiles);
        if next.tile < tiles {
            ahead = publish(next, packed);
            packed = load(after);
        }
        // Tiles of the row since the group of the block's last tile.
        let has_last = this.of_row >= blocks;
        let known = if has_last { (this.of_row - blocks) & !(GROUP as u32 - 1) } else { 0 };
        let (count, groups) = ((this.of_row - known) as usize, (this.of_row - known) as usize / GROUP);
        // SAFETY: all threads of the block take the same tiles, and reach the barriers. One lies between any two uses of the
        // same shared memory. The row has `count` tiles before this one.
        unsafe {
            if tid < count {
                let is_written = |[high, low, ..]: [u32; 4]| high & low & WRITTEN != 0;
                let of_tile = sum_of(this.tile - count as u32 + tid as u32);
                let [high, low, ..] = grid::wait_until_all(of_tile, is_written);
                *of_tiles.add(tid + tid / GROUP) = f32::from_bits(high << 16 | low & 0xffff);
            }
            thread::sync_threads_aligned();
            // Whole groups. The last sum is of the tiles after them.
            if tid <= groups {
                let mut sum = 0.0;
                for i in GROUP * tid..(GROUP * (tid + 1)).min(count) {
                    sum += *of_tiles.add(i + tid);
                }
                *of_groups.add(tid) = sum;
            }
            thread::sync_threads_aligned();
        }
        last = if has_last { last } else { 0.0 };
        // SAFETY: the sums of the groups are complete, and the elements are the thread's.
        unsafe {
            for group in 0..groups {
                last += *of_groups.add(group);
            }
            let prefix = last + *of_groups.add(groups);
            let x: [u32x4; HELD] = core::array::from_fn(|i| load_shared(held.add(i * BLOCK)));
            share(this).store::<T, N, VECTORS>(out(this), prefix + before, core::mem::transmute_copy(&x));
        }
        hold(ahead.0);
        before = ahead.1;
        (this, next) = (next, after);
    }
}

/// Clears the sums of the tiles.
///
/// Launched with at least `count` threads along x.
///
/// # Safety
/// The launch is as described; `sums`, a multiple of 16, has `4 * count` words that no other code uses.
#[kernel(max_threads = 256)]
pub unsafe fn axis_scan_clear(sums: *mut u32, count: u32) {
    let i = thread::index_1d();
    if i < count {
        // SAFETY: the kernel's contract; `i` is below `count`.
        unsafe { store_global(sums.cast::<u32x4>().add(i as usize), u32x4::splat(0)) };
    }
}

/// Computes the cumulative sums of rows of any length, one thread per row.
///
/// Launched with one block of one thread per row.
///
/// # Safety
/// Same as for [`axis_scan_short()`].
#[kernel(
    max_threads = 1,
    args,
    instances(
        axis_scan_f32_serial = <f32>, cpu_only = true;
        axis_scan_f16_serial = <f16>, cpu_only = true;
        axis_scan_bf16_serial = <bf16>, cpu_only = true;
    ),
)]
pub unsafe fn axis_scan_serial<T: Number>(args: ScanArgs<T>) {
    let (row, cols) = (thread::block_idx_x() as usize, args.cols as usize);
    let mut before = 0.0;
    for first in (0..cols).step_by(RUN) {
        let mut sum = 0.0;
        for col in first..(first + RUN).min(cols) {
            // SAFETY: the kernel's contract; the column lies in the row.
            unsafe {
                sum += (*args.inp.add(row * args.inp_stride as usize + col)).to_f32();
                *args.out.add(row * args.out_stride as usize + col) = T::from_f32(before + sum);
            }
        }
        before += sum;
    }
}
