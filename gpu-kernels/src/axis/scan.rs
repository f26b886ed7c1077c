//! Cumulative sums of rows.
//!
//! A tile is 8192 elements of a row. Each warp has 512 neighbouring elements of it, and adds them up by shuffles. Sums are
//! added from left to right: first those of the warps, then those of 16 neighbouring tiles, a group, and then those of the
//! groups. So a result depends neither on timing nor on which block has which tile.
//!
//! [`axis_scan()`] takes rows of one tile. [`axis_scan_grid()`] takes longer ones, and reads each element once: a block
//! publishes the sum of its tile, and waits for the sums of the tiles before it. It goes back only to the group of its own
//! last tile, because it knows the sum of all groups before. All blocks are on the device at once. While a block waits, it
//! loads its next tile.
//@ ptx(axis_scan_f32): ld.global.nc.v4 == 4, st.global.v4 == 4, bar.sync == 1, .local == 0
//@ ptx(axis_scan_f16, axis_scan_bf16): ld.global.nc.v4 == 2, st.global.v4 == 2, bar.sync == 1, .local == 0
//@ ptx(axis_scan_grid_f32, axis_scan_grid_f16, axis_scan_grid_bf16): ld.relaxed.gpu >= 1, st.relaxed.gpu >= 1, bar.sync == 3, .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::{store_global, u32x4};
use cuda_std::warp::{warp_shuffle_idx, warp_shuffle_up};
use cuda_std::{grid, kernel, shared_array, thread};

use super::args::ScanArgs;
use super::fold::load;
#[cfg(not(target_arch = "nvptx64"))]
use super::kernels::ScanShape;
use crate::element::{Element, Number};

/// Warps of a block.
const WARPS: usize = 16;
/// Threads of a block.
const BLOCK: usize = 32 * WARPS;
/// Elements of a tile that a warp has.
const OF_WARP: usize = 512;
/// Elements of a tile.
pub(super) const TILE: usize = WARPS * OF_WARP;
/// Neighbouring tiles of a row whose sums are added up on their own.
const GROUP: usize = 16;
/// The most blocks that wait for each other. A block waits for fewer than `blocks + GROUP` tiles, one per thread.
pub(super) const MOST_BLOCKS: usize = BLOCK - GROUP;
/// Elements that a CPU's thread adds up before it adds their sum to the sum of the elements before.
const RUN: usize = 256;
/// The bit of a published word that marks it as written. The lower 16 bits are half of a number.
const WRITTEN: u32 = 1 << 16;

/// Computes the cumulative sums of rows that fit a tile.
///
/// `1 << log_warps` warps share a row and hold it. Launched with blocks of 512 threads along x, enough for the rows.
///
/// # Safety
/// The launch is as described. The pointers are valid for their shapes and strides; the flags hold; no other code uses
/// `out`, and no code writes `inp`.
#[kernel(
    max_threads = 512,
    args,
    facts: ScanShape = ScanShape { tile: TILE as u32, of_warp: OF_WARP as u32, block: BLOCK as u32 },
    instances(
        axis_scan_f32 = <f32, 4, 4>;
        axis_scan_f16 = <f16, 8, 2>;
        axis_scan_bf16 = <bf16, 8, 2>;
    ),
)]
pub unsafe fn axis_scan<T, const N: usize, const VECTORS: usize>(args: ScanArgs<T>)
where
    T: Element<N>,
{
    let shared = shared_array![f32; WARPS];
    let warp = thread::thread_idx_x() as usize / 32;
    let (of_row, warps) = (warp & ((1 << args.log_warps) - 1), 1 << args.log_warps);
    let row = (thread::block_idx_x() as usize * WARPS + warp) >> args.log_warps;
    // Warps without a row reach the barrier too.
    let (row, cols) = if row < args.rows as usize { (row, args.cols as usize) } else { (0, 0) };
    let share = Share { first: of_row * OF_WARP + N * lane(), cols, is_aligned: args.is_aligned() };
    // SAFETY: the kernel's contract. All threads of the block call `add_up` and `add_warps`.
    unsafe {
        let inp = args.inp.add(row * args.inp_stride as usize);
        let packed: [u32x4; VECTORS] = share.load::<T, N, VECTORS>(inp);
        let (x, of_warp) = add_up(share.unpack(inp, packed));
        let [before, _] = add_warps(shared, of_warp, [warp - of_row, warps]);
        share.store(args.out.add(row * args.out_stride as usize), before, x);
    }
}

