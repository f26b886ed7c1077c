//! How a warp sorts keys, in its registers or in shared memory: Batcher's bitonic network ("Sorting networks and their
//! applications", 1968).

use cuda_std::warp::{sync_warp, warp_shuffle_xor};

use super::key::Key;
use crate::chunk::lane;

/// Sorts the keys of a warp, `EACH` per lane and at most 4, the largest first: a lane's key `i` has place `EACH * lane + i`.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
pub unsafe fn sorted<K: Key, const EACH: usize>(mut keys: [K; EACH]) -> [K; EACH] {
    const { assert!(EACH <= 4) };
    // SAFETY: all lanes execute this.
    unsafe {
        merge::<K, EACH, 2>(&mut keys);
        merge::<K, EACH, 4>(&mut keys);
        merge::<K, EACH, 8>(&mut keys);
        merge::<K, EACH, 16>(&mut keys);
        merge::<K, EACH, 32>(&mut keys);
        merge::<K, EACH, 64>(&mut keys);
        merge::<K, EACH, 128>(&mut keys);
    }
    keys
}

/// Sorts `len` keys in shared memory, a power of two, largest first: more than [`sorted`] takes, at three times the cost.
///
/// # Safety
/// All lanes of one warp call this, and no other thread uses the keys, which are visible to all lanes.
#[inline(always)]
pub unsafe fn sort_in_shared<K: Key>(keys: *mut K, len: usize) {
    let (mut size, lane) = (2, lane());
    while size <= len {
        let mut distance = size / 2;
        while distance > 0 {
            for i in (lane..len / 2).step_by(32) {
                // The place of the pair's first key: a 0 bit where the distance has its bit.
                let low = i & (distance - 1);
                let place = 2 * (i - low) + low;
                // SAFETY: two of the keys, which no other lane uses in this step.
                unsafe {
                    let (a, b) = (*keys.add(place), *keys.add(place + distance));
                    if (b > a) == (place & size == 0) {
                        *keys.add(place) = b;
                        *keys.add(place + distance) = a;
                    }
                }
            }
            // SAFETY: all lanes execute this.
            unsafe { sync_warp(u32::MAX) };
            distance /= 2;
        }
        size *= 2;
    }
}

/// Sorts each `SIZE` neighbouring keys, whose halves are sorted; every other group ascending, as the next merge needs it.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
unsafe fn merge<K: Key, const EACH: usize, const SIZE: usize>(keys: &mut [K; EACH]) {
    // SAFETY: all lanes execute this.
    unsafe {
        exchange::<K, EACH, SIZE, 64>(keys);
        exchange::<K, EACH, SIZE, 32>(keys);
        exchange::<K, EACH, SIZE, 16>(keys);
        exchange::<K, EACH, SIZE, 8>(keys);
        exchange::<K, EACH, SIZE, 4>(keys);
        exchange::<K, EACH, SIZE, 2>(keys);
        exchange::<K, EACH, SIZE, 1>(keys);
    }
}

/// Orders each pair of keys whose places are `DISTANCE` apart, if that is a step of the merge.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
unsafe fn exchange<K: Key, const EACH: usize, const SIZE: usize, const DISTANCE: usize>(
    keys: &mut [K; EACH],
) {
    if SIZE > 32 * EACH || DISTANCE >= SIZE {
        return;
    }
    let lane = lane();
    for i in 0..EACH {
        let descends = (EACH * lane + i) & SIZE == 0;
        if DISTANCE >= EACH {
            let lanes = DISTANCE / EACH;
            // SAFETY: all lanes execute this.
            let (other, _) = unsafe { warp_shuffle_xor(u32::MAX, keys[i], lanes as u32, 32) };
            let wants_larger = (lane & lanes == 0) == descends;
            keys[i] = if (other > keys[i]) == wants_larger { other } else { keys[i] };
        } else if i & DISTANCE == 0 {
            let (a, b) = (keys[i], keys[i | DISTANCE]);
            (keys[i], keys[i | DISTANCE]) = if (b > a) == descends { (b, a) } else { (a, b) };
        }
    }
}
