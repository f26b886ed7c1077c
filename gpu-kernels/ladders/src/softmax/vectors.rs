//! How the rungs from k5 on share a row: single elements up to a 16-byte boundary, then vectors, then single elements again.

use cuda_std::hint::opaque;
use cuda_std::mem::{f32x4, load_global_nc, store_global};

/// An unroll factor: one vector at a time. The compiler must not unroll the loop either, because that takes registers.
pub(super) const ROLLED: usize = 0;

/// A thread's part of a row. Of the aligned vectors it has number `tid` and every `THREADS`th after it. Of the elements
/// around the vectors, at most six, it has the one with its number: its edge.
#[derive(Clone, Copy)]
pub(super) struct Vectors<'a, const THREADS: usize> {
    x: &'a [f32],
    /// The row's offset in the matrix.
    start: usize,
    head: usize,
    /// The thread's first vector, and the end of the block's.
    first: usize,
    end: usize,
    edge: usize,
}

impl<'a, const THREADS: usize> Vectors<'a, THREADS> {
    /// Rows of a block: several, in 128 threads, if a row needs at most a warp; otherwise one.
    pub const ROWS_PER_BLOCK: usize = if THREADS > 32 { 1 } else { 128 / THREADS };

    /// Returns the part of thread `tid` of row `row` of a matrix `inp`, `[rows, cols]`, that no code writes. After the last
    /// row the row is empty, so that all threads reach shuffles and barriers.
    #[inline(always)]
    pub fn new(inp: &'a [f32], [rows, cols]: [usize; 2], row: usize, tid: usize) -> Self {
        let (start, len) = if row < rows { (row * cols, cols) } else { (0, 0) };
        let x = &inp[start..start + len];
        let head = x.as_ptr().align_offset(16).min(len);
        let vectors = (len - head) / 4;
        // The edges after the head skip the vectors.
        let edge = if tid < head { tid } else { tid + 4 * vectors };
        Self { x, start, head, first: tid, end: vectors, edge }
    }

    /// Returns block `rank`'s part of a row that `blocks` blocks or fewer share: a multiple of 512 bytes, up to the end of
    /// the row's vectors, and at least `least` vectors. The first block has the edges.
    #[inline(always)]
    pub fn of_block(self, rank: u32, blocks: u32, least: u32) -> Self {
        let vectors = (self.end as u32).div_ceil(blocks).next_multiple_of(32).max(least);
        let first = (rank * vectors) as usize + self.first;
        let end = self.end.min(((rank + 1) * vectors) as usize);
        Self { first, end, edge: if rank == 0 { self.edge } else { self.x.len() }, ..self }
    }