/// Computes the cumulative sums of rows of any length.
///
/// Launched with at most 496 blocks of 512 threads along x, and at most one per tile. `sums` holds zeros before the launch.
///
/// # Safety
/// Same as for [`axis_scan()`], except the limit on the columns; no other code uses `sums`, a multiple of 16.
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
    let (tid, blocks) = (thread::thread_idx_x() as usize, thread::grid_dim_x() as usize);
    let (cols, of_row) = (args.cols as usize, args.tiles as usize);
    let tiles = args.rows as usize * of_row;
    let first = tid / 32 * OF_WARP + N * lane();
    let share =
        |tile: usize| Share { first: tile % of_row * TILE + first, cols, is_aligned: args.is_aligned() };
    let mut tile = thread::block_idx_x() as usize;
    // SAFETY: the kernel's contract. All threads of the block take the same tiles, and reach all barriers. Only the
    // functions of `grid` access the words of `sums`. A barrier lies between any two uses of the same shared memory.
    unsafe {
        let inp = |tile: usize| args.inp.add(tile / of_row * args.inp_stride as usize);
        let sum_of = |tile: usize| args.sums.cast::<[u32; 4]>().add(tile);
        let mut packed: [u32x4; VECTORS] = share(tile).load::<T, N, VECTORS>(inp(tile));
        // The sum of the groups before the group of the block's last tile.
        let mut last = 0.0;
        while tile < tiles {
            let (x, of_warp) = add_up(share(tile).unpack(inp(tile), packed));
            let [before, of_tile] = add_warps(of_warps, of_warp, [0, WARPS]);
            if tid == 0 {
                let bits = of_tile.to_bits();
                grid::store_all(sum_of(tile), [WRITTEN | bits >> 16, WRITTEN | bits & 0xffff, 0, 0]);
            }
            if tile + blocks < tiles {
                packed = share(tile + blocks).load::<T, N, VECTORS>(inp(tile + blocks));
            }
            // Tiles of the row since the group of the block's last tile.
            let in_row = tile % of_row;
            let has_last = in_row >= blocks;
            let count = if has_last { in_row - (in_row - blocks) / GROUP * GROUP } else { in_row };
            if tid < count {
                let is_written = |[high, low, ..]: [u32; 4]| high & low & WRITTEN != 0;
                let [high, low, ..] = grid::wait_until_all(sum_of(tile - count + tid), is_written);
                *of_tiles.add(tid + tid / GROUP) = f32::from_bits(high << 16 | low & 0xffff);
            }
            thread::sync_threads_aligned();
            // Whole groups. The last sum is of the tiles after them.
            let groups = count / GROUP;
            if tid <= groups {
                let mut sum = 0.0;
                for i in GROUP * tid..(GROUP * (tid + 1)).min(count) {
                    sum += *of_tiles.add(i + tid);
                }
                *of_groups.add(tid) = sum;
            }
            thread::sync_threads_aligned();
            last = if has_last { last } else { 0.0 };
            for group in 0..groups {
                last += *of_groups.add(group);
            }
            let prefix = last + *of_groups.add(groups);
            let to = args.out.add(tile / of_row * args.out_stride as usize);
            share(tile).store(to, prefix + before, x);
            tile += blocks;
        }
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
/// Same as for [`axis_scan()`], except the limit on the columns.
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

#[inline(always)]
fn lane() -> usize {
    thread::thread_idx_x() as usize % 32
}

/// The thread's vectors of a tile of a row, of `N` elements each: the first one, and every 32nd after it.
#[derive(Clone, Copy)]
struct Share {
    /// The column of the first element.
    first: usize,
    /// Columns of the row.
    cols: usize,
    /// Whether the row is read and written by whole vectors.
    is_aligned: bool,
}

impl Share {
    /// Returns the column of the first element of vector `i`.
    #[inline(always)]
    fn at<const N: usize>(&self, i: usize) -> usize {
        self.first + i * 32 * N
    }

    /// Loads the vectors of an aligned row, zeros past its end. Returns zeros for other rows.
    ///
    /// # Safety
    /// `row` has the share's columns and is aligned if the share is; no code writes it.
    #[inline(always)]
    unsafe fn load<T, const N: usize, const VECTORS: usize>(&self, row: *const T) -> [u32x4; VECTORS] {
        core::array::from_fn(|i| {
            if self.is_aligned && self.at::<N>(i) < self.cols {
                // SAFETY: a whole vector of the row.
                unsafe { load(row.add(self.at::<N>(i))) }
            } else {
                u32x4::splat(0)
            }
        })
    }

    /// Returns the elements: of an aligned row from [`Self::load`]'s `packed`; otherwise loads them one by one.
    ///
    /// # Safety
    /// Same as for [`Self::load`].
    #[inline(always)]
    unsafe fn unpack<T: Element<N>, const N: usize, const VECTORS: usize>(
        &self,
        row: *const T,
        packed: [u32x4; VECTORS],
    ) -> [[f32; N]; VECTORS] {
        if self.is_aligned {
            return packed.map(T::unpack);
        }
        core::array::from_fn(|i| {
            core::array::from_fn(|j| {
                let col = self.at::<N>(i) + j;
                // SAFETY: an element of the row.
                if col < self.cols { unsafe { *row.add(col) }.to_f32() } else { 0.0 }
            })
        })
    }

    /// Adds `before`, rounds, and writes the elements that lie in the row.
    ///
    /// # Safety
    /// Same as for [`Self::load`], and no other code uses the elements.
    #[inline(always)]
    unsafe fn store<T: Element<N>, const N: usize, const VECTORS: usize>(
        &self,
        row: *mut T,
        before: f32,
        x: [[f32; N]; VECTORS],
    ) {
        for i in 0..VECTORS {
            let (col, x) = (self.at::<N>(i), x[i].map(|x| before + x));
            // SAFETY: the caller's row.
            unsafe {
                if !self.is_aligned {
                    for j in 0..N {
                        if col + j < self.cols {
                            *row.add(col + j) = T::from_f32(x[j]);
                        }
                    }
                } else if col < self.cols {
                    T::store(row.add(col), x);
                }
            }
        }
    }
}

/// Returns the cumulative sums of a warp's elements, and the sum of all.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
unsafe fn add_up<const N: usize, const VECTORS: usize>(
    mut x: [[f32; N]; VECTORS],
) -> ([[f32; N]; VECTORS], f32) {
    for i in 0..VECTORS {
        for j in 1..N {
            x[i][j] += x[i][j - 1];
        }
    }
    let mut up_to: [f32; VECTORS] = core::array::from_fn(|i| x[i][N - 1]);
    let mut before = 0.0;
    // SAFETY: the caller's contract: all lanes execute this.
    unsafe {
        let mut distance = 1;
        while distance < 32 {
            for i in 0..VECTORS {
                let (other, is_there) = warp_shuffle_up(u32::MAX, up_to[i], distance, 32);
                up_to[i] = if is_there { other + up_to[i] } else { up_to[i] };
            }
            distance *= 2;
        }
        for i in 0..VECTORS {
            let (left, is_there) = warp_shuffle_up(u32::MAX, up_to[i], 1, 32);
            let left = before + if is_there { left } else { 0.0 };
            x[i] = x[i].map(|x| left + x);
            before += warp_shuffle_idx(u32::MAX, up_to[i], 31, 32).0;
        }
    }
    (x, before)
}

/// Returns the sum of the warps before this one in its group, and of the whole group: `warps` warps from `first` on.
///
/// # Safety
/// All threads of the block call this. `shared` has an element per warp, its own. Another barrier separates two calls.
#[inline(always)]
unsafe fn add_warps(shared: *mut f32, of_warp: f32, [first, warps]: [usize; 2]) -> [f32; 2] {
    let own = thread::thread_idx_x() as usize / 32;
    let (mut before, mut sum) = (0.0, 0.0);
    // SAFETY: a warp writes its own element, and reads the others' after the barrier.
    unsafe {
        if lane() == 0 {
            *shared.add(own) = of_warp;
        }
        thread::sync_threads_aligned();
        for warp in first..first + warps {
            if warp == own {
                before = sum;
            }
            sum += *shared.add(warp);
        }
    }
    [before, sum]
}
