//! How the threads of a block go over their elements of a row, again and again.

use cuda_std::mem::{f32x2, u32x4};
use cuda_std::{GpuFloat as _, thread};

use super::key::{key, value};
use super::select::Keys;
use crate::element::Element;
use crate::softmax::forward::exp;
use crate::softmax::row::{NO_PAIR, Row};

/// The elements of a block's part of a row: in memory, read `VECTORS` vectors at a time, or with `VECTORS` 0 in shared memory.
#[derive(Clone, Copy)]
pub struct Elements<T, const N: usize, const BLOCK: usize, const VECTORS: usize> {
    row: Row<T, T, BLOCK>,
    vectors: *const u32x4,
    edge_reg: [f32; 2],
}

impl<T: Element<N>, const N: usize, const BLOCK: usize, const VECTORS: usize> Elements<T, N, BLOCK, VECTORS> {
    /// Those of a row, whose vectors are, or will be, in shared memory from `vectors` on.
    #[inline(always)]
    pub fn new(row: Row<T, T, BLOCK>, vectors: *const u32x4) -> Self {
        Self { row, vectors, edge_reg: row.load_edges::<N>(f32::NEG_INFINITY) }
    }

    /// The most elements that there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        (self.row.part_len() + 2) * N
    }

    /// Calls `each` with the column of the first, `N` elements, and how many of them count, for all that are the thread's.
    ///
    /// # Safety
    /// What is in shared memory is there.
    #[inline(always)]
    pub unsafe fn for_each(&self, each: impl FnMut(usize, [f32; N], usize)) {
        // SAFETY: the caller's.
        unsafe { self.for_each_by::<VECTORS>(each) };
    }

    /// As [`Self::for_each`], with `AT_ONCE` vectors read at a time, where they are in memory: fewer for an `each` that is so long that
    /// the compiler does not unroll it.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub unsafe fn for_each_by<const AT_ONCE: usize>(&self, mut each: impl FnMut(usize, [f32; N], usize)) {
        self.for_edges(&mut each);
        let mut start = 0;
        while self.row.has_vectors(start) {
            if VECTORS == 0 {
                if let Some(place) = self.row.vector::<N>(start) {
                    let at = start * BLOCK + thread::thread_idx_x() as usize;
                    // SAFETY: a vector of the part.
                    each(place, T::unpack(unsafe { *self.vectors.add(at) }), N);
                }
                start += 1;
            } else {
                let x_reg = self.row.load::<N, AT_ONCE>(start, T::NEG_INFINITY);
                for i in 0..AT_ONCE {
                    if let Some(place) = self.row.vector::<N>(start + i) {
                        each(place, T::unpack(x_reg[i]), N);
                    }
                }
                start += AT_ONCE;
            }
        }
    }

    /// As [`Self::for_each`], for the single elements alone.
    #[inline(always)]
    pub fn for_edges(&self, each: &mut impl FnMut(usize, [f32; N], usize)) {
        let places = self.row.edges::<N>();
        for i in 0..2 {
            if places[i] < self.row.cols() {
                let mut x = [f32::NEG_INFINITY; N];
                x[0] = self.edge_reg[i];
                each(places[i], x, 1);
            }
        }
    }
}

impl<T: Element<N>, const N: usize, const BLOCK: usize, const VECTORS: usize> Keys
    for Elements<T, N, BLOCK, VECTORS>
{
    #[inline(always)]
    unsafe fn for_each_from(&self, least: u64, mut each: impl FnMut(u64)) {
        let smallest = if least == 0 { f32::NEG_INFINITY } else { value(least) };
        // SAFETY: the caller's.
        unsafe {
            self.for_each(|place, x, len| {
                let larger = x.into_iter().fold(f32::NEG_INFINITY, f32::max);
                if larger >= smallest {
                    for j in 0..N {
                        let key = key(x[j], (place + j) as u32);
                        if j < len && key >= least {
                            each(key);
                        }
                    }
                }
            });
        }
    }
}

/// What a thread knows of its elements: their (max, sum), and the key of the largest.
#[derive(Clone, Copy)]
pub struct Summary {
    pub pair: f32x2,
    pub best: u64,
}

impl Summary {
    /// That of no elements.
    pub const NONE: Self = Self { pair: NO_PAIR, best: 0 };

    /// With the first `len` elements of `x`, which begins in column `place`; after them there is -inf.
    #[inline(always)]
    pub fn add<const N: usize>(&mut self, place: usize, x: [f32; N], len: usize, scale: f32) {
        let larger = x.into_iter().fold(f32::NEG_INFINITY, f32::max);
        if larger > self.pair.x {
            self.pair = f32x2::new(larger, self.pair.y * exp::<f32>(self.pair.x - larger, scale));
        }
        let max = self.pair.x;
        self.pair.y += x.map(|x| exp::<f32>(x - max, scale)).into_iter().fold(0.0, |sum, y| sum + y);
        if self.best == 0 || larger >= value(self.best) {
            for j in 0..N {
                let key = key(x[j], (place + j) as u32);
                self.best = if j < len { self.best.max(key) } else { self.best };
            }
        }
    }
}
