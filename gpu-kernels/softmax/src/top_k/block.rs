//! Rows of any width, one block or cluster per row, which reads it once and a few of its elements again.

use core::sync::atomic::Ordering;

use cuda_std::atomic::BlockAtomicU32;
use cuda_std::mem::f32x2;
use cuda_std::{cluster, thread};

use super::elements::Elements;
use super::key::{ordered, value};
use super::select::{MOST, Selection, bound, sort_gathered};
use crate::chunk::{Line, lane};
use crate::row::{NO_PAIR, Part, exchange, merge};
use common_kernels::element::Element;

/// Threads of a block. The bound is one of the threads' largest elements; few more elements than the sought ones reach it.
pub const BLOCK: usize = 256;

/// Keys that a block gathers at once.
const ROOM: usize = 512;

/// Maxima that a thread remembers, each of its elements of one span or several.
pub const MAXIMA: usize = 16;

/// Parts of spans that a block reads again at once. A part is a thread's elements of a span.
pub const PARTS: usize = 1024;

/// The largest number of blocks of a cluster.
const MOST_BLOCKS: usize = 16;

/// The block's shared memory for a selection.
#[derive(Clone, Copy)]
pub struct Scratch {
    /// `[ROOM]`: keys that may be among the largest; in the end, the largest.
    keys: *mut u64,
    /// The smallest key that is gathered.
    least: *mut u64,
    /// The number of gathered keys, and the number of parts of spans to read again.
    pub counts: *mut u32,
    /// `[PARTS]`: the parts of spans to read again: span times [`BLOCK`], plus thread.
    pub parts: *mut u32,
    /// `[BLOCK]`: the threads' largest elements.
    largest: *mut u32,
    /// `[MAXIMA][BLOCK]`: the threads' maxima.
    pub maxima: *mut f32,
    /// `[MOST_BLOCKS]`, only in a cluster: the (max, sum) of its blocks.
    pairs: *mut f32x2,
    /// `[MOST_BLOCKS * MOST]`, only in a cluster: the keys that its blocks have found.
    gathered: *mut u64,
}

impl Scratch {
    /// Returns the words of a block, or of a block of a cluster.
    pub const fn words(is_cluster: bool) -> usize {
        let of_block = ROOM + 2 + PARTS / 2 + BLOCK / 2 + MAXIMA * BLOCK / 2;
        if is_cluster { of_block + MOST_BLOCKS + MOST_BLOCKS * MOST } else { of_block }
    }

    /// Lays out the scratch in these words.
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

/// The thread's keys.
pub trait Keys {
    /// Calls `each` with every key that is at least `least`, in any order.
    ///
    /// # Safety
    /// All threads of the block call this; the keys are complete, and the scratch has no parts of spans.
    unsafe fn for_each_from(&self, least: u64, scratch: Scratch, each: impl FnMut(u64));
}

/// Keys in shared memory; 0 means no key.
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

/// Writes the `k` largest of the block's keys to the first places of `scratch.keys`, for the first warp only. `largest` is
/// the thread's largest element, -inf if it has none.
///
/// # Safety
/// All threads of the block call this, with the same `k`, from 1 to [`MOST`]. The scratch belongs to the block.
#[inline(always)]
unsafe fn select(scratch: Scratch, keys: &impl Keys, largest: f32, k: usize) {
    let tid = thread::thread_idx_x() as usize;
    let Scratch { keys: room, least, counts: count, largest: all, .. } = scratch;
    // SAFETY: all threads execute this. A barrier separates the accesses of different threads to a
    // location, except to the count, which is atomic until then.
    unsafe {
        *all.add(tid) = ordered(largest);
        if tid < 2 {
            *count.add(tid) = 0;
        }
        thread::sync_threads_aligned();
        if tid < 32 {
            // At least `k` keys reach it: one of each thread whose largest element does.
            let bound = bound::<{ BLOCK / 32 }>(core::array::from_fn(|i| *all.add(32 * i + tid)), k);
            if tid == 0 {
                *least = u64::from(bound) << 32;
            }
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
            // The `k`th of those that found room is a higher bound.
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

/// Selects the largest elements of one row per block or, with `CLUSTER`, per cluster.
///
/// # Safety
/// Same as for the kernels; `shared` belongs to the block and has an element per warp; the scratch belongs to the block.
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
    // SAFETY: the kernel's contract. All threads of the cluster execute this, and those of its first block all of it.
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
            // The other blocks have started. Each writes its result to the first block, which reads it after the barrier.
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
