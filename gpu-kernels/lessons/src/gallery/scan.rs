//! The cumulative sums of an array: each element becomes the sum of all elements up to it.
//!
//! A block computes the sums within its elements. Between blocks there are two ways:
//!
//! * Each block also writes its total. The totals are scanned in turn, and [`scan_add`](fn@scan_add) adds the sums of the
//!   blocks before: three launches or more, and two passes over the array. The first four rungs do so. They differ in how a
//!   block scans: `hillis_steele` adds all pairs at a distance of 1, 2, 4 .. in shared memory; `work_efficient` goes up a tree
//!   and down again (Blelloch 1990), with a fourth of the additions; `shuffle` scans the registers of each warp; `vec4` gives
//!   each thread 16 elements, so that fewer of them pass between threads.
//! * `look_back`: one pass. A block publishes the total of its tile, and looks back over those of the tiles before it until
//!   one of them has published the sum of everything up to its end (Merrill and Garland 2016). `gpu-kernels/axis/src/scan.rs`
//!   is a faster one, which also keeps the order of the additions, for floats.
//!
//! Requires: blocks of 256 threads.
//@ ptx(scan_hillis_steele): bar.sync == 1, shfl == 0, .local == 0
//@ ptx(scan_work_efficient): bar.sync == 4, shfl == 0, .local == 0
//@ ptx(scan_shuffle): bar.sync == 1, shfl.sync.up == 8, .local == 0
//@ ptx(scan_vec4): bar.sync == 1, shfl.sync.up == 23, ld.global.v4 == 4, st.global.v4 == 4, .local == 0

mod look_back;

pub use look_back::scan_look_back;

use cuda_std::hint::opaque;
use cuda_std::mem::{load_global, store_global, u32x4};
use cuda_std::warp::{lane_id, warp_shuffle_idx, warp_shuffle_up};
use cuda_std::{kernel, shared_array, thread};

lesson! {
    buffers(out: u32, inp: u32, sums: u32)
    values(len: u32)
    facts(Scan)
    "hillis_steele" = scan_hillis_steele[0]: "pairs at a distance of 1, 2, 4 .. in shared memory";
    "work_efficient" = scan_work_efficient[0]: "up a tree and down again";
    "shuffle" = scan_shuffle[0]: "each warp by shuffles, then the sums of the warps";
    "vec4" = scan_vec4[0]: "16 elements per thread";
    "look_back" = scan_look_back[0]: "one pass; a block looks back at the tiles before its own";
}

/// How a rung combines its blocks.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub enum Scan {
    /// The kernel on the array, then on the totals of its blocks, of this many elements each, and so on;
    /// [`scan_add`](fn@scan_add) adds what comes before.
    Passes(usize),
    /// [`scan_clear`](fn@scan_clear), and one launch with at most the blocks that fit on the device. Tiles have this many
    /// elements.
    LookBack(usize),
}

/// Threads of a block.
const BLOCK: usize = 256;
const WARPS: usize = BLOCK / 32;
/// Vectors of a thread in `vec4` and `look_back`.
const VECTORS: usize = 4;
/// Elements of a block there.
const TILE: usize = BLOCK * VECTORS * 4;
/// Words that a tile publishes, for one store of 16 bytes.
pub const WORDS: usize = 4;

/// `out[i] += sums[i / of_block - 1]`, except in the first block.
///
/// Launched with at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; `out` holds `len` elements, which no other code uses, and `sums` one for each `of_block` of
/// them.
#[kernel(max_threads = 256)]
pub unsafe fn scan_add(out: *mut u32, sums: *const u32, len: u32, of_block: u32) {
    let i = thread::index_1d();
    if i < len && i >= of_block {
        // SAFETY: checked just before.
        unsafe {
            *out.add(i as usize) = (*out.add(i as usize)).wrapping_add(*sums.add((i / of_block - 1) as usize))
        };
    }
}

/// `sums[i] = 0`.
///
/// Launched with at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; `sums` holds `len` elements, which no other code uses.
#[kernel(max_threads = 256)]
pub unsafe fn scan_clear(sums: *mut u32, len: u32) {
    let i = thread::index_1d();
    if i < len {
        // SAFETY: checked just before.
        unsafe { *sums.add(i as usize) = 0 };
    }
}

/// The thread's element, or 0 past the end.
///
/// # Safety
/// `inp` holds `len` elements.
#[inline(always)]
unsafe fn element(inp: *const u32, len: u32) -> u32 {
    let i = thread::index_1d();
    // SAFETY: checked just before.
    if i < len { unsafe { *inp.add(i as usize) } } else { 0 }
}

