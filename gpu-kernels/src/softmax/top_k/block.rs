//! Rows of any width, each of a block or a cluster, which reads it once and a few of its elements again.

use core::sync::atomic::Ordering;

use cuda_std::atomic::BlockAtomicU32;
use cuda_std::mem::{f32x2, u32x4};
use cuda_std::{cluster, thread};

use super::key::{key, ordered, value};
use super::select::{MOST, Selection, bound, sort_gathered};
use crate::element::Element;
use crate::softmax::chunk::{Line, exp, lane, largest};
use crate::softmax::forward::sum_of;
use crate::softmax::row::{NO_PAIR, Part, exchange, merge};

/// Threads of a block: a bound is one of their largest elements, and few more than those sought reach it.
pub const BLOCK: usize = 256;

/// Keys that a block gathers at once.
const ROOM: usize = 512;

/// Maxima that a thread remembers, each of its part of one span or several.
const MAXIMA: usize = 16;

/// Parts of spans, each the elements of a thread, that a block looks at together.
const PARTS: usize = 1024;

/// The most blocks of a cluster.
const MOST_BLOCKS: usize = 16;

/// What a block selects in: shared memory of its own.
#[derive(Clone, Copy)]
pub struct Scratch {
    /// `[ROOM]`: keys that may be among the largest, and then these.
    keys: *mut u64,
    /// The least key that is gathered.
    least: *mut u64,
    /// How many were; and how many parts of spans are looked at again.
    counts: *mut u32,
    /// `[PARTS]`: these, each the number of its span times [`BLOCK`], and the thread.
    parts: *mut u32,
    /// `[BLOCK]`: the threads' largest elements.
    largest: *mut u32,
    /// `[MAXIMA][BLOCK]`: the threads' maxima.
    maxima: *mut f32,
    /// `[MOST_BLOCKS]`, in a cluster alone: (max, sum) of its blocks.
    pairs: *mut f32x2,
    /// `[MOST_BLOCKS * MOST]`, in a cluster alone: what its blocks have found.
    gathered: *mut u64,
}

impl Scratch {
    /// Words of a block, or of one of a cluster.
    pub const fn words(is_cluster: bool) -> usize {
        let of_block = ROOM + 2 + PARTS / 2 + BLOCK / 2 + MAXIMA * BLOCK / 2;
        if is_cluster { of_block + MOST_BLOCKS + MOST_BLOCKS * MOST } else { of_block }
    }

    /// That in these words.
    #[inline(always)]
    pub fn new(words: *mut u64) -> Self {
        let least = words.wrapping_add(ROOM);
        let counts = least.wrapping_add(1);
        let parts = counts.wrapping_add(1);
        let largest = parts.wrapping_add(PARTS / 2);
        let maxima = largest.wrapping_add(BLOCK / 2);
        let pairs = maxima.wrapping_add(MAXIMA * BLOCK / 2);
        Self {
            keys: words,
            least,
            counts: counts.cast(),
            parts: parts.cast(),
            largest: largest.cast(),
            maxima: maxima.cast(),
            pairs: pairs.cast(),
            gathered: pairs.wrapping_add(MOST_BLOCKS),
        }
    }
}

/// Keys that are the thread's.
trait Keys {
    /// Calls `each` with every key from `least` on, in any order.
    ///
    /// # Safety
    /// All threads of the block come here; the keys are there, and the scratch has no parts of spans.
    unsafe fn for_each_from(&self, least: u64, scratch: Scratch, each: impl FnMut(u64));
}

/// The thread's elements of a block's part of a row, of which it remembers the maxima. The block reads a span of columns at a time.
struct Elements<T, const N: usize, const VECTORS: usize> {
    line: Line<T>,
    part: Part,
    maxima: *mut f32,
    /// Spans of a maximum.
    fold: u32,
    largest: f32,
}

impl<T: Element<N>, const N: usize, const VECTORS: usize> Elements<T, N, VECTORS> {
    /// Columns of a span.
    const SPAN: usize = BLOCK * N * VECTORS;

    #[inline(always)]
    fn new(line: Line<T>, part: Part, scratch: Scratch) -> Self {
        let spans = line.cols().div_ceil(Self::SPAN) as u32;
        let fold = spans.div_ceil(part.parts).div_ceil(MAXIMA as u32);
        let maxima = scratch.maxima.wrapping_add(thread::thread_idx_x() as usize);
        Self { line, part, maxima, fold, largest: f32::NEG_INFINITY }
    }

    /// The number of the block's span number `i`, if there is one.
    #[inline(always)]
    fn span(&self, i: u32) -> Option<u32> {
        let span = i * self.part.parts + self.part.rank;
        ((span as usize) * Self::SPAN < self.line.cols()).then_some(span)
    }

