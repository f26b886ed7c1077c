//! A row in the registers of the threads that hold it, and their sums.

use cuda_std::mem::{load_global, u32x4};
use cuda_std::warp::reduce_sum_width;
use cuda_std::{cluster, thread};

use crate::element::{Element, Output};

/// The elements that a thread holds: vectors as they are in memory, which takes half the registers of `f32`.
pub(super) type Held<const VECTORS: usize> = [u32x4; VECTORS];

/// The columns of a thread's vectors, of `N` elements each. Neighbouring threads have neighbouring vectors where these are read and
/// written as such, and otherwise neighbouring elements.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    /// The first element of the first vector.
    pub first: usize,
    /// From a vector to the next.
    pub step: usize,
    /// From an element to the next.
    pub stride: usize,
    /// The end of the row.
    pub len: usize,
    /// Where the row starts. Elements before belong to the row before it, which shares a vector with this one.
    pub skip: usize,
    /// Whether vectors are read and written as such.
    pub is_aligned: bool,
}

impl Columns {
    /// The thread's vectors of `N` elements, of a row that `threads` of them hold.
    #[inline(always)]
    pub fn new<const N: usize>(thread: usize, threads: usize, len: usize, is_aligned: bool) -> Self {
        let (first, stride) = if is_aligned { (N * thread, 1) } else { (thread, threads) };
        Self { first, step: N * threads, stride, len, skip: 0, is_aligned }
    }

    /// The thread's vectors of a row that starts `skip` elements after a boundary of vectors, from which columns count. Vectors are read
    /// whole, also those that the row shares with its neighbours.
    #[inline(always)]
    pub fn shifted<const N: usize>(thread: usize, threads: usize, len: usize, skip: usize) -> Self {
        Self { len: len + skip, skip, ..Self::new::<N>(thread, threads, len, true) }
    }

    /// Whether the row has a part of vector `i` alone.
    #[inline(always)]
    pub fn is_edge<const N: usize>(&self, i: usize) -> bool {
        self.at(i, 0) < self.skip || self.at(i, 0) + N > self.len
    }

    /// Vector `i` with zeros in place of the neighbours' elements.
    #[inline(always)]
    pub fn masked<T: Element<N>, const N: usize>(&self, i: usize, vector: u32x4) -> u32x4 {
        let x = T::unpack(vector);
        packed::<T, N>(core::array::from_fn(|j| {
            let col = self.at(i, j);
            if col >= self.skip && col < self.len { x[j] } else { 0.0 }
        }))
    }

    /// The column of element `j` of vector `i`.
    #[inline(always)]
    pub fn at(&self, i: usize, j: usize) -> usize {
        self.first + i * self.step + j * self.stride
    }

    /// Vector `i` of the row, zeros past its end. A vector that the row shares has the elements of its neighbours.
    ///
    /// # Safety
    /// `row` has as many elements as there are columns, and is aligned if the vectors are said to be.
    #[inline(always)]
    pub unsafe fn load<T: Element<N>, const N: usize>(&self, row: *const T, i: usize) -> [f32; N] {
        if self.is_aligned {
            if self.at(i, 0) >= self.len {
                return [0.0; N];
            }
            // SAFETY: a whole vector of the row from a boundary on.
            return T::unpack(unsafe { load_global(row.add(self.at(i, 0)).cast()) });
        }
        core::array::from_fn(|j| {
            let col = self.at(i, j);
            // SAFETY: an element of the row.
            if col >= self.skip && col < self.len { unsafe { *row.add(col) }.to_f32() } else { 0.0 }
        })
    }

