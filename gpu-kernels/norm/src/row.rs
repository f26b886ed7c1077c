//! A row in the registers of the threads that hold it, and the threads' sums.

use cuda_std::mem::{load_global, store_global, u32x4};
use cuda_std::warp::{reduce_sum_width, warp_shuffle_up, warp_shuffle_xor};
use cuda_std::{grid, thread};

use common_kernels::element::{Element, Output, VECTOR_ALIGN};
use common_kernels::unaligned::Unaligned;

/// The elements that a thread holds. The vectors stay as in memory: half the registers of `f32` for 16-bit elements.
pub(super) type Held<const VECTORS: usize> = [u32x4; VECTORS];

/// Begins a kernel whose launch has an attribute for it: waits until the earlier work has ended, and allows the next launch to
/// begin, which waits in turn.
#[inline(always)]
pub(super) fn begin() {
    grid::wait_for_dependencies();
    grid::launch_dependents();
}

/// The columns of a thread's vectors of `N` elements each. Neighbouring threads have neighbouring vectors or, in unaligned rows
/// of 4-byte elements, neighbouring elements. From an unaligned row a vector comes from the two that have its elements, and the
/// threads of a warp pass each other elements to write whole vectors.
///
/// With `SHIFTED` the row starts at any element of its first vector, and columns count from the start of that vector. The row
/// shares its first and its last vector with its neighbours.
#[derive(Clone, Copy)]
pub(super) struct Columns<const SHIFTED: bool = false> {
    /// The first element of the first vector.
    pub first: usize,
    /// Distance from one vector to the next.
    pub step: usize,
    /// Distance from one element to the next.
    pub stride: usize,
    /// The row's first column: 0 without `SHIFTED`.
    pub skip: usize,
    /// The end of the row's columns.
    pub len: usize,
    /// Whether whole vectors are read and written. With `SHIFTED`: whether the shared vectors may be read.
    pub is_aligned: bool,
    /// Whether the elements of a vector are neighbours.
    pub has_vectors: bool,
}

impl<const SHIFTED: bool> Columns<SHIFTED> {
    /// Returns the thread's columns of a row that `threads` threads hold.
    #[inline(always)]
    pub fn new<const N: usize>(thread: usize, threads: usize, len: usize, is_aligned: bool) -> Self {
        let of_row = if N > 4 { Self::of_vectors::<N> } else { Self::of_elements::<N> };
        of_row(thread, threads, len, is_aligned)
    }

    /// Like [`Self::new`], with neighbouring elements in a vector of any row.
    #[inline(always)]
    pub fn of_vectors<const N: usize>(thread: usize, threads: usize, len: usize, is_aligned: bool) -> Self {
        let (first, step) = (N * thread, N * threads);
        Self { first, step, stride: 1, skip: 0, len, is_aligned, has_vectors: true }
    }

    /// Like [`Self::new`], with neighbouring elements in the threads of any unaligned row. Narrow rows have fewer ends of
    /// vectors that way.
    #[inline(always)]
    pub fn of_elements<const N: usize>(thread: usize, threads: usize, len: usize, is_aligned: bool) -> Self {
        let (first, stride) = if is_aligned { (N * thread, 1) } else { (thread, threads) };
        Self { first, step: N * threads, stride, skip: 0, len, is_aligned, has_vectors: is_aligned }
    }

    /// Returns the column of element `j` of vector `i`.
    #[inline(always)]
    pub fn at(&self, i: usize, j: usize) -> usize {
        self.first + i * self.step + j * self.stride
    }

    /// Returns whether element `j` of vector `i` belongs to the row.
    #[inline(always)]
    pub fn has(&self, i: usize, j: usize) -> bool {
        (!SHIFTED || self.at(i, j) >= self.skip) && self.at(i, j) < self.len
    }

    /// Returns whether the row shares vector `i` with a neighbour.
    #[inline(always)]
    fn is_shared<const N: usize>(&self, i: usize) -> bool {
        let first = self.at(i, 0);
        SHIFTED && (first < self.skip || first < self.len && first + N > self.len)
    }

    /// Returns whether vector `i` is read and written whole.
    #[inline(always)]
    fn is_whole<const N: usize>(&self, i: usize) -> bool {
        if SHIFTED { !self.is_shared::<N>(i) } else { self.is_aligned }
    }