    /// Reads all spans; the thread's (max, sum).
    ///
    /// # Safety
    /// The maxima are the thread's own.
    #[inline(always)]
    unsafe fn read(&mut self, factor: f32) -> f32x2 {
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
}

impl<T: Element<N>, const N: usize, const VECTORS: usize> Keys for Elements<T, N, VECTORS> {
    /// Of most parts it reads the maximum alone. The others' vectors are shared among the threads, so that all loads are on their way at
    /// once; if there is no room for that, each thread reads its own.
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
        // SAFETY: the caller brings all threads; the count is atomic until the barrier, and each part is one thread's.
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

impl<T: Element<N>, const N: usize, const VECTORS: usize> Elements<T, N, VECTORS> {
    /// Calls `each` with the thread's parts of spans whose maximum is at least `smallest`.
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

/// Keys in shared memory, of which 0 are none.
struct Gathered {
    keys: *const u64,
    len: usize,
}

impl Keys for Gathered {
    #[inline(always)]
    unsafe fn for_each_from(&self, least: u64, _: Scratch, mut each: impl FnMut(u64)) {
        for i in (thread::thread_idx_x() as usize..self.len).step_by(BLOCK) {
            // SAFETY: one of the caller's keys.
            let key = unsafe { *self.keys.add(i) };
            if key >= least.max(1) {
                each(key);
            }
        }
    }
}

/// The `k` largest of the block's keys to the first places of `scratch.keys`, for the first warp alone; `largest` is the thread's largest
/// element, -inf if it has none.
///
/// # Safety
/// All threads of the block come here, with the same `k`, from 1 to [`MOST`]. The scratch is the block's own.
#[inline(always)]
unsafe fn select(scratch: Scratch, keys: &impl Keys, largest: f32, k: usize) {
    let tid = thread::thread_idx_x() as usize;
    let Scratch { keys: room, least, counts: count, largest: all, .. } = scratch;
    // SAFETY: the caller brings all threads; between what one writes and another reads or writes there is a barrier, but for
    // the count, which is atomic until then.
    unsafe {
        *all.add(tid) = ordered(largest);
        if tid < 2 {
            *count.add(tid) = 0;
        }
        thread::sync_threads_aligned();
        if tid < 32 {
            // At least `k` keys reach it: one of each thread whose largest does.
            let bound = bound::<{ BLOCK / 32 }>(core::array::from_fn(|i| *all.add(32 * i + tid)), k);
            *least = u64::from(bound) << 32;
        }
        thread::sync_threads_aligned();
        loop {
            keys.for_each_from(*least, scratch, |key| {
                let place = BlockAtomicU32::from_ptr(count).fetch_add(1, Ordering::Relaxed) as usize;
                if place < ROOM {
                    *room.add(place) = key;
                }
            });
            thread::sync_threads_aligned();
            let found = *count as usize;
            if tid < 32 {
                sort_gathered::<u64>(room, found.min(ROOM), k, |key| key);
            }
            if found <= ROOM {
                return;
            }
            // Of those that found room the `k`th is a higher bound.
            thread::sync_threads_aligned();
            if tid == 0 {
                *least = *room.add(k - 1);
            }
            if tid < 2 {
                *count.add(tid) = 0;
            }
            thread::sync_threads_aligned();
        }
    }
}

/// The largest elements of a row for each block or, with `CLUSTER`, for each cluster.
///
/// # Safety
/// As for the kernels; `shared` has an element of the block's own for each warp, and the scratch is its own.
#[inline(always)]
pub unsafe fn rows<T, A, const N: usize, const VECTORS: usize, const CLUSTER: bool>(
    shared: *mut f32x2,
    scratch: Scratch,
    args: A,
) where
    T: Element<N>,
    A: Selection<T>,
{
    let part = match CLUSTER {
        true => Part { rank: cluster::block_rank(), parts: cluster::num_blocks() },
        false => Part::ALL,
    };
    let index = (thread::block_idx_x() / part.parts) as usize;
    let (tid, k, scale) = (thread::thread_idx_x() as usize, args.k(), args.scale());
    // SAFETY: the kernel's contract. All threads of the cluster come here and, as far as their block is the first, to all that follows.
    unsafe {
        if CLUSTER {
            cluster::arrive_relaxed();
        }
        let (logits, stride) = args.logits();
        let line = Line::new::<N>(logits, stride, args.shape(), index);
        let mut elements = Elements::<T, N, VECTORS>::new(line, part, scratch);
        let mine = elements.read(scale * core::f32::consts::LOG2_E);
        let mut pair = exchange::<BLOCK>(shared, merge::<32>(mine, scale), scale);
        select(scratch, &elements, elements.largest, k);
        if CLUSTER {
            // The other blocks have started; each writes what it has found to the first one, which reads it after the barrier.
            cluster::wait();
            if tid < 32 {
                let rank = part.rank as usize;
                let keys = cluster::map_shared(scratch.gathered, 0);
                for place in (tid..k).step_by(32) {
                    *keys.add(rank * k + place) = *scratch.keys.add(place);
                }
                if tid == 0 {
                    *cluster::map_shared(scratch.pairs, 0).add(rank) = pair;
                }
            }
            cluster::sync();
            if part.rank > 0 {
                return;
            }
            let of_block = if lane() < part.parts as usize { *scratch.pairs.add(lane()) } else { NO_PAIR };
            pair = merge::<32>(of_block, scale);
            let gathered = Gathered { keys: scratch.gathered, len: part.parts as usize * k };
            let mut largest = 0;
            gathered.for_each_from(1, scratch, |key| largest = largest.max(key));
            select(scratch, &gathered, value(largest).max(f32::NEG_INFINITY), k);
        }
        if tid < 32 {
            args.finish(index, scratch.keys, pair);
        }
    }
}
