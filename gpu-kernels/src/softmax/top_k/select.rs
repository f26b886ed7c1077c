//! The largest keys of those that a block's threads have, in order.

use core::sync::atomic::Ordering;

use cuda_std::atomic::BlockAtomicU32;
use cuda_std::thread;

/// The most keys that are selected.
pub const MOST: usize = 128;

/// The most blocks of a cluster.
const MOST_BLOCKS: usize = 16;

/// Keys that are the thread's.
pub trait Keys {
    /// Calls `each` with every key from `least` on, in any order.
    ///
    /// # Safety
    /// The keys are there.
    unsafe fn for_each_from(&self, least: u64, each: impl FnMut(u64));
}

/// Keys in shared memory, of which 0 are none.
#[derive(Clone, Copy)]
pub struct Gathered<const BLOCK: usize> {
    pub keys: *const u64,
    pub len: usize,
}

impl<const BLOCK: usize> Gathered<BLOCK> {
    /// The thread's largest key.
    ///
    /// # Safety
    /// The keys are there.
    #[inline(always)]
    pub unsafe fn best(&self) -> u64 {
        let mut best = 0;
        // SAFETY: the caller's.
        unsafe { self.for_each_from(1, |key| best = best.max(key)) };
        best
    }
}

impl<const BLOCK: usize> Keys for Gathered<BLOCK> {
    #[inline(always)]
    unsafe fn for_each_from(&self, least: u64, mut each: impl FnMut(u64)) {
        for i in (thread::thread_idx_x() as usize..self.len).step_by(BLOCK) {
            // SAFETY: one of the caller's keys.
            let key = unsafe { *self.keys.add(i) };
            if key >= least.max(1) {
                each(key);
            }
        }
    }
}

/// What a block selects in: shared memory of its own.
#[derive(Clone, Copy)]
pub struct Scratch {
    /// `[2 * BLOCK]`: keys that may be among the largest.
    candidates: *mut u64,
    /// `[MOST]`: the largest, in order; 0 where there are no more.
    pub sorted: *mut u64,
    threshold: *mut u64,
    count: *mut u32,
    /// `[MOST_BLOCKS * MOST]`, in a cluster alone: what its blocks have found.
    pub gathered: *mut u64,
}

impl Scratch {
    /// Words of a block of `BLOCK` threads.
    pub const fn words<const BLOCK: usize>() -> usize {
        2 * BLOCK + MOST + 2
    }

    /// Bytes of a block of a cluster.
    pub const fn bytes_of_cluster<const BLOCK: usize>() -> u32 {
        (8 * (Self::words::<BLOCK>() + MOST_BLOCKS * MOST)) as u32
    }

    /// That in these words.
    #[inline(always)]
    pub fn new<const BLOCK: usize>(words: *mut u64) -> Self {
        let sorted = words.wrapping_add(2 * BLOCK);
        let threshold = sorted.wrapping_add(MOST);
        let count = threshold.wrapping_add(1);
        Self { candidates: words, sorted, threshold, count: count.cast(), gathered: count.wrapping_add(1) }
    }

    /// `[MOST]`: numbers of those that have been selected, in the place of the candidates.
    #[inline(always)]
    pub fn weights(self) -> *mut f32 {
        self.candidates.cast()
    }
}

/// How many of the first `len` candidates are larger than `key`.
///
/// # Safety
/// They are there.
#[inline(always)]
unsafe fn larger(candidates: *const u64, len: usize, key: u64) -> usize {
    let mut count = 0;
    for i in 0..len {
        // SAFETY: the caller's candidates.
        count += u32::from(unsafe { *candidates.add(i) } > key);
    }
    count as usize
}

/// The `k` largest of the block's keys, at most `most` of them, to `scratch.sorted`; `best` is the thread's largest one, 0 if it has
/// none.
///
/// The `k`th of the threads' largest keys is at most the `k`th of all. Where more keys reach it than there is room for, the `k`th of
/// those that found room is a higher bound, for another round.
///
/// # Safety
/// All threads of the block come here, with the same `k`, from 1 to [`MOST`], and at most `BLOCK`. The scratch is the block's own.
#[inline(always)]
pub unsafe fn select<const BLOCK: usize>(
    scratch: Scratch,
    keys: &impl Keys,
    best: u64,
    most: usize,
    k: usize,
) {
    let (tid, room) = (thread::thread_idx_x() as usize, 2 * BLOCK);
    let Scratch { candidates, sorted, threshold, count, .. } = scratch;
    // SAFETY: the caller brings all threads; between what one writes and another reads or writes there is a barrier, but for
    // the count, which is atomic until then.
    let found = unsafe {
        if tid == 0 {
            *threshold = 0;
            *count = 0;
        }
        if most > room {
            *candidates.add(tid) = best;
            thread::sync_threads_aligned();
            if best > 0 && larger(candidates, BLOCK, best) == k - 1 {
                *threshold = best;
            }
        }
        thread::sync_threads_aligned();
        loop {
            let least = *threshold;
            keys.for_each_from(least, |key| {
                let place = BlockAtomicU32::from_ptr(count).fetch_add(1, Ordering::Relaxed) as usize;
                if place < room {
                    *candidates.add(place) = key;
                }
            });
            thread::sync_threads_aligned();
            let found = *count as usize;
            if found <= room {
                break found;
            }
            for i in (tid..room).step_by(BLOCK) {
                let key = *candidates.add(i);
                if larger(candidates, room, key) == k - 1 {
                    *threshold = key;
                }
            }
            thread::sync_threads_aligned();
            if tid == 0 {
                *count = 0;
            }
            thread::sync_threads_aligned();
        }
    };
    // SAFETY: as above; all keys are different, and so are their places.
    unsafe {
        for i in (tid..found).step_by(BLOCK) {
            let key = *candidates.add(i);
            let place = larger(candidates, found, key);
            if place < k {
                *sorted.add(place) = key;
            }
        }
        for place in (found + tid..k).step_by(BLOCK) {
            *sorted.add(place) = 0;
        }
        thread::sync_threads_aligned();
    }
}