    /// Replaces the neighbours' elements in the shared vectors with zeros.
    #[inline(always)]
    pub fn masked<T: Element<N>, const N: usize, const VECTORS: usize>(
        &self,
        vectors: Held<VECTORS>,
    ) -> Held<VECTORS> {
        core::array::from_fn(|i| match self.is_shared::<N>(i) {
            true => {
                let x = T::unpack(vectors[i]);
                packed::<T, N>(core::array::from_fn(|j| if self.has(i, j) { x[j] } else { 0.0 }))
            }
            false => vectors[i],
        })
    }

    /// Loads vector `i` of the row, zeros where the row has no elements.
    ///
    /// # Safety
    /// `row` points to column 0; the columns from `skip` to `len` are valid. It is aligned if `is_aligned` or `SHIFTED`.
    #[inline(always)]
    pub unsafe fn load<T: Element<N>, const N: usize>(&self, row: *const T, i: usize) -> [f32; N] {
        if self.is_whole::<N>(i) {
            if self.at(i, 0) >= self.len {
                return [0.0; N];
            }
            // SAFETY: a whole, aligned vector of the row.
            return T::unpack(unsafe { load_global(row.add(self.at(i, 0)).cast()) });
        }
        if !SHIFTED && self.has_vectors {
            // SAFETY: the caller's promise.
            return T::unpack(unsafe { self.unaligned(row, i) }.vector::<T>());
        }
        core::array::from_fn(|j| {
            // SAFETY: an element of the row.
            if self.has(i, j) { unsafe { *row.add(self.at(i, j)) }.to_f32() } else { 0.0 }
        })
    }

    /// Loads the thread's vectors of the row, zeros past its end. All loads are in flight before the first result is used.
    /// With `SHIFTED` and `is_aligned`, shared vectors keep the neighbours' elements; see [`Self::masked`].
    ///
    /// # Safety
    /// Same as for [`Self::load`]. With `SHIFTED` and `is_aligned`, shared vectors are valid.
    #[inline(always)]
    pub unsafe fn load_all<T: Element<N>, const N: usize, const VECTORS: usize>(
        &self,
        row: *const T,
    ) -> Held<VECTORS> {
        // SAFETY: the caller's promise.
        unsafe { self.fetch_all(row) }.map(Unaligned::vector::<T>)
    }

    /// Like [`Self::load_all`], without waiting for the loads of unaligned rows.
    ///
    /// # Safety
    /// Same as for [`Self::load_all`].
    #[inline(always)]
    pub unsafe fn fetch_all<T: Element<N>, const N: usize, const VECTORS: usize>(
        &self,
        row: *const T,
    ) -> [Unaligned; VECTORS] {
        let none = u32x4::splat(0);
        // Two loops without a branch inside.
        if self.is_aligned {
            return core::array::from_fn(|i| match self.at(i, 0) < self.len {
                // SAFETY: a whole, aligned vector of the row.
                true => Unaligned::new([unsafe { load_global(row.add(self.at(i, 0)).cast()) }, none], 0),
                false => Unaligned::NONE,
            });
        }
        // SAFETY: the row has the thread's columns.
        unsafe {
            if !SHIFTED && self.has_vectors {
                return core::array::from_fn(|i| self.unaligned(row, i));
            }
            let single = Self { is_aligned: false, ..*self };
            core::array::from_fn(|i| Unaligned::new([packed::<T, N>(single.load(row, i)), none], 0))
        }
    }

    /// Loads vector `i` of a row that starts at any element of a vector.
    ///
    /// # Safety
    /// Same as for [`Self::load`].
    #[inline(always)]
    unsafe fn unaligned<T: Element<N>, const N: usize>(&self, row: *const T, i: usize) -> Unaligned {
        let (at, len) = (self.at(i, 0), self.len);
        let from = row.wrapping_add(at);
        let skip = from.addr() % VECTOR_ALIGN / size_of::<T>();
        if at >= skip && at + if skip > 0 { 2 * N - skip } else { N } <= len {
            // SAFETY: vectors of the row.
            return Unaligned::load(from, |vector| unsafe { load_global(vector) });
        }
        // SAFETY: elements of the row.
        unsafe { Unaligned::gather::<T, N>(from, len.saturating_sub(at)) }
    }

