//! A block's tile of a row: its loads and stores, and the scan within it.

use cuda_std::mem::{u32x2, u32x4};
use cuda_std::thread;
use cuda_std::warp::{warp_shuffle_idx, warp_shuffle_up};

use super::args::ScanArgs;
use super::fold::load;
use common_kernels::element::{Element, Number, VECTOR_ALIGN};
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

/// A tile of the matrix.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Its number in the matrix.
    pub tile: u32,
    pub row: u32,
    /// Its number in the row.
    pub of_row: u32,
}

impl Place {
    #[inline(always)]
    pub fn new(tile: u32, tiles_of_row: u32) -> Self {
        Self { tile, row: tile / tiles_of_row, of_row: tile % tiles_of_row }
    }
}

/// The thread's vectors of a tile of a row, of `N` elements each: the first one, and others at equal distances.
///
/// A row of the output starts at any element of a vector. Columns count from the start of that vector, so that whole vectors
/// are written. With `WHOLE` all rows start at multiples of 16 bytes.
#[derive(Clone, Copy)]
pub(super) struct Share<const WHOLE: bool> {
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

impl<const WHOLE: bool> Share<WHOLE> {
    /// The share from column `first` on of row `row`, or of no row if there are no `cols` columns.
    #[inline(always)]
    pub fn new<T>(args: &ScanArgs<T>, row: usize, [first, step]: [u32; 2], cols: u32) -> Self {
        if WHOLE {
            return Self { first, step, cols: [0, cols], is_alike: true, around: [0; 2] };
        }
        let out = args.out.wrapping_add(row * args.out_stride as usize);
        let skip = (out.addr() % VECTOR_ALIGN / size_of::<T>()) as u32;
        let (len, rows) = (args.cols as usize, args.rows as usize);
        let is_dense = args.inp_stride as usize == len;
        let around = if is_dense { [row * len, (rows - 1 - row) * len] } else { [0; 2] };
        Self { first, step, cols: [skip, skip + cols], is_alike: args.is_alike(), around }
    }

    /// Returns whether `before` elements before vector `i` and `len` from it on lie in the row, or next to it without gaps.
    #[inline(always)]
    fn reaches(&self, i: usize, before: usize, len: usize) -> bool {
        let ([start, end], [first, last]) = (self.cols, self.around);
        let at = self.start(i);
        at + first as isize >= before as isize && at + len as isize <= (end - start) as isize + last as isize
    }