/// Writes the thread's cumulative sum, if its element exists; the last thread of a block also writes the block's total.
///
/// # Safety
/// `out` holds `len` elements and `sums` one for each block; no other thread writes the same.
#[inline(always)]
unsafe fn store(out: *mut u32, sums: *mut u32, len: u32, sum: u32) {
    let i = thread::index_1d();
    // SAFETY: checked just before; the block has a total.
    unsafe {
        if i < len {
            *out.add(i as usize) = sum;
        }
        if thread::thread_idx_x() as usize == BLOCK - 1 {
            *sums.add(thread::block_idx_x() as usize) = sum;
        }
    }
}

/// Computes `out[i]`, the sum of the elements of `inp` from the first one of its block up to `i`, modulo 2^32, and
/// `sums[b]`, the sum of block `b`. A block has 256 elements.
///
/// Launched with at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; `inp` and `out` hold `len` elements and `sums` one for each block; no other code uses `out` and
/// `sums`.
#[kernel(max_threads = 256, args = Arguments, facts: Scan = Scan::Passes(256))]
pub unsafe fn scan_hillis_steele(out: *mut u32, inp: *const u32, sums: *mut u32, len: u32) {
    // Two copies in turn, so that one barrier per round is enough.
    let x_shared = shared_array![u32; 2 * BLOCK];
    let tid = thread::thread_idx_x() as usize;
    // SAFETY: indices are below 256. A round reads what the one before has written before the barrier.
    unsafe {
        let mut x = element(inp, len);
        let (mut distance, mut copy) = (opaque(1), 0);
        while distance < BLOCK {
            *x_shared.add(copy + tid) = x;
            thread::sync_threads_aligned();
            if tid >= distance {
                x = x.wrapping_add(*x_shared.add(copy + tid - distance));
            }
            (distance, copy) = (opaque(2 * distance), BLOCK - copy);
        }
        store(out, sums, len, x);
    }
}

/// Like [`scan_hillis_steele`](fn@scan_hillis_steele), by a tree: up, and down again.
///
/// # Safety
/// Same as for [`scan_hillis_steele`](fn@scan_hillis_steele).
#[kernel(max_threads = 256, args = Arguments, facts: Scan = Scan::Passes(256))]
pub unsafe fn scan_work_efficient(out: *mut u32, inp: *const u32, sums: *mut u32, len: u32) {
    let x_shared = shared_array![u32; BLOCK];
    let tid = thread::thread_idx_x() as usize;
    // SAFETY: indices are below 256. In a round one thread uses an element, and a barrier lies between rounds.
    unsafe {
        let x = element(inp, len);
        *x_shared.add(tid) = x;
        // Up: the last element of each pair of neighbouring ranges becomes the sum of both.
        let mut distance = opaque(1);
        while distance < BLOCK {
            thread::sync_threads_aligned();
            let last = 2 * distance * (tid + 1) - 1;
            if last < BLOCK {
                *x_shared.add(last) = (*x_shared.add(last)).wrapping_add(*x_shared.add(last - distance));
            }
            distance = opaque(2 * distance);
        }
        thread::sync_threads_aligned();
        if tid == BLOCK - 1 {
            *x_shared.add(tid) = 0;
        }
        // Down: the last element of a range becomes the sum of everything before the range.
        let mut distance = opaque(BLOCK / 2);
        while distance > 0 {
            thread::sync_threads_aligned();
            let last = 2 * distance * (tid + 1) - 1;
            if last < BLOCK {
                let (left, before) = (*x_shared.add(last - distance), *x_shared.add(last));
                *x_shared.add(last - distance) = before;
                *x_shared.add(last) = left.wrapping_add(before);
            }
            distance = opaque(distance / 2);
        }
        thread::sync_threads_aligned();
        store(out, sums, len, x.wrapping_add(*x_shared.add(tid)));
    }
}

/// Returns the sum of the lanes up to this one, in segments of `WIDTH` lanes.
///
/// # Safety
/// All lanes of the warp execute this.
#[inline(always)]
unsafe fn scan_warp<const WIDTH: u32>(mut x: u32) -> u32 {
    for round in 0..WIDTH.trailing_zeros() {
        // SAFETY: the caller promises that all lanes execute this.
        let (below, is_inside) = unsafe { warp_shuffle_up(u32::MAX, x, 1 << round, WIDTH) };
        x = x.wrapping_add(if is_inside { below } else { 0 });
    }
    x
}

/// Returns the sum of the warps before this one, and of all warps. `of_warp` is the sum of the calling warp, in its last lane.
///
/// # Safety
/// All threads of the block execute this, once for each `shared`, which is the block's and has 8 elements.
#[inline(always)]
unsafe fn scan_warps(shared: *mut u32, of_warp: u32) -> [u32; 2] {
    let warp = thread::thread_idx_x() as usize / 32;
    // SAFETY: each warp writes its own element before the barrier. All threads execute this.
    unsafe {
        if lane_id() == 31 {
            *shared.add(warp) = of_warp;
        }
        thread::sync_threads_aligned();
        let own = *shared.add(lane_id() as usize % WARPS);
        let sums = scan_warp::<{ WARPS as u32 }>(own);
        let (up_to, _) = warp_shuffle_idx(u32::MAX, sums, warp as u32, WARPS as u32);
        let (all, _) = warp_shuffle_idx(u32::MAX, sums, WARPS as u32 - 1, WARPS as u32);
        [up_to.wrapping_sub(*shared.add(warp)), all]
    }
}

