//! Occupancy: how many warps a multiprocessor has to choose from, and how many loads each of them has in flight.
//!
//! While a warp waits for memory, others run. A copy is as fast as the bytes in flight allow: warps times lanes times the
//! loads that each thread has in flight. The grid is as large as the device holds at once and strides over the array, so
//! blocks start once. The dynamic shared memory of the launch, which the kernel does not use, sets how many blocks fit.
//!
//! * `one`, `four`, `sixteen`: a thread loads 1, 4 or 16 elements before it stores the first.
//! * `partial`: like `one`, in blocks of 33 threads, which take the room of two warps.
//!
//! Requires: any block size, any dynamic shared memory.
//@ ptx(occupancy_1): ld.global.b32 == 1, st.global.b32 == 1, .local == 0
//@ ptx(occupancy_4): ld.global.b32 == 4, st.global.b32 == 4, .local == 0
//@ allow-local(occupancy_16, compute_75): it spills a little on this architecture, where the lesson was not measured
//@ ptx(occupancy_16): ld.global.b32 == 16, st.global.b32 == 16, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::Rung;
use cuda_std::{hint, kernel, thread};

/// The rungs.
#[cfg(not(target_arch = "nvptx64"))]
pub const RUNGS: &[Rung<Arguments, Elements>] = &[
    Rung { name: "one", idea: "one load in flight per thread", kernel: &occupancy_copy::INSTANCES[0] },
    Rung { name: "four", idea: "four loads in flight per thread", kernel: &occupancy_copy::INSTANCES[1] },
    Rung { name: "sixteen", idea: "16 loads in flight per thread", kernel: &occupancy_copy::INSTANCES[2] },
    Rung {
        name: "partial",
        idea: "as `one`, in blocks of 33 threads",
        kernel: &occupancy_copy::INSTANCES[0],
    },
];

/// The arguments of the kernels.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// The copy, `len` elements.
    pub out: cuda_std::launch::RawBuffer<u32>,
    /// The elements to copy, `len` of them.
    pub inp: cuda_std::launch::RawBuffer<u32>,
    /// The number of elements.
    pub len: u32,
}

/// Elements that a thread loads before it stores the first.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Elements(pub usize);

/// Computes `out[i] = inp[i]`. A thread copies `EACH` elements at a time, a whole grid apart.
///
/// Launched with any number of threads along x, in blocks of any size.
///
/// # Safety
/// The launch is along x; both hold `len` elements, and no other code uses the elements of `out`.
#[kernel(
    max_threads = 1024,
    args = Arguments,
    facts: Elements = Elements(EACH),
    instances(
        occupancy_1 = <1>;
        occupancy_4 = <4>;
        occupancy_16 = <16>;
    ),
)]
pub unsafe fn occupancy_copy<const EACH: usize>(out: *mut u32, inp: *const u32, len: u32) {
    let len = len as usize;
    let threads = thread::grid_dim_x() as usize * thread::block_dim_x() as usize;
    let mut first = thread::index_1d() as usize;
    while first < len {
        let element = |k: usize| first + k * threads;
        // SAFETY: every access lies in the arrays, and only this thread writes the elements.
        unsafe {
            let x_reg: [_; EACH] =
                core::array::from_fn(|k| if element(k) < len { *inp.add(element(k)) } else { 0 });
            for k in 0..EACH {
                if element(k) < len {
                    *out.add(element(k)) = x_reg[k];
                }
            }
        }
        // Not unrolled: more loads in flight belong to another rung.
        first = hint::opaque(first + EACH * threads);
    }
}
