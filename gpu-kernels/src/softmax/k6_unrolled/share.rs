//! What a thread does of a row, forwards and backwards.

use cuda_std::mem::{f32x4, load_global_nc};

/// A thread's part of a row: every `BLOCK`th of the aligned vectors, `UNROLL` at a time, and perhaps an edge.
pub(super) struct Share<'a, const BLOCK: usize, const UNROLL: usize> {
    x: &'a [f32],
    tid: usize,
    pub(super) head: usize,
    vectors: usize,
    edge: usize,
}

impl<'a, const BLOCK: usize, const UNROLL: usize> Share<'a, BLOCK, UNROLL> {
    #[inline(always)]
    pub(super) fn new(x: &'a [f32], tid: usize) -> Self {
        let head = x.as_ptr().align_offset(16).min(x.len());
        let vectors = (x.len() - head) / 4;
        Self { x, tid, head, vectors, edge: if tid < head { tid } else { tid + 4 * vectors } }
    }

    /// Place and values of vector `v`.
    ///
    /// # Safety
    /// `v` is below `vectors`, and nobody writes the row.
    #[inline(always)]
    unsafe fn load(&self, v: usize) -> (usize, [f32; 4]) {
        let place = self.head + 4 * v;
        // SAFETY: the vector lies in the row, a whole number of vectors from a 16-byte boundary.
        (place, unsafe { load_global_nc(self.x.as_ptr().add(place).cast::<f32x4>()) }.to_array())
    }

    /// Gives place and values of every vector to `vector`, and those of the edge to `edge`.
    #[inline(always)]
    pub(super) fn for_each(
        &self,
        mut vector: impl FnMut((usize, [f32; 4])),
        mut edge: impl FnMut(usize, f32),
    ) {
        let mut v = self.tid;
        while v + (UNROLL - 1) * BLOCK < self.vectors {
            // SAFETY: the last of them is below `vectors`, as the loop asks.
            let x_reg: [_; UNROLL] = core::array::from_fn(|i| unsafe { self.load(v + i * BLOCK) });
            x_reg.into_iter().for_each(&mut vector);
            v += UNROLL * BLOCK;
        }
        while v < self.vectors {
            // SAFETY: as the loop asks.
            vector(unsafe { self.load(v) });
            v += BLOCK;
        }
        if let Some(&x) = self.x.get(self.edge) {
            edge(self.edge, x);
        }
    }

    /// As [`for_each`](Self::for_each), the last vectors first.
    #[inline(always)]
    pub(super) fn for_each_back(
        &self,
        mut vector: impl FnMut((usize, [f32; 4])),
        mut edge: impl FnMut(usize, f32),
    ) {
        let mut left = self.vectors.saturating_sub(self.tid).div_ceil(BLOCK);
        while left >= UNROLL {
            left -= UNROLL;
            // SAFETY: of this thread's vectors, as many as `left` was, each is below `vectors`.
            let x_reg: [_; UNROLL] =
                core::array::from_fn(|i| unsafe { self.load(self.tid + (left + i) * BLOCK) });
            x_reg.into_iter().for_each(&mut vector);
        }
        while left > 0 {
            left -= 1;
            // SAFETY: as above.
            vector(unsafe { self.load(self.tid + left * BLOCK) });
        }
        if let Some(&x) = self.x.get(self.edge) {
            edge(self.edge, x);
        }
    }
}
