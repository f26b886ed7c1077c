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

use cuda_std::{hint, kernel, thread};

lesson! {
    buffers(out: u32, inp: u32)
    values(len: u32)
    facts(Elements)
    "one" = occupancy_copy[0]: "one load in flight per thread";
    "four" = occupancy_copy[1]: "four loads in flight per thread";
    "sixteen" = occupancy_copy[2]: "16 loads in flight per thread";
    "partial" = occupancy_copy[0]: "as `one`, in blocks of 33 threads";
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
