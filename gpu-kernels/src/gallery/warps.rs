//! Which threads of a block are a warp.
//!
//! The threads of a block are numbered with x fastest, then y, then z; every 32 of them are a warp, whatever the shape of the
//! block. A block whose threads are no multiple of 32 ends with a warp some of whose lanes are idle. Each thread writes the
//! coordinates of all lanes of its warp:
//!
//! * `shuffle` asks the lanes: `shfl.sync.idx` reads a register of another lane.
//! * `formula` computes them from the thread's number.
//!
//! Requires: whole warps.
//@ ptx(warps_shuffle): shfl.sync.idx >= 1, bar.sync == 0, .local == 0
//@ ptx(warps_formula): shfl == 0, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::Rung;
use cuda_std::warp::warp_shuffle_idx;
use cuda_std::{kernel, thread};

/// The rungs.
#[cfg(not(target_arch = "nvptx64"))]
pub const RUNGS: &[Rung<Arguments, ()>] = &[
    Rung { name: "shuffle", idea: "the lanes are asked", kernel: &warps_shuffle::INSTANCES[0] },
    Rung { name: "formula", idea: "from the thread's number", kernel: &warps_formula::INSTANCES[0] },
];

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) const KERNELS: &[&cuda_std::launch::KernelMeta] = &[warps_shuffle::META, warps_formula::META];

/// What the kernels take.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// The coordinates, `[blocks, z, y, x, 32, 3]`: of each thread those of the 32 lanes, x first.
    pub out: cuda_std::launch::RawBuffer<u32>,
}

/// Lanes of a warp.
const LANES: usize = 32;

/// The thread's number in the launch, x first.
#[inline(always)]
fn number() -> usize {
    let (dim, thread) = (thread::block_dim(), thread::thread_idx());
    let of_block = (thread.z * dim.y + thread.y) * dim.x + thread.x;
    thread::block_idx_x() as usize * (dim.x * dim.y * dim.z) as usize + of_block as usize
}

/// `out[b][z][y][x][lane]` becomes the coordinates of lane `lane` in the warp of thread `(x, y, z)`.
///
/// Launched on blocks along x, of whole warps in any shape.
///
/// # Safety
/// The launch is as described; `out` holds 96 elements for each thread that no other code uses.
#[kernel(args = Arguments)]
pub unsafe fn warps_shuffle(out: *mut u32) {
    let own = thread::thread_idx();
    // No coordinate is above 1023.
    let own = own.x | own.y << 10 | own.z << 20;
    for lane in 0..LANES {
        // SAFETY: all lanes of the warp come here, and each writes elements of its own.
        unsafe {
            let (of_lane, _) = warp_shuffle_idx(u32::MAX, own, lane as u32, 32);
            let at = out.add((number() * LANES + lane) * 3);
            *at = of_lane & 1023;
            *at.add(1) = of_lane >> 10 & 1023;
            *at.add(2) = of_lane >> 20;
        }
    }
}

/// As [`warps_shuffle`](fn@warps_shuffle), from the thread's number.
///
/// Launched on blocks along x, of whole warps in any shape.
///
/// # Safety
/// Same as for [`warps_shuffle`](fn@warps_shuffle).
#[kernel(args = Arguments)]
pub unsafe fn warps_formula(out: *mut u32) {
    let (dim, own) = (thread::block_dim(), thread::thread_idx());
    let of_block = (own.z * dim.y + own.y) * dim.x + own.x;
    for lane in 0..LANES {
        let n = of_block / 32 * 32 + lane as u32;
        // SAFETY: each thread writes elements of its own.
        unsafe {
            let at = out.add((number() * LANES + lane) * 3);
            *at = n % dim.x;
            *at.add(1) = n / dim.x % dim.y;
            *at.add(2) = n / (dim.x * dim.y);
        }
    }
}