/// Like [`scan_hillis_steele`](fn@scan_hillis_steele), by shuffles within the warps.
///
/// # Safety
/// Same as for [`scan_hillis_steele`](fn@scan_hillis_steele).
#[kernel(max_threads = 256, args = Arguments, facts: Scan = Scan::Passes(256))]
pub unsafe fn scan_shuffle(out: *mut u32, inp: *const u32, sums: *mut u32, len: u32) {
    let shared = shared_array![u32; WARPS];
    // SAFETY: all threads of the block execute this.
    unsafe {
        let x = scan_warp::<32>(element(inp, len));
        let [before, _] = scan_warps(shared, x);
        store(out, sums, len, x.wrapping_add(before));
    }
}

/// The elements of a thread: four vectors, 128 elements apart, so that the loads of a warp are coalesced.
type Held = [[u32; 4]; VECTORS];

/// The first element of the thread's vectors in a tile.
#[inline(always)]
fn first(tile: u32) -> usize {
    let tid = thread::thread_idx_x() as usize;
    tile as usize * TILE + tid / 32 * (TILE / WARPS) + tid % 32 * 4
}

/// Loads a tile and scans it within each warp. Returns the sums, and in the last lane the sum of the warp.
///
/// # Safety
/// All lanes of the warp execute this. `inp` holds `len` elements and begins at a multiple of 16 bytes.
#[inline(always)]
unsafe fn load_tile(inp: *const u32, len: u32, tile: u32) -> (Held, u32) {
    let (first, len) = (first(tile), len as usize);
    let mut x_reg: Held = core::array::from_fn(|v| {
        let i = first + 128 * v;
        // SAFETY: checked just before.
        unsafe {
            if i + 4 <= len {
                load_global(inp.add(i).cast::<u32x4>()).to_array()
            } else {
                core::array::from_fn(|j| if i + j < len { *inp.add(i + j) } else { 0 })
            }
        }
    });
    let mut before = 0u32;
    for x in &mut x_reg {
        for j in 1..4 {
            x[j] = x[j].wrapping_add(x[j - 1]);
        }
        // SAFETY: all lanes execute this.
        unsafe {
            let up_to = scan_warp::<32>(x[3]);
            let own = before.wrapping_add(up_to).wrapping_sub(x[3]);
            for x in x {
                *x = x.wrapping_add(own);
            }
            before = before.wrapping_add(warp_shuffle_idx(u32::MAX, up_to, 31, 32).0);
        }
    }
    (x_reg, before)
}

/// Adds `before` to the sums of a tile, and writes them.
///
/// # Safety
/// `out` holds `len` elements and begins at a multiple of 16 bytes; no other thread writes the thread's.
#[inline(always)]
unsafe fn store_tile(out: *mut u32, len: u32, tile: u32, x: Held, before: u32) {
    let (first, len) = (first(tile), len as usize);
    for v in 0..VECTORS {
        let (i, sums) = (first + 128 * v, x[v].map(|x| x.wrapping_add(before)));
        // SAFETY: checked just before.
        unsafe {
            if i + 4 <= len {
                store_global(out.add(i).cast(), u32x4::from(sums));
            } else {
                for j in 0..4 {
                    if i + j < len {
                        *out.add(i + j) = sums[j];
                    }
                }
            }
        }
    }
}

/// Like [`scan_hillis_steele`](fn@scan_hillis_steele), with 16 elements per thread: a block has 4096.
///
/// Launched with a block of 256 threads along x for each 4096 elements.
///
/// # Safety
/// Same as for [`scan_hillis_steele`](fn@scan_hillis_steele); `inp` and `out` begin at a multiple of 16 bytes.
#[kernel(max_threads = 256, args = Arguments, facts: Scan = Scan::Passes(TILE))]
pub unsafe fn scan_vec4(out: *mut u32, inp: *const u32, sums: *mut u32, len: u32) {
    let (shared, tile) = (shared_array![u32; WARPS], thread::block_idx_x());
    // SAFETY: all threads of the block execute this, and each writes its own elements.
    unsafe {
        let (x, of_warp) = load_tile(inp, len, tile);
        let [before, all] = scan_warps(shared, of_warp);
        store_tile(out, len, tile, x, before);
        if thread::thread_idx_x() == 0 {
            *sums.add(tile as usize) = all;
        }
    }
}
