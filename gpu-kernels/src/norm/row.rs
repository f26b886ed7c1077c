//! A row in the registers of the threads that hold it, and the threads' sums.

use cuda_std::mem::{load_global, u32x4};
use cuda_std::warp::reduce_sum_width;
use cuda_std::{cluster, shared_array, thread};

use crate::element::{Element, Output};

/// The elements that a thread holds. The vectors stay as in memory: half the registers of `f32` for 16-bit elements.
pub(super) type Held<const VECTORS: usize> = [u32x4; VECTORS];

/// The columns of a thread's vectors of `N` elements each. Neighbouring threads have neighbouring vectors where whole
/// vectors are read and written, and otherwise neighbouring elements.
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
}

impl<const SHIFTED: bool> Columns<SHIFTED> {
    /// Returns the thread's columns of a row that `threads` threads hold.
    #[inline(always)]
    pub fn new<const N: usize>(thread: usize, threads: usize, len: usize, is_aligned: bool) -> Self {
        let (first, stride) = if is_aligned { (N * thread, 1) } else { (thread, threads) };
        Self { first, step: N * threads, stride, skip: 0, len, is_aligned }
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
        // Two loops without a branch inside.
        if self.is_aligned {
            return core::array::from_fn(|i| match self.at(i, 0) < self.len {
                // SAFETY: a whole, aligned vector of the row.
                true => unsafe { load_global(row.add(self.at(i, 0)).cast()) },
                false => u32x4::new(0, 0, 0, 0),
            });
        }
        let single = Self { is_aligned: false, ..*self };
        // SAFETY: the caller's row.
        core::array::from_fn(|i| packed::<T, N>(unsafe { single.load(row, i) }))
    }

    /// Rounds vector `i` and writes it to the row, only the elements that the row has.
    ///
    /// # Safety
    /// Same as for [`Self::load`], and no other code uses the elements.
    #[inline(always)]
    pub unsafe fn store<T: Output<N>, const N: usize>(&self, row: *mut T, i: usize, x: [f32; N]) {
        // SAFETY: the caller's row.
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

    /// Returns the sum of `term` over the columns that vector `i` has.
    #[inline(always)]
    pub fn sum<const N: usize>(&self, i: usize, term: impl Fn(usize) -> f32) -> f32 {
        (0..N).fold(0.0, |sum, j| if self.at(i, j) < self.len { sum + term(j) } else { sum })
    }
}

/// Rounds to a vector of the nearest numbers.
#[inline(always)]
pub(super) fn packed<T: Element<N>, const N: usize>(x: [f32; N]) -> u32x4 {
    let x = x.map(T::from_f32);
    // SAFETY: `N` elements are 16 bytes, and every bit pattern is valid.
    unsafe { core::mem::transmute_copy(&x) }
}

/// Returns the sums over the `THREADS` threads that hold a row, to all of them; in a cluster, this block's sums.
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
    // SAFETY: the caller's contract: all threads execute this. Each warp has its own element, and reads after the barrier.
    unsafe {
        match THREADS {
            1 => x,
            16 => lanes_sums::<16, SUMS>(x),
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

/// Returns the sums over `LANES` neighbouring lanes, to all of them.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
unsafe fn lanes_sums<const LANES: u32, const SUMS: usize>(x: [f32; SUMS]) -> [f32; SUMS] {
    // SAFETY: the caller's contract: all lanes execute this.
    x.map(|x| unsafe { reduce_sum_width::<f32, LANES>(u32::MAX, x) })
}

/// The largest number of blocks of a cluster that every GPU with clusters supports.
pub(super) const MOST_BLOCKS: usize = 8;

/// Adds up the sums of the blocks of a cluster, in order, and returns them to all threads. Each block writes its sums into
/// the shared memory of all blocks.
///
/// # Safety
/// All threads of the cluster call this, and its blocks have started. `shared` belongs to the block and has [`MOST_BLOCKS`]
/// elements. A call with another `shared` lies between two calls with the same one.
#[inline(always)]
pub(super) unsafe fn cluster_sums<const SUMS: usize>(
    shared: *mut [f32; SUMS],
    x: [f32; SUMS],
) -> [f32; SUMS] {
    let (rank, blocks) = (cluster::block_rank(), cluster::num_blocks());
    let tid = thread::thread_idx_x();
    // SAFETY: the caller's contract. A block writes its own element in each block, and reads its block's elements after the
    // barrier. No block writes an element again before all have reached the barrier in between.
    unsafe {
        if tid < blocks {
            *cluster::map_shared(shared.add(rank as usize), tid) = x;
        }
        cluster::sync();
        let mut sums = [0.0; SUMS];
        for block in 0..blocks as usize {
            let of_block = *shared.add(block);
            for i in 0..SUMS {
                sums[i] += of_block[i];
            }
        }
        sums
    }
}

/// Warps of the largest block of a cluster whose blocks exchange sums.
const MOST_WARPS: usize = 16;

/// The sums of the warps of a cluster, for two rows: blocks work on something else while the sums are on their way.
#[derive(Clone, Copy)]
pub(super) struct Exchange {
    /// Each block has the sums of all warps.
    of_warps: *mut [f32; 2],
}

impl Exchange {
    /// The sums of a row.
    const EACH: usize = MOST_BLOCKS * MOST_WARPS;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn new() -> Self {
        Self { of_warps: shared_array![[f32; 2]; 2 * Exchange::EACH].cast() }
    }

    /// Adds up the sums of the warp's threads, and sends them to all blocks.
    ///
    /// # Safety
    /// All threads of the cluster call this, and its blocks have started. Every call is followed by
    /// [`receive`](Self::receive), and the turns are consecutive.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn send(self, turn: usize, x: [f32; 2]) {
        let (tid, warps) = (thread::thread_idx_x(), thread::block_dim_x() / 32);
        // SAFETY: the caller's contract. A warp writes its own element in each block. All have read what was there: each
        // block read it before it sent the sums in between, which this one has received.
        unsafe {
            let of_warp = lanes_sums::<32, 2>(x);
            if tid % 32 < cluster::num_blocks() {
                let at = turn % 2 * Self::EACH + (cluster::block_rank() * warps + tid / 32) as usize;
                *cluster::map_shared(self.of_warps.add(at), tid % 32) = of_warp;
            }
            cluster::arrive();
        }
    }

    /// Waits for the sums of all warps, and adds them up, in a fixed order. All threads get the result.
    ///
    /// # Safety
    /// As for [`send`](Self::send).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn receive(self, turn: usize) -> [f32; 2] {
        let lane = thread::thread_idx_x() as usize % 32;
        let count = (cluster::num_blocks() * (thread::block_dim_x() / 32)) as usize;
        let mut sums = [0.0; 2];
        // SAFETY: the caller's contract: the barrier orders the writes before these reads.
        unsafe {
            cluster::wait();
            for i in 0..Self::EACH / 32 {
                let at = 32 * i + lane;
                if at < count {
                    let of_warp = *self.of_warps.add(turn % 2 * Self::EACH + at);
                    sums = [sums[0] + of_warp[0], sums[1] + of_warp[1]];
                }
            }
            lanes_sums::<32, 2>(sums)
        }
    }
}
