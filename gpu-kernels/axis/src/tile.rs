//! A block's tile of a row: its loads and stores, and the scan within it.

use cuda_std::mem::u32x4;
use cuda_std::thread;
use cuda_std::warp::{warp_shuffle_idx, warp_shuffle_up};

use super::fold::load;
use common_kernels::element::Element;

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

/// The thread's vectors of a tile of a row, of `N` elements each: the first one, and every 32nd after it.
#[derive(Clone, Copy)]
pub(super) struct Share {
    /// The column of the first element.
    pub first: usize,
    /// Columns of the row.
    pub cols: usize,
    /// Whether the row is read and written by whole vectors.
    pub is_aligned: bool,
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
    pub unsafe fn load<T, const N: usize, const VECTORS: usize>(&self, row: *const T) -> [u32x4; VECTORS] {
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
    pub unsafe fn unpack<T: Element<N>, const N: usize, const VECTORS: usize>(
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
    pub unsafe fn store<T: Element<N>, const N: usize, const VECTORS: usize>(
        &self,
        row: *mut T,
        before: f32,
        x: [[f32; N]; VECTORS],
    ) {
        for i in 0..VECTORS {
            let (col, x) = (self.at::<N>(i), x[i].map(|x| before + x));
            // SAFETY: the elements lie in the row, aligned if the share is, and only this thread writes them.
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
pub(super) unsafe fn add_up<const N: usize, const VECTORS: usize>(
    mut x: [[f32; N]; VECTORS],
) -> ([[f32; N]; VECTORS], f32) {
    for i in 0..VECTORS {
        for j in 1..N {
            x[i][j] += x[i][j - 1];
        }
    }
    let mut up_to: [f32; VECTORS] = core::array::from_fn(|i| x[i][N - 1]);
    let mut before = 0.0;
    // SAFETY: all lanes execute this.
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
