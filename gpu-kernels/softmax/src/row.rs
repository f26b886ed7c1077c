//! How the threads that hold a row share it: single elements up to a 16-byte boundary, then vectors, then single elements.

use cuda_std::barrier::Barrier;
use cuda_std::mem::{f32x2, load_global, u32x4};
use cuda_std::warp::{reduce_max_width, reduce_sum_width};
use cuda_std::{GpuFloat as _, bulk, grid, hint, thread};

use common_kernels::element::{Element, Number, Output, VECTOR_ALIGN};

/// Begins a kernel whose launch has an attribute for it: waits until the earlier work has ended, and allows the next launch to
/// begin, which waits in turn.
#[inline(always)]
pub(super) fn begin() {
    grid::wait_for_dependencies();
    grid::launch_dependents();
}

/// A row of `inp` and of `out`, and this thread's part of it. Of the vectors of the block's part it has number `tid` and
/// every `THREADS`th after it. The elements around the vectors, fewer than two vectors, belong to the first part; the thread
/// has the one or two with its number.
///
/// The vectors are aligned in both rows if possible. If the two rows are not equally far from a boundary, the vectors are
/// aligned in `out`, and `inp` is read element by element; L1 makes up for it.
#[derive(Clone, Copy)]
pub(super) struct Row<I, O, const THREADS: usize> {
    inp: *const I,
    out: *mut O,
    cols: usize,
    tid: usize,
    head: usize,
    vectors: usize,
    /// Vectors of the block's part.
    first: usize,
    end: usize,
    has_edges: bool,
    is_aligned: bool,
}

/// A block's part of a row.
#[derive(Clone, Copy)]
pub struct Part {
    /// Its number.
    pub rank: u32,
    /// The number of parts.
    pub parts: u32,
}

/// Returns the largest number of vectors in one of `parts` parts of a row of `vectors` vectors. If there are several parts,
/// each has a multiple of 32 vectors, except the last ones, which may have fewer.
#[inline(always)]
pub(super) const fn most_vectors(vectors: usize, parts: u32) -> usize {
    if parts == 1 { vectors } else { (vectors as u32).div_ceil(parts).next_multiple_of(32) as usize }
}

impl Part {
    /// The whole row.
    pub const ALL: Part = Part { rank: 0, parts: 1 };
}

impl<I: Number, O: Number, const THREADS: usize> Row<I, O, THREADS> {
    /// Creates the row of `cols` elements that starts at `out` and `inp`, or the block's part of it.
    ///
    /// # Safety
    /// Both are valid for `cols` elements.
    #[inline(always)]
    pub unsafe fn new<const N: usize>(out: *mut O, inp: *const I, cols: usize, part: Part) -> Self
    where
        I: Element<N>,
        O: Output<N>,
    {
        let to_boundary = inp.align_offset(VECTOR_ALIGN);
        let is_aligned = out.wrapping_add(to_boundary).addr().is_multiple_of(O::ALIGN);
        let head = if is_aligned { to_boundary } else { out.align_offset(O::ALIGN) }.min(cols);
        let vectors = (cols - head) / N;
        let per_part = most_vectors(vectors, part.parts);
        let [first, end] = match part.parts {
            1 => [0, vectors],
            _ => [per_part * part.rank as usize, per_part * (part.rank as usize + 1)].map(|v| v.min(vectors)),
        };
        let tid = thread::thread_idx_x() as usize % THREADS;
        Self { inp, out, cols, tid, head, vectors, first, end, has_edges: part.rank == 0, is_aligned }
    }

    /// Returns the row with no elements for this thread.
    #[inline(always)]
    pub fn empty(self) -> Self {
        Self { cols: 0, first: 0, end: 0, ..self }
    }

    /// Returns whether any of the row's threads has a vector number `i` in the block's part.
    #[inline(always)]
    pub fn has_vectors(&self, i: usize) -> bool {
        self.first + i * THREADS < self.end
    }

    /// Returns the offset of this thread's vector number `i`, if the part has it.
    #[inline(always)]
    pub fn vector<const N: usize>(&self, i: usize) -> Option<usize> {
        let v = self.first + self.tid + i * THREADS;
        (v < self.end).then_some(self.head + N * v)
    }