    /// Returns the vectors of the block's part; this is thread `tid` of the block.
    #[inline(always)]
    pub fn part(&self, tid: usize) -> &'a [f32x4] {
        let first = self.first - tid;
        if first >= self.end {
            return &[];
        }
        // SAFETY: aligned vectors of the row, which no code writes.
        unsafe {
            let vectors = self.x.as_ptr().add(self.head).cast::<f32x4>();
            core::slice::from_raw_parts(vectors.add(first), self.end - first)
        }
    }

    /// Returns the edge, or -inf, which changes neither maximum nor sum, if the thread has none.
    #[inline(always)]
    pub fn edge(&self) -> f32 {
        self.x.get(self.edge).copied().unwrap_or(f32::NEG_INFINITY)
    }

    /// Returns the offset and the values of vector `v`.
    ///
    /// # Safety
    /// `v` is below `end`.
    #[inline(always)]
    unsafe fn vector(&self, v: usize) -> (usize, [f32; 4]) {
        let place = self.head + 4 * v;
        // SAFETY: the vector is aligned and lies in the row.
        (place, unsafe { load_global_nc(self.x.as_ptr().add(place).cast::<f32x4>()) }.to_array())
    }

    /// Calls `each` with the offset and the values of every vector. `UNROLL` vectors are loaded before the first is used;
    /// the rest go one by one.
    #[inline(always)]
    pub fn for_each<const UNROLL: usize>(&self, mut each: impl FnMut(usize, [f32; 4])) {
        let mut v = self.first;
        while UNROLL > 1 && v + (UNROLL - 1) * THREADS < self.end {
            // SAFETY: the loop condition: the last of them is below `end`.
            let x_reg: [_; UNROLL] = core::array::from_fn(|i| unsafe { self.vector(v + i * THREADS) });
            for i in 0..UNROLL {
                each(x_reg[i].0, x_reg[i].1);
            }
            v += UNROLL * THREADS;
        }
        while v < self.end {
            // SAFETY: the loop condition.
            let (place, x) = unsafe { self.vector(v) };
            each(place, x);
            v += THREADS;
            if UNROLL == ROLLED {
                v = opaque(v);
            }
        }
    }

    /// Like [`for_each`](Self::for_each), from the last vector to the first.
    #[inline(always)]
    pub fn for_each_back<const UNROLL: usize>(&self, mut each: impl FnMut(usize, [f32; 4])) {
        let mut left = self.end.saturating_sub(self.first).div_ceil(THREADS);
        while UNROLL > 1 && left >= UNROLL {
            left -= UNROLL;
            // SAFETY: `left` was the number of this thread's vectors, and each is below `end`.
            let x_reg: [_; UNROLL] =
                core::array::from_fn(|i| unsafe { self.vector(self.first + (left + i) * THREADS) });
            for i in 0..UNROLL {
                each(x_reg[i].0, x_reg[i].1);
            }
        }
        while left > 0 {
            left -= 1;
            if UNROLL == ROLLED {
                left = opaque(left);
            }
            // SAFETY: as above.
            let (place, x) = unsafe { self.vector(self.first + left * THREADS) };
            each(place, x);
        }
    }

    /// Loads all vectors, at most `VECTORS`; -inf past the end.
    #[inline(always)]
    pub fn load<const VECTORS: usize>(&self) -> [[f32; 4]; VECTORS] {
        core::array::from_fn(|i| {
            let v = self.first + i * THREADS;
            // SAFETY: checked just before.
            if v < self.end { unsafe { self.vector(v) }.1 } else { [f32::NEG_INFINITY; 4] }
        })
    }

    /// Writes the result of `values` for each vector, of at most `VECTORS`.
    ///
    /// # Safety
    /// Same as for [`store`](Self::store).
    #[inline(always)]
    pub unsafe fn store_all<const VECTORS: usize>(&self, out: *mut f32, values: impl Fn(usize) -> [f32; 4]) {
        for i in 0..VECTORS {
            let v = self.first + i * THREADS;
            let values = values(i);
            if v < self.end {
                // SAFETY: the vector is one of the thread's.
                unsafe { self.store(out, self.head + 4 * v, values) };
            }
        }
    }

    /// Writes the result of `values` for each vector, for any number of vectors.
    ///
    /// # Safety
    /// Same as for [`store`](Self::store).
    #[inline(always)]
    pub unsafe fn store_each(&self, out: *mut f32, values: impl Fn(usize) -> [f32; 4]) {
        for (i, v) in (self.first..self.end).step_by(THREADS).enumerate() {
            // SAFETY: the vector is one of the thread's.
            unsafe { self.store(out, self.head + 4 * v, values(i)) };
        }
    }

    /// Writes the vector at `place`, one of the thread's. It is one 16-byte store if the vectors are equally far from a
    /// boundary in both rows.
    ///
    /// # Safety
    /// `out` is a matrix of the shape of `inp`, and no other code uses the thread's part of the row.
    #[inline(always)]
    pub unsafe fn store(&self, out: *mut f32, place: usize, values: [f32; 4]) {
        // SAFETY: the vector and its first aligned element lie in the row.
        unsafe {
            let y = out.add(self.start);
            if y.add(self.head).cast::<f32x4>().is_aligned() {
                store_global(y.add(place).cast(), f32x4::from(values));
            } else {
                (0..4).for_each(|i| *y.add(place + i) = values[i]);
            }
        }
    }

    /// Writes the edge, if the thread has one.
    ///
    /// # Safety
    /// Same as for [`store`](Self::store).
    #[inline(always)]
    pub unsafe fn store_edge(&self, out: *mut f32, value: f32) {
        if self.edge < self.x.len() {
            // SAFETY: the edge lies in the row.
            unsafe { *out.add(self.start + self.edge) = value };
        }
    }
}