    /// The vectors of the row that are the thread's, zeros past its end. All loads are on their way before the first is used.
    ///
    /// # Safety
    /// Same as for [`Self::load`].
    #[inline(always)]
    pub unsafe fn load_all<T: Element<N>, const N: usize, const VECTORS: usize>(
        &self,
        row: *const T,
    ) -> Held<VECTORS> {
        // Two loops without a branch inside.
        if self.is_aligned {
            return core::array::from_fn(|i| match self.at(i, 0) < self.len {
                // SAFETY: a whole vector of the row from a boundary on.
                true => unsafe { load_global(row.add(self.at(i, 0)).cast()) },
                false => u32x4::new(0, 0, 0, 0),
            });
        }
        let single = Self { is_aligned: false, ..*self };
        // SAFETY: the caller's row.
        core::array::from_fn(|i| packed::<T, N>(unsafe { single.load(row, i) }))
    }

    /// Rounds vector `i` and writes it to the row, as far as that has columns.
    ///
    /// # Safety
    /// Same as for [`Self::load`], and no other code uses the elements.
    #[inline(always)]
    pub unsafe fn store<T: Output<N>, const N: usize>(&self, row: *mut T, i: usize, x: [f32; N]) {
        // SAFETY: the caller's row.
        unsafe {
            if self.at(i, 0) >= self.len {
                return;
            }
            if !self.is_aligned || self.is_edge::<N>(i) {
                for j in 0..N {
                    if self.at(i, j) >= self.skip && self.at(i, j) < self.len {
                        *row.add(self.at(i, j)) = T::from_f32(x[j]);
                    }
                }
            } else {
                T::store(row.add(self.at(i, 0)), x);
            }
        }
    }

    /// The sum of `term` of the columns that vector `i` has.
    #[inline(always)]
    pub fn sum<const N: usize>(&self, i: usize, term: impl Fn(usize) -> f32) -> f32 {
        (0..N).fold(0.0, |sum, j| if self.at(i, j) < self.len { sum + term(j) } else { sum })
    }
}

/// A vector of the nearest numbers.
#[inline(always)]
pub(super) fn packed<T: Element<N>, const N: usize>(x: [f32; N]) -> u32x4 {
    let x = x.map(T::from_f32);
    // SAFETY: `N` elements are 16 bytes, of any pattern.
    unsafe { core::mem::transmute_copy(&x) }
}

/// The sums over the `THREADS` threads that hold a row, for all of them. Of rows that a cluster holds, those of its block.
///
/// # Safety
/// All threads of the block come here. Between two calls with the same `shared`, which has an element of the block's own for
/// each warp, there is a barrier.
#[inline(always)]
pub(super) unsafe fn row_sums<const THREADS: usize, const SUMS: usize>(
    shared: *mut [f32; SUMS],
    x: [f32; SUMS],
) -> [f32; SUMS] {
    let tid = thread::thread_idx_x() as usize;
    // SAFETY: the caller promises that all threads execute this; each warp has an element of its own, and
    // reads after the barrier.
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

/// The sums over `LANES` neighbouring lanes, for all of them.
///
/// # Safety
/// All lanes of the warp come here.
#[inline(always)]
unsafe fn lanes_sums<const LANES: u32, const SUMS: usize>(x: [f32; SUMS]) -> [f32; SUMS] {
    // SAFETY: the caller promises that all lanes execute this.
    x.map(|x| unsafe { reduce_sum_width::<f32, LANES>(u32::MAX, x) })
}

/// Blocks of a cluster, at most: as many as every GPU with clusters runs.
pub(super) const MOST_BLOCKS: usize = 8;

/// The sums of the blocks of a cluster, in order, for all threads. Each block writes its own into the shared memory of all.
///
/// # Safety
/// All threads of the cluster come here, and its blocks have started. Between two calls with the same `shared`, which has
/// [`MOST_BLOCKS`] elements of the block's own, there is one with another.
#[inline(always)]
pub(super) unsafe fn cluster_sums<const SUMS: usize>(
    shared: *mut [f32; SUMS],
    x: [f32; SUMS],
) -> [f32; SUMS] {
    let (rank, blocks) = (cluster::block_rank(), cluster::num_blocks());
    let tid = thread::thread_idx_x();
    // SAFETY: the caller's. A block writes an element of its own in each block, and reads its block's after the barrier. Nobody gets to
    // the next write of an element before all have come to the barrier between.
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