    /// Loads this thread's vectors from number `start` on; `none` for those past the end.
    #[inline(always)]
    pub fn load<const N: usize, const VECTORS: usize>(&self, start: usize, none: u32x4) -> [u32x4; VECTORS]
    where
        I: Element<N>,
    {
        let aligned = |inp: *const I| {
            // SAFETY: `N` elements of the row, aligned.
            unsafe { load_global(inp.cast()) }
        };
        let single = |inp: *const I| {
            // SAFETY: `N` elements of the row, 16 bytes, read as elements.
            unsafe { core::mem::transmute_copy(&inp.cast::<[I; N]>().read()) }
        };
        // Two loops without a branch inside, so all loads of a thread are in flight before the first result is used.
        if self.is_aligned {
            self.load_each(start, none, aligned)
        } else {
            self.load_each(start, none, single)
        }
    }

    #[inline(always)]
    fn load_each<const N: usize, const VECTORS: usize>(
        &self,
        start: usize,
        none: u32x4,
        read: impl Fn(*const I) -> u32x4,
    ) -> [u32x4; VECTORS]
    where
        I: Element<N>,
    {
        core::array::from_fn(|i| match self.vector::<N>(start + i) {
            // SAFETY: the offset lies in the row.
            Some(place) => read(unsafe { self.inp.add(place) }),
            None => none,
        })
    }

    /// Returns the number of vectors of the block's part.
    #[inline(always)]
    pub fn part_len(&self) -> usize {
        self.end - self.first
    }

    /// Begins to copy the block's part of each of `rows`, which are equally long, into shared memory, in pieces of `piece`
    /// vectors: each piece of all rows before the next. A piece signals its barrier on arrival, once for each row. Threads
    /// copy unaligned vectors one by one.
    ///
    /// # Safety
    /// Each of `to` has room for the part. There is a barrier per piece, which expects an arrival per row. All threads of
    /// the block call this, and no code uses `to` before their arrival.
    #[inline(always)]
    pub unsafe fn fetch<const N: usize, const ROWS: usize>(
        rows: [Self; ROWS],
        to: [*mut u32x4; ROWS],
        piece: usize,
        pieces: *mut Barrier,
    ) where
        I: Element<N>,
    {
        let (tid, len) = (rows[0].tid, rows[0].part_len());
        // SAFETY: the caller's memory; the offsets lie in the rows.
        unsafe {
            let from = rows.map(|row| row.inp.add(row.head + N * row.first));
            if tid == 0 {
                for (i, first) in (0..len).step_by(piece).enumerate() {
                    let (vectors, arrived) = (piece.min(len - first), pieces.add(i));
                    for r in 0..ROWS {
                        if rows[r].is_aligned {
                            let from = from[r].add(N * first).cast();
                            Barrier::arrive_expect_tx(arrived, 16 * vectors as u32);
                            bulk::global_to_shared(to[r].add(first), from, vectors as u32, arrived);
                        }
                    }
                }
            }
            for r in 0..ROWS {
                if rows[r].is_aligned {
                    continue;
                }
                for v in (tid..len).step_by(THREADS) {
                    *to[r].add(v) = core::mem::transmute_copy(&from[r].add(N * v).cast::<[I; N]>().read());
                }
                thread::sync_threads_aligned();
                if tid == 0 {
                    for i in 0..len.div_ceil(piece) {
                        Barrier::arrive(pieces.add(i));
                    }
                }
            }
        }
    }

    /// Returns the address in `out` of a column, if it lies in one of this thread's vectors.
    #[inline(always)]
    pub fn output_at<const N: usize>(&self, col: usize) -> Option<*mut O> {
        // For a column before the vectors this is larger than any vector's number.
        let v = col.wrapping_sub(self.head) / N;
        let is_mine = self.first <= v && v < self.end && (v - self.first) % THREADS == self.tid;
        is_mine.then(|| self.out.wrapping_add(col))
    }

    /// Returns the aligned address in `out` of this thread's vector number `i`, if the part has it.
    #[inline(always)]
    pub fn output<const N: usize>(&self, i: usize) -> Option<*mut O> {
        // SAFETY: the offset lies in the row.
        self.vector::<N>(i).map(|place| unsafe { self.out.add(place) })
    }

    /// Returns whether the block's part has elements outside the vectors. A row of whole, aligned vectors has none.
    #[inline(always)]
    pub fn has_edges<const N: usize>(&self) -> bool {
        self.has_edges && N * self.vectors < self.cols
    }

    /// Returns the columns of this thread's single elements; at least `cols` where it has none.
    #[inline(always)]
    pub fn edges<const N: usize>(&self) -> [usize; 2] {
        let place = |i: usize| match (self.has_edges, i < self.head) {
            (false, _) => self.cols,
            (true, true) => i,
            (true, false) => i + N * self.vectors,
        };
        [place(self.tid), if 2 * (N - 1) > THREADS { place(self.tid + THREADS) } else { self.cols }]
    }