    /// Rounds vector `i` and writes it to the row, only the elements that the row has.
    ///
    /// # Safety
    /// Same as for [`Self::load`], no other code uses the elements, and all threads of the warp call this.
    #[inline(always)]
    pub unsafe fn store<T: Element<N>, const N: usize>(&self, row: *mut T, i: usize, x: [f32; N]) {
        // SAFETY: the caller's promise.
        unsafe {
            if !SHIFTED && self.has_vectors && !self.is_aligned && self.step > N {
                self.store_unaligned(row, i, x);
            } else {
                self.store_own(row, i, x);
            }
        }
    }

    /// Like [`Self::store`], without the other threads: unaligned rows go element by element.
    ///
    /// # Safety
    /// Same as for [`Self::load`], and no other code uses the elements.
    #[inline(always)]
    pub unsafe fn store_own<T: Output<N>, const N: usize>(&self, row: *mut T, i: usize, x: [f32; N]) {
        // SAFETY: the row has the thread's columns.
        unsafe {
            if !self.is_whole::<N>(i) {
                for j in 0..N {
                    if self.has(i, j) {
                        *row.add(self.at(i, j)) = T::from_f32(x[j]);
                    }
                }
            } else if self.at(i, 0) < self.len {
                T::store(row.add(self.at(i, 0)), x);
            }
        }
    }

    /// Writes the vector of memory that starts in the one before this, with that thread's last elements, and single elements of
    /// vectors that have no such thread or that the row has not whole.
    ///
    /// # Safety
    /// Same as for [`Self::store`].
    #[inline(always)]
    unsafe fn store_unaligned<T: Element<N>, const N: usize>(&self, row: *mut T, i: usize, x: [f32; N]) {
        let (at, len) = (self.at(i, 0), self.len);
        let (lane, lanes) = (self.first / N % 32, (self.step / N).min(32));
        let skip = row.addr() % VECTOR_ALIGN / size_of::<T>();
        let own = packed::<T, N>(x);
        // SAFETY: all lanes execute the shuffles. A whole vector of the row starts `skip` elements before this one.
        unsafe {
            let before = own.to_array().map(|word| warp_shuffle_up(u32::MAX, word, 1, 32).0);
            let has_own = if skip == 0 { at + N <= len } else { lane > 0 && at + N <= len + skip };
            let has_next = skip > 0 && lane + 1 < lanes && at + 2 * N <= len + skip;
            if has_own {
                let from = if skip == 0 { [own; 2] } else { [u32x4::from(before), own] };
                let bytes = (N - skip) * size_of::<T>() % VECTOR_ALIGN;
                let vector = Unaligned::new(from, bytes as u32).vector::<T>();
                store_global(row.add(at).wrapping_sub(skip).cast(), vector);
            }
            if !has_own || !has_next && skip > 0 {
                for j in 0..N {
                    let is_written = if j + skip < N { has_own } else { has_next };
                    if !is_written && at + j < len {
                        *row.add(at + j) = T::from_f32(x[j]);
                    }
                }
            }
        }
    }

    /// Returns the sum of the differences of vector `i` to the mean, and the sum of their squares, of the row's columns.
    #[inline(always)]
    pub fn deviations<const N: usize>(&self, i: usize, x: [f32; N], mean: f32) -> [f32; 2] {
        let add = |[sum, squares]: [f32; 2], x: f32| [sum + (x - mean), squares + (x - mean) * (x - mean)];
        if self.is_whole::<N>(i) {
            let sums = x.into_iter().fold([0.0; 2], add);
            return if self.at(i, 0) < self.len { sums } else { [0.0; 2] };
        }
        (0..N).fold([0.0; 2], |sums, j| if self.at(i, j) < self.len { add(sums, x[j]) } else { sums })
    }
}

/// Rounds to a vector of the nearest numbers.
#[inline(always)]
pub(super) fn packed<T: Element<N>, const N: usize>(x: [f32; N]) -> u32x4 {
    let x = x.map(T::from_f32);
    // SAFETY: `N` elements are 16 bytes, and every bit pattern is valid.
    unsafe { core::mem::transmute_copy(&x) }
}

