//! A row in the registers of the threads that hold it, and the threads' sums.

use cuda_std::barrier::Barrier;
use cuda_std::mem::{f32x2, load_global, u32x4};
use cuda_std::warp::{reduce_sum_width, warp_shuffle_xor};
use cuda_std::{cluster, shared_array, thread};

use common_kernels::element::{Element, Output};

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
        // SAFETY: the row has the thread's columns.
        core::array::from_fn(|i| packed::<T, N>(unsafe { single.load(row, i) }))
    }

    /// Rounds vector `i` and writes it to the row, only the elements that the row has.
    ///
    /// # Safety
    /// Same as for [`Self::load`], and no other code uses the elements.
    #[inline(always)]
    pub unsafe fn store<T: Output<N>, const N: usize>(&self, row: *mut T, i: usize, x: [f32; N]) {
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

/// Returns the logarithm of the number of threads that hold a narrow row, each `of_thread` columns. At least 8 threads hold a
/// shifted row, since a block adds up the sums of its rows one row after another.
#[inline(always)]
pub(super) const fn log_threads(cols: u32, of_thread: u32, is_shifted: bool) -> u32 {
    let threads = cols.div_ceil(of_thread);
    let threads = if is_shifted && threads < 8 { 8 } else { threads };
    threads.next_power_of_two().trailing_zeros()
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
unsafe fn lanes_sums<const LANES: u32, const SUMS: usize>(x: [f32; SUMS]) -> [f32; SUMS] {
    // SAFETY: all lanes execute this.
    x.map(|x| unsafe { reduce_sum_width::<f32, LANES>(u32::MAX, x) })
}

/// Returns the index of a column's sum in shared memory. The columns that a warp has at a time have different banks.
pub(super) const fn padded(col: usize) -> usize {
    col + col / 32
}

/// The largest number of blocks of a cluster that every GPU with clusters supports.
pub(super) const MOST_BLOCKS: usize = 8;

/// Warps of the largest block of a cluster whose blocks exchange sums.
const MOST_WARPS: usize = 16;

/// The sums of the warps of a cluster, for two rows: blocks work on something else while the sums are on their way.
#[derive(Clone, Copy)]
pub(super) struct Exchange {
    /// Each block has the sums of all warps.
    of_warps: *mut f32x2,
    /// Count the bytes of the sums that have arrived.
    arrived: *mut Barrier,
    turns: usize,
}

impl Exchange {
    /// The sums of a row.
    const EACH: usize = MOST_BLOCKS * MOST_WARPS;

    /// Prepares the exchange of the sums of `turns` rows among several blocks, and arrives at the cluster's barrier.
    ///
    /// # Safety
    /// All threads of the cluster call this once, with the same `turns`, and wait at the cluster's barrier afterwards.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn new(turns: usize) -> Self {
        let of_warps = shared_array![f32x2; 2 * Exchange::EACH].cast();
        let exchange = Self { of_warps, arrived: shared_array![Barrier; 2].cast(), turns };
        // SAFETY: the block's own memory. The cluster's barrier orders this before all uses.
        unsafe {
            if thread::thread_idx_x() == 0 {
                Barrier::init(exchange.arrived, 1);
                Barrier::init(exchange.arrived.add(1), 1);
                Barrier::fence_init();
                exchange.expect(0);
                exchange.expect(1);
            }
            cluster::arrive_relaxed();
        }
        exchange
    }

    /// Announces the sums of a turn, if there is such a turn.
    ///
    /// # Safety
    /// One thread calls this for each turn, after the sums of the turn before the last have arrived.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn expect(self, turn: usize) {
        if turn < self.turns {
            // SAFETY: the barrier's phase before has ended, and only this thread announces the sums of the turn.
            unsafe { Barrier::arrive_expect_tx(self.arrived.add(turn % 2), 8 * Self::warps()) };
        }
    }

    /// Returns the number of warps of the cluster.
    #[inline(always)]
    fn warps() -> u32 {
        cluster::num_blocks() * (thread::block_dim_x() / 32)
    }

    /// Adds up the sums of the warp's threads, and sends them to all blocks.
    ///
    /// # Safety
    /// All threads of the cluster call this for every turn, in order, and [`receive`](Self::receive) the turn before last
    /// first.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn send(self, turn: usize, x: [f32; 2]) {
        let (tid, warps) = (thread::thread_idx_x(), thread::block_dim_x() / 32);
        // SAFETY: a warp writes its own element in each block. All have read what was there: each warp read
        // it before it sent the sums in between, which this one has received.
        unsafe {
            let [a, b] = lanes_sums::<32, 2>(x);
            if tid % 32 < cluster::num_blocks() {
                let at = turn % 2 * Self::EACH + (cluster::block_rank() * warps + tid / 32) as usize;
                let (to, arrived) = (self.of_warps.add(at), self.arrived.add(turn % 2));
                cluster::store_async(to, f32x2::new(a, b), arrived, tid % 32);
            }
        }
    }

    /// Waits for the sums of all warps, and adds them up, in a fixed order. All threads get the result.
    ///
    /// # Safety
    /// All threads of the cluster call this for every turn, after [`send`](Self::send).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn receive(self, turn: usize) -> [f32; 2] {
        let (tid, count) = (thread::thread_idx_x(), Self::warps());
        let mut sums = [0.0; 2];
        // SAFETY: the barrier's phase ends when the sums of all warps have arrived.
        unsafe {
            Barrier::wait_parity_cluster(self.arrived.add(turn % 2), turn as u32 / 2 % 2);
            if tid == 0 {
                self.expect(turn + 2);
            }
            for i in 0..Self::EACH as u32 / 32 {
                let at = 32 * i + tid % 32;
                if at < count {
                    let of_warp = *self.of_warps.add(turn % 2 * Self::EACH + at as usize);
                    sums = [sums[0] + of_warp.x, sums[1] + of_warp.y];
                }
            }
            lanes_sums::<32, 2>(sums)
        }
    }
}
