//! What the selecting kernels have in common.

use cuda_std::mem::f32x2;
use cuda_std::warp::{WarpReductionOp, sync_warp, warp_reduce};

use super::key::Key;
use super::sort::{sort_in_shared, sorted};
use crate::chunk::lane;

/// The largest number of keys that are selected.
pub const MOST: usize = 128;

/// What a kernel does with the largest elements of each row.
pub trait Selection<T>: Copy {
    /// Returns the matrix, and the distance from one row to the next.
    fn logits(&self) -> (*const T, u64);
    /// Returns rows and columns.
    fn shape(&self) -> [u32; 2];
    /// Returns the number of elements to select, from 1 to [`MOST`].
    fn k(&self) -> usize;
    /// Returns the factor of the logits.
    fn scale(&self) -> f32;
    /// Writes the results of a row with this (max, sum). `sorted` has the keys of the `k` largest elements in order; 0 where
    /// there are no more.
    ///
    /// # Safety
    /// The 32 lanes of one warp call this, once for each row; the keys are visible to all of them.
    unsafe fn finish(&self, row: usize, sorted: *const u64, pair: f32x2);
}

/// Returns a bound that `k` of a warp's numbers reach, `EACH` per lane, and at most a quarter more, unless they are equal.
///
/// # Safety
/// All lanes of the warp call this, with the same `k`, which is at most the number of numbers.
#[inline(always)]
pub unsafe fn bound<const EACH: usize>(numbers: [u32; EACH], k: usize) -> u32 {
    let (least, most) = (k as u32, (k + (k / 4).max(4)) as u32);
    let of_lane = |op: fn(u32, u32) -> u32| numbers.into_iter().reduce(op).unwrap_or(0);
    // SAFETY: all lanes execute this.
    let reduced = |number, op| unsafe { warp_reduce::<u32>(u32::MAX, number, op) };
    // 32 numbers reach the smallest of the lanes' 32 maxima; with the maxima of two halves per lane, 64 reach it.
    let largest_of = |numbers: &[u32]| numbers.iter().copied().max().unwrap_or(0);
    let (first, second) = numbers.split_at(EACH / 2);
    let least_of_lane = match k {
        0..=32 => largest_of(&numbers),
        33..=64 if EACH > 1 => largest_of(first).min(largest_of(second)),
        _ => of_lane(u32::min),
    };
    let mut low = reduced(least_of_lane, WarpReductionOp::Min);
    let mut high = reduced(of_lane(u32::max), WarpReductionOp::Max) + 1;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let count = numbers.into_iter().map(|number| u32::from(number >= middle)).sum();
        let count = reduced(count, WarpReductionOp::Add);
        if count < least {
            high = middle;
            continue;
        }
        low = middle;
        if count <= most {
            break;
        }
    }
    low
}

/// Sorts the `found` keys that were gathered in a warp's buffer, after `compared` has made them comparable. Leaves the `k`
/// largest there as full keys, the largest first; 0 where there are no more.
///
/// # Safety
/// All lanes of one warp call this, with the same numbers; `k` is at most [`MOST`]. The buffer belongs to the warp, and has
/// room for the next power of two of keys and for [`MOST`] keys of 64 bits. The gathered keys are visible.
#[inline(always)]
pub unsafe fn sort_gathered<K: Key>(buffer: *mut u64, found: usize, k: usize, compared: impl Fn(K) -> K) {
    let (lane, gathered) = (lane(), buffer.cast::<K>());
    // SAFETY: all lanes read before any writes, and write before any goes on.
    unsafe {
        let key = |at: usize| if at < found { compared(*gathered.add(at)) } else { K::NONE };
        let mut largest = [K::NONE; MOST / 32];
        let mut each = MOST / 32;
        if found.max(k) <= 32 {
            [largest[0]] = sorted([key(lane)]);
            each = 1;
        } else if found <= MOST {
            largest = sorted(core::array::from_fn(|i| key(32 * i + lane)));
        } else {
            let len = found.next_power_of_two();
            for at in (lane..len).step_by(32) {
                *gathered.add(at) = key(at);
            }
            sync_warp(u32::MAX);
            sort_in_shared(gathered, len);
            largest = core::array::from_fn(|i| *gathered.add(each * lane + i));
        }
        sync_warp(u32::MAX);
        for i in 0..MOST / 32 {
            let place = each * lane + i;
            if i < each && place < k {
                *buffer.add(place) = if place < found { largest[i].whole() } else { 0 };
            }
        }
        sync_warp(u32::MAX);
    }
}