    /// Returns whether the row has elements of vector `i`, whether it has the first one, and their number from the row's start
    /// or the vector's on.
    #[inline(always)]
    fn has<const N: usize>(&self, i: usize) -> (bool, bool, usize) {
        let (at, [start, end]) = (self.first + i as u32 * self.step, self.cols);
        let len = end.saturating_sub(at.max(start)).min(N as u32);
        (at + N as u32 > start && at < end, WHOLE || at >= start, len as usize)
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

    /// Loads the vectors, the first one with elements before the row, if that starts as the output's does. Returns zeros for
    /// the others.
    ///
    /// # Safety
    /// `row` has the share's columns; no code writes it.
    #[inline(always)]
    pub unsafe fn load<T, const N: usize, const VECTORS: usize>(&self, row: *const T) -> [u32x4; VECTORS] {
        core::array::from_fn(|i| {
            let ((has_some, has_first, len), at) = (self.has::<N>(i), self.start(i));
            // SAFETY: a whole vector of the matrix, or the row's elements.
            unsafe {
                if !self.is_alike || !has_some {
                    u32x4::splat(0)
                } else if has_first && len < N {
                    load_first(row.offset(at), len)
                } else if has_first || self.reaches(i, 0, N) {
                    load(row.offset(at))
                } else {
                    u32x4::splat(0)
                }
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
            let ((has_some, has_first, _), at) = (self.has::<N>(i), self.start(i));
            if !has_some || self.is_alike && has_first {
                return T::unpack(packed[i]);
            }
            let x = if self.is_alike && self.reaches(i, 0, N) {
                packed[i]
            } else if N > 4 && self.reaches(i, N - 1, 2 * N) {
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
            let ((has_some, has_first, len), x) = (self.has::<N>(i), x[i].map(|x| before + x));
            // SAFETY: the elements lie in the row, aligned if the share is, and only this thread writes them.
            unsafe {
                if has_first && len == N {
                    T::store(row.offset(self.start(i)), x);
                } else if has_first {
                    store_first(row.wrapping_offset(self.start(i)), len, x);
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

/// Replaces a lane's vectors by their cumulative sums. Returns, for each vector, the sum of the same vector of the lanes before
/// it in its group of `lanes` lanes, and that sum including its own.
///
/// # Safety
/// All lanes of the warp call this; `own` is the lane's number in its group.
#[inline(always)]
pub(super) unsafe fn add_lanes<const N: usize, const VECTORS: usize>(
    x: &mut [[f32; N]; VECTORS],
    [own, lanes]: [u32; 2],
) -> [[f32; 2]; VECTORS] {
    for i in 0..VECTORS {
        for j in 1..N {
            x[i][j] += x[i][j - 1];
        }
    }
    let mut up_to: [f32; VECTORS] = core::array::from_fn(|i| x[i][N - 1]);
    let mut distance = 1;
    while distance < lanes {
        for i in 0..VECTORS {
            // SAFETY: all lanes execute this.
            let (other, _) = unsafe { warp_shuffle_up(u32::MAX, up_to[i], distance, 32) };
            up_to[i] = if own >= distance { other + up_to[i] } else { up_to[i] };
        }
        distance *= 2;
    }
    up_to.map(|up_to| {
        // SAFETY: all lanes execute this.
        let (left, _) = unsafe { warp_shuffle_up(u32::MAX, up_to, 1, 32) };
        [if own > 0 { left } else { 0.0 }, up_to]
    })
}

/// Returns the cumulative sums of a warp's elements, and the sum of all.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
pub(super) unsafe fn add_up<const N: usize, const VECTORS: usize>(
    mut x: [[f32; N]; VECTORS],
) -> ([[f32; N]; VECTORS], f32) {
    let mut before = 0.0;
    // SAFETY: all lanes execute this.
    unsafe {
        let of_lanes = add_lanes(&mut x, [lane() as u32, 32]);
        for i in 0..VECTORS {
            let [left, up_to] = of_lanes[i];
            x[i] = x[i].map(|x| before + left + x);
            before += warp_shuffle_idx(u32::MAX, up_to, 31, 32).0;
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
    let (own, lane) = (thread::thread_idx_x() as usize / 32, lane());
    // SAFETY: a warp writes its own element, and reads the others' after the barrier. All lanes execute the shuffles.
    unsafe {
        if lane == 0 {
            *shared.add(own) = of_warp;
        }
        thread::sync_threads_aligned();
        let mut up_to = if lane < warps { *shared.add(first + lane) } else { 0.0 };
        for distance in [1, 2, 4, 8] {
            let (other, _) = warp_shuffle_up(u32::MAX, up_to, distance as u32, 32);
            up_to = if lane >= distance { other + up_to } else { up_to };
        }
        let before = (own - first).saturating_sub(1) as u32;
        let (before, _) = warp_shuffle_idx(u32::MAX, up_to, before, 32);
        let (sum, _) = warp_shuffle_idx(u32::MAX, up_to, WARPS as u32 - 1, 32);
        [if own > first { before } else { 0.0 }, sum]
    }
}

/// Returns a vector with the first `len` elements of the vector at `ptr`, not all, and zeros in place of the others: by three
/// loads of 8, 4 and 2 bytes at most.
///
/// # Safety
/// `ptr` is a multiple of 16. The elements exist, and no code writes them.
#[inline(always)]
unsafe fn load_first<T>(ptr: *const T, len: usize) -> u32x4 {
    let (ptr, bytes) = (ptr.cast::<u8>(), len * size_of::<T>());
    // SAFETY: the caller's elements; each address is a multiple of the size.
    unsafe {
        let u32x2 { x: a, y: b } = if bytes & 8 != 0 { *ptr.cast() } else { u32x2::new(0, 0) };
        let word = if bytes & 4 != 0 { *ptr.add(bytes & 8).cast() } else { 0 };
        let half = if bytes & 2 != 0 { u32::from(*ptr.add(bytes & 12).cast::<u16>()) } else { 0 };
        let [c, d] = if bytes & 4 != 0 { [word, half] } else { [half, 0] };
        if bytes & 8 != 0 { u32x4::new(a, b, c, d) } else { u32x4::new(c, d, 0, 0) }
    }
}

/// Rounds the first `len` elements of `x`, not all, and writes them to the vector at `ptr`, by as many stores.
///
/// # Safety
/// `ptr` is a multiple of 16, and no other code uses the elements. `N` elements are 16 bytes.
#[inline(always)]
unsafe fn store_first<T: Number, const N: usize>(ptr: *mut T, len: usize, x: [f32; N]) {
    let (ptr, bytes) = (ptr.cast::<u8>(), len * size_of::<T>());
    // SAFETY: the caller's elements; each address is a multiple of the size; a vector's bits are four words.
    unsafe {
        let [a, b, c, d]: [u32; 4] = core::mem::transmute_copy(&x.map(T::from_f32));
        if bytes & 8 != 0 {
            *ptr.cast() = u32x2::new(a, b);
        }
        let [word, next] = if bytes & 8 != 0 { [c, d] } else { [a, b] };
        if bytes & 4 != 0 {
            *ptr.add(bytes & 8).cast() = word;
        }
        if bytes & 2 != 0 {
            *ptr.add(bytes & 12).cast() = if bytes & 4 != 0 { next } else { word } as u16;
        }
    }
}
