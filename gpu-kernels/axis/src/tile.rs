//! A block's tile of a row: its loads and stores, and the scan within it.

use cuda_std::mem::u32x4;
use cuda_std::thread;
use cuda_std::warp::{warp_shuffle_idx, warp_shuffle_up};

use super::args::ScanArgs;
use super::fold::load;
use common_kernels::element::{Element, VECTOR_ALIGN};
use common_kernels::unaligned::{Unaligned, gather};

/// Warps of a block.
pub(super) const WARPS: usize = 16;
/// Threads of a block.
pub(super) const BLOCK: usize = 32 * WARPS;
/// Elements of a tile that a warp has.
pub(super) const OF_WARP: usize = 512;
/// Elements of a tile.
pub(super) const TILE: usize = WARPS * OF_WARP;
/// Neighbouring tiles of a row whose sums are added up on their own.
pub(super) const GROUP: usize = 16;
/// The most blocks that wait for each other. A block waits for fewer than `blocks + GROUP` tiles, one per thread.
#[cfg(not(target_arch = "nvptx64"))]
pub(super) const MOST_BLOCKS: usize = BLOCK - GROUP;

#[inline(always)]
pub(super) fn lane() -> usize {
    thread::thread_idx_x() as usize % 32
}

/// The thread's vectors of a tile of a row, of `N` elements each: the first one, and others at equal distances.
///
/// A row of the output starts at any element of a vector. Columns count from the start of that vector, so that whole vectors
/// are written.
#[derive(Clone, Copy)]
pub(super) struct Share {
    /// The column of the first element.
    pub first: u32,
    /// The distance from one vector to the next.
    pub step: u32,
    /// The row's first column, and the end of its columns.
    pub cols: [u32; 2],
    /// Whether the input's row starts at the same element of a vector as the output's.
    pub is_alike: bool,
    /// Elements of the matrix that lie before and after the input's row without gaps.
    pub around: [usize; 2],
}

impl Share {
    /// The share from column `first` on of row `row`, or of no row if there are no `cols` columns.
    #[inline(always)]
    pub fn new<T>(args: &ScanArgs<T>, row: usize, [first, step]: [u32; 2], cols: u32) -> Self {
        let out = args.out.wrapping_add(row * args.out_stride as usize);
        let skip = (out.addr() % VECTOR_ALIGN / size_of::<T>()) as u32;
        let (len, rows) = (args.cols as usize, args.rows as usize);
        let is_dense = args.inp_stride as usize == len;
        let around = if is_dense { [row * len, (rows - 1 - row) * len] } else { [0; 2] };
        Self { first, step, cols: [skip, skip + cols], is_alike: args.is_alike(), around }
    }

    /// Returns whether `before` elements before vector `i` and `len` from it on lie in the row, or next to it without gaps.
    /// Elements of 4 bytes are loaded as fast one by one.
    #[inline(always)]
    fn reaches<const N: usize>(&self, i: usize, before: usize, len: usize) -> bool {
        let ([start, end], [first, last]) = (self.cols, if N > 4 { self.around } else { [0; 2] });
        let at = self.start(i);
        at + first as isize >= before as isize && at + len as isize <= (end - start) as isize + last as isize
    }

    /// Returns whether the row has some of the elements of vector `i`, and whether it has all of them.
    #[inline(always)]
    fn has<const N: usize>(&self, i: usize) -> [bool; 2] {
        let (at, [start, end]) = (self.first + i as u32 * self.step, self.cols);
        let after = at + N as u32;
        [after > start && at < end, at >= start && after <= end]
    }

    /// Returns the element `j` of vector `i` of the row, if the row has it: its distance from the first one.
    #[inline(always)]
    fn at(&self, i: usize, j: usize) -> Option<usize> {
        let (at, [start, end]) = (self.first + i as u32 * self.step + j as u32, self.cols);
        if at >= start && at < end { Some((at - start) as usize) } else { None }
    }

    /// Returns the distance of vector `i`, which the row has a part of, from the row's first element.
    #[inline(always)]
    fn start(&self, i: usize) -> isize {
        (self.first + i as u32 * self.step).wrapping_sub(self.cols[0]) as i32 as isize
    }

    /// Loads the vectors, with elements around the row, if that starts as the output's does. Returns zeros for the others.
    ///
    /// # Safety
    /// `row` has the share's columns; no code writes it.
    #[inline(always)]
    pub unsafe fn load<T, const N: usize, const VECTORS: usize>(&self, row: *const T) -> [u32x4; VECTORS] {
        core::array::from_fn(|i| {
            if self.is_alike && self.has::<N>(i)[0] && self.reaches::<N>(i, 0, N) {
                // SAFETY: a whole vector of the matrix.
                unsafe { load(row.offset(self.start(i))) }
            } else {
                u32x4::splat(0)
            }
        })
    }

