//! Copies whose first element lies off a boundary, and copies of every so-many-th element.
//!
//! Memory moves in sectors of 32 bytes. A warp whose 128 bytes begin at a boundary of 32 touches four sectors, off it five;
//! one that takes every second element touches eight for the same 128 bytes.
//@ ptx(copy_offset_scalar): ld.global.b32 == 1, st.global.b32 == 1, .local == 0
//@ ptx(copy_stride_scalar): ld.global.b32 == 1, st.global.b32 == 1, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::{Grid, Rung};
use cuda_std::{kernel, thread};

/// The rungs.
#[cfg(not(target_arch = "nvptx64"))]
pub const RUNGS: &[Rung<Arguments>] = &[
    Rung {
        name: "offset",
        idea: "the first element lies so far from a boundary",
        kernel: &copy_offset_scalar::INSTANCES[0],
    },
    Rung {
        name: "stride",
        idea: "every so-many-th element is copied",
        kernel: &copy_stride_scalar::INSTANCES[0],
    },
];

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) const KERNELS: &[&cuda_std::launch::KernelMeta] =
    &[copy_offset_scalar::META, copy_stride_scalar::META];

/// What the kernels take.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// The copy.
    pub out: cuda_std::launch::RawBuffer<u32>,
    /// What is copied.
    pub inp: cuda_std::launch::RawBuffer<u32>,
    /// Elements that are copied.
    pub len: u32,
    /// Elements before the first, or from one to the next.
    pub distance: u32,
}

/// `out[i + distance] = inp[i + distance]` for `i` below `len`, a thread each.
///
/// Launched on at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as said; both hold `len + distance` elements, and nobody else uses those of `out`.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn copy_offset_scalar(out: *mut u32, inp: *const u32, len: u32, distance: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        let at = i + distance as usize;
        // SAFETY: `at` lies in both, and this thread alone writes the element.
        unsafe { *out.add(at) = *inp.add(at) };
    }
}

/// `out[i * distance] = inp[i * distance]` for `i` below `len`, a thread each.
///
/// Launched on at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as said; both hold `(len - 1) * distance + 1` elements, and nobody else uses those of `out`.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn copy_stride_scalar(out: *mut u32, inp: *const u32, len: u32, distance: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        let at = i * distance as usize;
        // SAFETY: `at` lies in both, and this thread alone writes the element.
        unsafe { *out.add(at) = *inp.add(at) };
    }
}
