//! What the kernels that select have in common.

use cuda_std::mem::f32x2;
use cuda_std::warp::{WarpReductionOp, sync_warp, warp_reduce};

use super::key::Key;
use super::sort::sorted;
use crate::softmax::chunk::lane;

/// The most keys that are selected.
pub const MOST: usize = 128;

/// What a kernel does with the largest elements of each row.
pub trait Selection<T>: Copy {
    /// The matrix, and the elements from a row to the next.
    fn logits(&self) -> (*const T, u64);
    /// Rows and columns.
    fn shape(&self) -> [u32; 2];
    /// How many are selected, from 1 to [`MOST`].
    fn k(&self) -> usize;
    /// Factor of the logits.
    fn scale(&self) -> f32;
    /// Writes the results of a row with this (max, sum), of which the keys of the `k` largest elements are sorted; 0 where there are no
    /// more.
    ///
    /// # Safety
    /// The 32 lanes of one warp come here, once for each row; the keys are visible to all of them.
    unsafe fn finish(&self, row: usize, sorted: *const u64, pair: f32x2);
}

/// A number that at least `k` of a warp's numbers, `EACH` a lane, reach, and not many more: a fourth, unless more are equal.
///
/// # Safety
/// All lanes of the warp come here, with the same `k`, which is no more than there are numbers.
#[inline(always)]
pub unsafe fn bound<const EACH: usize>(numbers: [u32; EACH], k: usize) -> u32 {
    let (least, most) = (k as u32, (k + (k / 4).max(4)) as u32);
    let of_lane = |op: fn(u32, u32) -> u32| numbers.into_iter().reduce(op).unwrap_or(0);
    // SAFETY: the caller brings all lanes.
    let reduced = |number, op| unsafe { warp_reduce::<u32>(u32::MAX, number, op) };
    let mut low = reduced(of_lane(u32::min), WarpReductionOp::Min);
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

/// Sorts the `found` keys that were gathered in a warp's buffer, after `compared` has made them comparable, and leaves the `k` largest
/// there, whole, the largest first; 0 where there are no more.
///
/// # Safety
/// All lanes of the warp come here, with the same numbers; `k` is at most [`MOST`]. The buffer has room for `found` keys and for `k`
/// of 64 bits, and is the warp's own; what was gathered is visible.
#[inline(always)]
pub unsafe fn sort_gathered<K: Key, const ROOM: usize>(
    buffer: *mut u64,
    found: usize,
    k: usize,
    compared: impl Fn(K) -> K,
) {
    let needed = found.max(k);
    // SAFETY: the caller's.
    unsafe {
        match needed {
            0..=32 => sort_each::<K, 1>(buffer, found, k, compared),
            33..=64 => sort_each::<K, 2>(buffer, found, k, compared),
            65..=128 => sort_each::<K, 4>(buffer, found, k, compared),
            129..=256 => sort_each::<K, 8>(buffer, found, k, compared),
            _ if ROOM > 256 => sort_each::<K, 16>(buffer, found, k, compared),
            _ => {}
        }
    }
}

/// As [`sort_gathered`], with `EACH` keys a lane.
///
/// # Safety
/// As there; there are no more keys than that, and `k` is no more.
#[inline(always)]
unsafe fn sort_each<K: Key, const EACH: usize>(
    buffer: *mut u64,
    found: usize,
    k: usize,
    compared: impl Fn(K) -> K,
) {
    let (lane, gathered) = (lane(), buffer.cast::<K>());
    // SAFETY: the caller's buffer; all lanes have read before any writes, and written before any goes on.
    unsafe {
        let keys: [K; EACH] = core::array::from_fn(|i| {
            let at = 32 * i + lane;
            if at < found { compared(*gathered.add(at)) } else { K::NONE }
        });
        sync_warp(u32::MAX);
        let keys = sorted(keys);
        for i in 0..EACH {
            let place = EACH * lane + i;
            if place < k {
                *buffer.add(place) = if place < found { keys[i].whole() } else { 0 };
            }
        }
        sync_warp(u32::MAX);
    }
}