    /// Returns the elements: those that [`Self::load`] has loaded from `packed`, and it loads the others.
    ///
    /// # Safety
    /// Same as for [`Self::load`].
    #[inline(always)]
    pub unsafe fn unpack<T: Element<N>, const N: usize, const VECTORS: usize>(
        &self,
        row: *const T,
        packed: [u32x4; VECTORS],
    ) -> [[f32; N]; VECTORS] {
        core::array::from_fn(|i| {
            let ([has_some, has_all], at) = (self.has::<N>(i), self.start(i));
            if !has_some || self.is_alike && has_all {
                return T::unpack(packed[i]);
            }
            let x = if self.is_alike && self.reaches::<N>(i, 0, N) {
                packed[i]
            } else if N > 4 && self.reaches::<N>(i, N - 1, 2 * N) {
                // SAFETY: vectors of the matrix.
                unsafe { Unaligned::load(row.offset(at), |from| load(from)).vector::<T>() }
            } else {
                let len = (self.cols[1] - self.cols[0]) as isize;
                let own = [(-at).max(0) as usize, (len - at).min(N as isize) as usize];
                // SAFETY: elements of the row.
                return T::unpack(unsafe { gather::<T, N, 4>(row.wrapping_offset(at), own) });
            };
            let x = T::unpack(x);
            core::array::from_fn(|j| if self.at(i, j).is_some() { x[j] } else { 0.0 })
        })
    }

    /// Adds `before`, rounds, and writes the elements that lie in the row.
    ///
    /// # Safety
    /// Same as for [`Self::load`], and no other code uses the elements.
    #[inline(always)]
    pub unsafe fn store<T: Element<N>, const N: usize, const VECTORS: usize>(
        &self,
        row: *mut T,
        before: f32,
        x: [[f32; N]; VECTORS],
    ) {
        for i in 0..VECTORS {
            let ([has_some, has_all], x) = (self.has::<N>(i), x[i].map(|x| before + x));
            // SAFETY: the elements lie in the row, aligned if the share is, and only this thread writes them.
            unsafe {
                if has_all {
                    T::store(row.offset(self.start(i)), x);
                } else if has_some {
                    for j in 0..N {
                        if let Some(at) = self.at(i, j) {
                            *row.add(at) = T::from_f32(x[j]);
                        }
                    }
                }
            }
        }
    }
}

/// Returns the cumulative sums of the elements of `lanes` neighbouring lanes, and the sum of all.
///
/// # Safety
/// All lanes of the warp call this. `lanes` is a power of two, at most 32.
#[inline(always)]
pub(super) unsafe fn add_up<const N: usize, const VECTORS: usize>(
    mut x: [[f32; N]; VECTORS],
    lanes: u32,
) -> ([[f32; N]; VECTORS], f32) {
    for i in 0..VECTORS {
        for j in 1..N {
            x[i][j] += x[i][j - 1];
        }
    }
    let mut up_to: [f32; VECTORS] = core::array::from_fn(|i| x[i][N - 1]);
    let (mut before, own) = (0.0, lane() as u32 % lanes);
    // SAFETY: all lanes execute this.
    unsafe {
        let mut distance = 1;
        while distance < lanes {
            for i in 0..VECTORS {
                let (other, _) = warp_shuffle_up(u32::MAX, up_to[i], distance, 32);
                up_to[i] = if own >= distance { other + up_to[i] } else { up_to[i] };
            }
            distance *= 2;
        }
        for i in 0..VECTORS {
            let (left, _) = warp_shuffle_up(u32::MAX, up_to[i], 1, 32);
            let left = before + if own > 0 { left } else { 0.0 };
            x[i] = x[i].map(|x| left + x);
            before += warp_shuffle_idx(u32::MAX, up_to[i], lane() as u32 | (lanes - 1), 32).0;
        }
    }
    (x, before)
}

/// Returns the sum of the warps before this one in its group, and of the whole group: `warps` warps from `first` on.
///
/// # Safety
/// All threads of the block call this. `shared` has an element per warp, its own. Another barrier separates two calls.
#[inline(always)]
pub(super) unsafe fn add_warps(shared: *mut f32, of_warp: f32, [first, warps]: [usize; 2]) -> [f32; 2] {
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