/// Returns what the mean of a row is off by, and the variance, from the sums of the deviations from that mean and of their
/// squares. A mean is off by the roundings of a sum of large numbers. The deviations are exact where they are small, and so is
/// the correction. Without `is_centred` the mean is 0.
#[inline(always)]
pub(super) fn correction([sum, squares]: [f32; 2], per_column: f32, is_centred: bool) -> [f32; 2] {
    let off = if is_centred { sum * per_column } else { 0.0 };
    let variance = squares * per_column - off * off;
    [off, if variance < 0.0 { 0.0 } else { variance }]
}

/// Returns the sums over the `THREADS` threads that hold a row, to all of them.
///
/// # Safety
/// All threads of the block call this. `shared` belongs to the block and has an element per warp. A barrier lies between two
/// calls with the same `shared`.
#[inline(always)]
pub(super) unsafe fn row_sums<const THREADS: usize, const SUMS: usize>(
    shared: *mut [f32; SUMS],
    x: [f32; SUMS],
) -> [f32; SUMS] {
    let tid = thread::thread_idx_x() as usize;
    // SAFETY: all threads execute this. Each warp has its own element, and reads after the barrier.
    unsafe {
        match THREADS {
            1 => x,
            32 => lanes_sums::<32, SUMS>(x),
            _ => {
                let of_warp = lanes_sums::<32, SUMS>(x);
                if tid.is_multiple_of(32) {
                    *shared.add(tid / 32) = of_warp;
                }
                thread::sync_threads_aligned();
                let warps = THREADS / 32;
                let first = tid / THREADS * warps;
                let of_lane = if tid % 32 < warps { *shared.add(first + tid % 32) } else { [0.0; SUMS] };
                lanes_sums::<32, SUMS>(of_lane)
            }
        }
    }
}

/// Returns the logarithm of the number of threads that hold a narrow row, each `of_thread` columns.
#[inline(always)]
pub(super) const fn log_threads(cols: u32, of_thread: u32) -> u32 {
    cols.div_ceil(of_thread).next_power_of_two().trailing_zeros()
}

/// Returns the sums over the threads that hold a row, to all of them: with `NARROW` over `threads` neighbouring lanes, a power
/// of two, and otherwise [`row_sums`].
///
/// # Safety
/// Same as for [`row_sums`].
#[inline(always)]
pub(super) unsafe fn sums_of_row<const THREADS: usize, const NARROW: bool, const SUMS: usize>(
    threads: usize,
    shared: *mut [f32; SUMS],
    mut x: [f32; SUMS],
) -> [f32; SUMS] {
    if !NARROW {
        // SAFETY: the caller's promise.
        return unsafe { row_sums::<THREADS, SUMS>(shared, x) };
    }
    let mut distance = threads as u32 / 2;
    while distance > 0 {
        // SAFETY: all lanes execute this.
        x = x.map(|x| x + unsafe { warp_shuffle_xor(u32::MAX, x, distance, 32) }.0);
        distance /= 2;
    }
    x
}

/// Adds up the sums of the lanes that are `threads` apart, in a fixed order. All lanes get the results.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
pub(super) unsafe fn sums_of_warp<const N: usize>(threads: usize, mut sums: [f32; N]) -> [f32; N] {
    let mut distance = threads as u32;
    while distance < 32 {
        // SAFETY: all lanes execute this.
        sums = sums.map(|sum| sum + unsafe { warp_shuffle_xor(u32::MAX, sum, distance, 32) }.0);
        distance *= 2;
    }
    sums
}

/// Returns the sums over `LANES` neighbouring lanes, to all of them.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
pub(super) unsafe fn lanes_sums<const LANES: u32, const SUMS: usize>(x: [f32; SUMS]) -> [f32; SUMS] {
    // SAFETY: all lanes execute this.
    x.map(|x| unsafe { reduce_sum_width::<f32, LANES>(u32::MAX, x) })
}

/// Returns the index of a column's sum in shared memory. The columns that a warp has at a time have different banks.
pub(super) const fn padded(col: usize) -> usize {
    col + col / 32
}
