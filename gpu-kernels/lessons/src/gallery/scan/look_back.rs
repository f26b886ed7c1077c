//! One pass over the array: a block looks back at the tiles before its own.
//@ ptx(scan_look_back): ld.relaxed.gpu >= 1, st.relaxed.gpu >= 1, .local == 0

use cuda_std::warp::{lane_id, reduce_sum, warp_vote_ballot};
use cuda_std::{grid, kernel, shared_array, thread};

use super::{TILE, WARPS, WORDS, load_tile, scan_warps, store_tile};

/// The mark of a published total of a tile.
const TOTAL: u32 = 1 << 16;
/// The mark of a published sum of everything up to the end of a tile.
const PREFIX: u32 = 2 << 16;

/// Computes `out[i]`, the sum of the elements of `inp` up to `i`, modulo 2^32.
///
/// Launched with at most one block of 256 threads along x for each 4096 elements. `sums` holds zeros before the launch.
///
/// # Safety
/// The launch is as described; `inp` and `out` hold `len` elements and begin at a multiple of 16 bytes, `sums` holds
/// `WORDS` for each 4096 of them and begins at a multiple of 16 bytes; no other code uses `out` and `sums`.
#[kernel(cooperative, max_threads = 256, args = super::Arguments, facts: super::Scan = super::Scan::LookBack(TILE))]
pub unsafe fn scan_look_back(out: *mut u32, inp: *const u32, sums: *mut u32, len: u32) {
    let (of_warps, shared) = (shared_array![u32; WARPS], shared_array![u32; 1]);
    let is_first_warp = thread::thread_idx_x() < 32;
    let tiles = len.div_ceil(TILE as u32);
    let mut tile = thread::block_idx_x();
    while tile < tiles {
        // SAFETY: all threads of the block execute this. The words of `sums` are only accessed by the functions of `grid`.
        // The tiles before this one are those of blocks that run, which publish their totals before they wait.
        unsafe {
            let (x, of_warp) = load_tile(inp, len, tile);
            let [in_block, all] = scan_warps(of_warps, of_warp);
            if is_first_warp {
                let before = if tile == 0 { 0 } else { look_back(sums, tile, all) };
                if lane_id() == 0 {
                    publish(sums, tile, PREFIX, before.wrapping_add(all));
                    *shared = before;
                }
            }
            thread::sync_threads_aligned();
            store_tile(out, len, tile, x, in_block.wrapping_add(*shared));
            // The next tile's sums replace those of this one.
            thread::sync_threads_aligned();
        }
        tile += thread::grid_dim_x();
    }
}

/// Publishes a number of a tile, its halves in a word each with the mark, so that a reader who sees only one of them can tell.
///
/// # Safety
/// `sums` has the tile's words, and only functions of `grid` access them.
#[inline(always)]
unsafe fn publish(sums: *mut u32, tile: u32, mark: u32, number: u32) {
    // SAFETY: the caller's contract.
    unsafe {
        let words = sums.cast::<[u32; WORDS]>().add(tile as usize);
        grid::store_all(words, [mark | number >> 16, mark | number & 0xffff, 0, 0]);
    }
}

/// Publishes the total of a tile, and returns the sum of all tiles before it. Each lane waits for one of 32 tiles; if none of
/// them has published the sum of everything up to its end, the 32 tiles before those are next.
///
/// # Safety
/// All lanes of the warp execute this, and `sums` has the words of the tiles up to this one, which is not the first; only
/// functions of `grid` access them.
#[inline(always)]
unsafe fn look_back(sums: *mut u32, tile: u32, total: u32) -> u32 {
    let lane = lane_id();
    // SAFETY: the caller's contract; the lane's tile exists.
    unsafe {
        if lane == 0 {
            publish(sums, tile, TOTAL, total);
        }
        let (mut before, mut end) = (0u32, tile);
        loop {
            // The lanes that have no tile say that everything up to it is zero.
            let mut words = [PREFIX, PREFIX, 0, 0];
            if lane < end {
                let of_tile = sums.cast::<[u32; WORDS]>().add((end - 1 - lane) as usize);
                words = grid::wait_until_all(of_tile, |[high, low, ..]| {
                    high >> 16 != 0 && high >> 16 == low >> 16
                });
            }
            let number = words[0] << 16 | words[1] & 0xffff;
            let complete = warp_vote_ballot(u32::MAX, words[0] & PREFIX != 0);
            // The nearest tile with everything, or all of them.
            let last = if complete == 0 { 31 } else { complete.trailing_zeros() };
            before = before.wrapping_add(reduce_sum(if lane <= last { number } else { 0 }));
            if complete != 0 {
                return before;
            }
            end -= 32;
        }
    }
}
