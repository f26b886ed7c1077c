//! The elements of a block's part of a row: read once in full, and again in small parts.

use core::sync::atomic::Ordering;

use cuda_std::atomic::BlockAtomicU32;
use cuda_std::mem::{f32x2, u32x4};
use cuda_std::thread;

use super::block::{BLOCK, Keys, MAXIMA, PARTS, Scratch};
use super::key::{key, value};
use crate::chunk::{Line, exp, largest};
use crate::forward::sum_of;
use crate::row::Part;
use common_kernels::element::Element;

/// The thread's elements of a block's part of a row; it remembers their maxima. The block reads a span of columns at a time.
pub struct Elements<T, const N: usize, const VECTORS: usize> {
    line: Line<T>,
    part: Part,
    maxima: *mut f32,
    /// Spans per maximum.
    fold: u32,
    pub largest: f32,
}

impl<T: Element<N>, const N: usize, const VECTORS: usize> Elements<T, N, VECTORS> {
    /// Columns of a span.
    const SPAN: usize = BLOCK * N * VECTORS;

    #[inline(always)]
    pub fn new(line: Line<T>, part: Part, scratch: Scratch) -> Self {
        let spans = line.cols().div_ceil(Self::SPAN) as u32;
        let fold = spans.div_ceil(part.parts).div_ceil(MAXIMA as u32);
        let maxima = scratch.maxima.wrapping_add(thread::thread_idx_x() as usize);
        Self { line, part, maxima, fold, largest: f32::NEG_INFINITY }
    }

    /// Returns the number of the block's span number `i`, if there is one.
    #[inline(always)]
    fn span(&self, i: u32) -> Option<u32> {
        let span = i * self.part.parts + self.part.rank;
        ((span as usize) * Self::SPAN < self.line.cols()).then_some(span)
    }

    /// Reads all spans and returns the thread's (max, sum).
    ///
    /// # Safety
    /// The maxima are the thread's own.
    #[inline(always)]
    pub unsafe fn read(&mut self, factor: f32) -> f32x2 {
        let (mut max, mut sum) = (f32::MIN, 0.0);
        let (mut i, mut place, mut of_place, mut spans) = (0, 0, f32::NEG_INFINITY, 0);
        while let Some(span) = self.span(i) {
            let x_reg = self.line.load_by_block::<N, BLOCK, VECTORS>(span as usize * Self::SPAN);
            let of_span = largest::<T, N>(&x_reg);
            let last = max;
            max = max.max(of_span);
            sum *= exp(last - max, factor);
            sum += x_reg.iter().fold(0.0, |sum, &x| sum + sum_of(T::unpack(x).map(|x| exp(x - max, factor))));
            of_place = of_span.max(of_place);
            self.largest = self.largest.max(of_span);
            (i, spans) = (i + 1, spans + 1);
            if spans == self.fold || self.span(i).is_none() {
                // SAFETY: one of the thread's maxima.
                unsafe { *self.maxima.add(place * BLOCK) = of_place };
                (place, of_place, spans) = (place + 1, f32::NEG_INFINITY, 0);
            }
        }
        f32x2::new(max, sum)
    }

    /// Calls `each` with the thread's parts of spans that may reach `smallest`: those whose maximum does.
    #[inline(always)]
    fn for_each_part(&self, smallest: f32, mut each: impl FnMut(u32)) {
        let (mut i, mut place) = (0, 0);
        while self.largest >= smallest && self.span(i).is_some() {
            // SAFETY: the thread has written it.
            let reaches = unsafe { *self.maxima.add(place * BLOCK) } >= smallest;
            for _ in 0..self.fold {
                if let (true, Some(span)) = (reaches, self.span(i)) {
                    each(span * BLOCK as u32 + thread::thread_idx_x());
                }
                i += 1;
            }
            place += 1;
        }
    }
}

impl<T: Element<N>, const N: usize, const VECTORS: usize> Keys for Elements<T, N, VECTORS> {
    /// Reads only the maximum of most parts. The vectors of the other parts are shared among the threads, so all loads are
    /// in flight at once; if there is no room for that, each thread reads its own.
    #[inline(always)]
    unsafe fn for_each_from(&self, least: u64, scratch: Scratch, mut each: impl FnMut(u64)) {
        let (smallest, tid) = (value(least), thread::thread_idx_x() as usize);
        let mut each_of_vector = |first: usize, x: u32x4| {
            let x = T::unpack(x);
            for j in 0..N {
                let key = key(x[j], (first + j) as u32);
                if key >= least && first + j < self.line.cols() {
                    each(key);
                }
            }
        };
        // SAFETY: all threads execute this. The count is atomic until the barrier, and each part
        // belongs to one thread.
        unsafe {
            let count = scratch.counts.add(1);
            self.for_each_part(smallest, |part| {
                let place = BlockAtomicU32::from_ptr(count).fetch_add(1, Ordering::Relaxed) as usize;
                if place < PARTS {
                    *scratch.parts.add(place) = part;
                }
            });
            thread::sync_threads_aligned();
            let vectors = *count as usize * VECTORS;
            let column = |part: u32, v: usize| {
                let (span, of) = (part as usize / BLOCK, part as usize % BLOCK);
                span * Self::SPAN + (BLOCK * v + of) * N
            };
            if vectors > PARTS * VECTORS {
                self.for_each_part(smallest, |part| {
                    for v in 0..VECTORS {
                        each_of_vector(column(part, v), self.line.vector_at::<N>(column(part, v)));
                    }
                });
                return;
            }
            for i in (tid..vectors).step_by(BLOCK) {
                let first = column(*scratch.parts.add(i / VECTORS), i % VECTORS);
                each_of_vector(first, self.line.vector_at::<N>(first));
            }
        }
    }
}