    /// Loads this thread's single elements; `none` where it has none.
    #[inline(always)]
    pub fn load_edges<const N: usize>(&self, none: f32) -> [f32; 2] {
        self.edges::<N>().map(|place| {
            // SAFETY: the offset lies in the row.
            if place < self.cols { unsafe { *self.inp.add(place) }.to_f32() } else { none }
        })
    }

    /// Writes this thread's single elements.
    ///
    /// # Safety
    /// No other code uses these elements.
    #[inline(always)]
    pub unsafe fn store_edges<const N: usize>(&self, values: [f32; 2]) {
        let places = self.edges::<N>();
        for i in 0..2 {
            if places[i] < self.cols {
                // SAFETY: the offset lies in the row, and only the caller uses the element.
                unsafe { *self.out.add(places[i]) = O::from_f32(values[i]) };
            }
        }
    }
}

/// Returns the number of a row and its columns. After the last of `rows` it returns row 0 with 0 columns, so that all
/// threads of a block reach its shuffles and barriers.
#[inline(always)]
pub(super) fn row_or_empty(row: usize, [rows, cols]: [u32; 2]) -> [usize; 2] {
    if row < rows as usize { [row, cols as usize] } else { [0, 0] }
}

/// Prefetches the rows from `first` to before `first + count`, or the block's part of a single row, into L2; one thread of
/// the block does it. So memory is busy while the block computes and writes its own rows. Prefetches nothing after the last
/// row.
///
/// # Safety
/// The matrix has `rows` rows of `cols` elements, `stride` elements apart.
#[inline(always)]
pub(super) unsafe fn prefetch_rows<I>(
    inp: *const I,
    stride: u64,
    [rows, cols]: [u32; 2],
    [first, count]: [usize; 2],
    part: Part,
) {
    if thread::thread_idx_x() != 0 || first >= rows as usize {
        return;
    }
    let others = (first + count).min(rows as usize) - 1 - first;
    let elements = others * stride as usize + cols as usize;
    let per_part = elements.div_ceil(part.parts as usize);
    let skipped = per_part * part.rank as usize;
    // SAFETY: the elements from the first row's start to the last one's end lie in the matrix.
    let start = unsafe { inp.add(first * stride as usize + skipped.min(elements)) };
    let to_boundary = start.align_offset(VECTOR_ALIGN);
    let len = per_part.min(elements.saturating_sub(skipped)).saturating_sub(to_boundary);
    let bytes = (len * size_of::<I>()) as u32 / 16 * 16;
    if bytes > 0 {
        // SAFETY: the row has the bytes, which are whole, aligned vectors.
        unsafe { hint::prefetch_l2(start.add(to_boundary), bytes) };
    }
}

/// The maximum of some threads' scaled elements, and the sum of their exponentials relative to it: here of no elements.
///
/// The maximum starts from the smallest number: -inf minus -inf is NaN.
pub(super) const NO_PAIR: f32x2 = f32x2::new(f32::MIN, 0.0);

/// Merges the pairs of `LANES` neighbouring lanes; the elements are multiplied by `scale`.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
pub(super) unsafe fn merge<const LANES: u32>(f32x2 { x: max_lane, y: sum_lane }: f32x2, scale: f32) -> f32x2 {
    // SAFETY: all lanes execute this.
    unsafe {
        let max = reduce_max_width::<f32, LANES>(u32::MAX, max_lane);
        let sum = reduce_sum_width::<f32, LANES>(u32::MAX, sum_lane * ((max_lane - max) * scale).exp());
        f32x2::new(max, sum)
    }
}

/// Merges the pairs of the warps that hold a row, `THREADS` threads. All lanes of a warp have the same pair.
///
/// # Safety
/// All threads of the block call this, once; `shared` belongs to the block and has an element per warp.
#[inline(always)]
pub(super) unsafe fn exchange<const THREADS: usize>(shared: *mut f32x2, of_warp: f32x2, scale: f32) -> f32x2 {
    let thread = thread::thread_idx_x() as usize;
    let (warps, lane) = (THREADS / 32, thread % 32);
    // SAFETY: all threads execute this. Each warp has its own element, and reads after the barrier.
    unsafe {
        if lane == 0 {
            *shared.add(thread / 32) = of_warp;
        }
        thread::sync_threads_aligned();
        let pair = if lane < warps { *shared.add(thread / THREADS * warps + lane) } else { NO_PAIR };
        merge::<32>(pair, scale)
    }
}
