//! Which threads of a block form a warp.
//!
//! The threads of a block are numbered with x fastest, then y, then z. Every 32 of them form a warp, for any shape of the
//! block. If the number of threads is not a multiple of 32, the last warp has idle lanes. Each thread writes the coordinates
//! of all lanes of its warp:
//!
//! * `shuffle` reads them from the lanes: `shfl.sync.idx` reads a register of another lane.
//! * `formula` computes them from the thread's number.
//!
//! Requires: whole warps.
//@ ptx(warps_shuffle): shfl.sync.idx >= 1, bar.sync == 0, .local == 0
//@ ptx(warps_formula): shfl == 0, .local == 0

use cuda_std::warp::warp_shuffle_idx;
use cuda_std::{kernel, thread};

lesson! {
    buffers(out: u32)
    values()
    facts(())
    "shuffle" = warps_shuffle[0]: "the lanes are asked";
    "formula" = warps_formula[0]: "from the thread's number";
}

/// Lanes of a warp.
const LANES: usize = 32;

/// Returns the thread's number in the launch, x first.
#[inline(always)]
fn number() -> usize {
    let (dim, thread) = (thread::block_dim(), thread::thread_idx());
    let of_block = (thread.z * dim.y + thread.y) * dim.x + thread.x;
    thread::block_idx_x() as usize * (dim.x * dim.y * dim.z) as usize + of_block as usize
}

/// Sets `out[b][z][y][x][lane]` to the coordinates of lane `lane` in the warp of thread `(x, y, z)`.
///
/// Launched with blocks along x, of whole warps in any shape.
///
/// # Safety
/// The launch is as described; `out` holds 96 elements for each thread that no other code uses.
#[kernel(args = Arguments)]
pub unsafe fn warps_shuffle(out: *mut u32) {
    let own = thread::thread_idx();
    // No coordinate is above 1023.
    let own = own.x | own.y << 10 | own.z << 20;
    for lane in 0..LANES {
        // SAFETY: all lanes of the warp execute this, and each writes its own elements.
        unsafe {
            let (of_lane, _) = warp_shuffle_idx(u32::MAX, own, lane as u32, 32);
            let at = out.add((number() * LANES + lane) * 3);
            *at = of_lane & 1023;
            *at.add(1) = of_lane >> 10 & 1023;
            *at.add(2) = of_lane >> 20;
        }
    }
}

/// Like [`warps_shuffle`](fn@warps_shuffle), computed from the thread's number.
///
/// # Safety
/// Same as for [`warps_shuffle`](fn@warps_shuffle).
#[kernel(args = Arguments)]
pub unsafe fn warps_formula(out: *mut u32) {
    let (dim, own) = (thread::block_dim(), thread::thread_idx());
    let of_block = (own.z * dim.y + own.y) * dim.x + own.x;
    for lane in 0..LANES {
        let n = of_block / 32 * 32 + lane as u32;
        // SAFETY: each thread writes its own elements.
        unsafe {
            let at = out.add((number() * LANES + lane) * 3);
            *at = n % dim.x;
            *at.add(1) = n / dim.x % dim.y;
            *at.add(2) = n / (dim.x * dim.y);
        }
    }
}
