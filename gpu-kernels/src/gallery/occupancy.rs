//! Block size and occupancy: how many warps a multiprocessor has to choose from.
//!
//! While a warp waits for memory others run, if there are others. From compute capability 9.0 a multiprocessor has room for 64
//! warps, in at most 32 blocks: blocks of 32 threads fill half of it at best, those of 768 leave a quarter free, for three
//! would be 72 warps; and a block of 48 has two warps, one of them half empty.
//!
//! * `one`: a thread copies one element, and waits for it. What is in flight depends on the warps there are.
//! * `eight`: a thread copies eight, and waits for them together: few warps have as much in flight.
//!
//! Requires: any block size.
//@ ptx(occupancy_one): ld.global.b32 == 1, st.global.b32 == 1, .local == 0
//@ ptx(occupancy_eight): ld.global.b32 == 8, st.global.b32 == 8, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::Rung;
use cuda_std::{kernel, thread};

/// The rungs.
#[cfg(not(target_arch = "nvptx64"))]
pub const RUNGS: &[Rung<Arguments, Elements>] = &[
    Rung { name: "one", idea: "a thread copies one element", kernel: &occupancy_one::INSTANCES[0] },
    Rung { name: "eight", idea: "a thread copies eight elements", kernel: &occupancy_eight::INSTANCES[0] },
];

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) const KERNELS: &[&cuda_std::launch::KernelMeta] = &[occupancy_one::META, occupancy_eight::META];

/// What the kernels take.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// The copy, `len` elements.
    pub out: cuda_std::launch::RawBuffer<u32>,
    /// What is copied, as many.
    pub inp: cuda_std::launch::RawBuffer<u32>,
    /// How many.
    pub len: u32,
}

/// Elements of a thread.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Elements(pub usize);

/// `out[i] = inp[i]`, a thread each.
///
/// Launched on at least `len` threads along x, in blocks of any size.
///
/// # Safety
/// The launch is as said; both hold `len` elements, and nobody else uses those of `out`.
#[kernel(max_threads = 1024, args = Arguments, facts: Elements = Elements(1))]
pub unsafe fn occupancy_one(out: *mut u32, inp: *const u32, len: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        // SAFETY: `i` lies in both, and this thread alone writes the element.
        unsafe { *out.add(i) = *inp.add(i) };
    }
}

/// `out[i] = inp[i]`, eight elements a thread, which lie a block apart.
///
/// Launched on at least `len / 8`, rounded up, threads along x, in blocks of any size.
///
/// # Safety
/// As of [`occupancy_one`](fn@occupancy_one).
#[kernel(max_threads = 1024, args = Arguments, facts: Elements = Elements(8))]
pub unsafe fn occupancy_eight(out: *mut u32, inp: *const u32, len: u32) {
    const EACH: usize = 8;
    let block = thread::block_dim_x() as usize;
    let first = thread::block_idx_x() as usize * block * EACH + thread::thread_idx_x() as usize;
    let element = |k: usize| first + k * block;
    // SAFETY: what is loaded and stored lies in the arrays, and this thread alone writes the elements.
    unsafe {
        let x_reg: [_; EACH] =
            core::array::from_fn(|k| if element(k) < len as usize { *inp.add(element(k)) } else { 0 });
        for k in 0..EACH {
            if element(k) < len as usize {
                *out.add(element(k)) = x_reg[k];
            }
        }
    }
}
