//! Copies that overlap with kernels: the kernel, which works on a number for as long as the link takes to bring it.
//!
//! The lesson varies the host code: how many streams bring the parts of an array, work on them, and take them back. The
//! kernel takes `rounds` steps of a linear congruential generator from each number. These are integers, so every bit of the
//! result is known.
//!
//! Requires: any length.
//@ ptx(overlap_rounds): ld.global.b32 == 1, st.global.b32 == 1, .local == 0

use cuda_std::{kernel, thread};

lesson! {
    buffers(out: u32, inp: u32)
    values(len: u32, rounds: u32)
    facts(Grid)
    "kernel" = overlap_rounds[0]: "the kernel alone, on data that is there";
}

/// The factor of a step (Knuth, "The Art of Computer Programming", volume 2, section 3.3.4, table 1, line 16).
pub const FACTOR: u32 = 1_664_525;
/// The summand of a step.
pub const SUMMAND: u32 = 1_013_904_223;

/// Returns `x` after `rounds` steps. Each step is a multiplication and an addition modulo 2^32. `rounds` is below 2^31.
#[inline(always)]
pub(super) fn after(mut x: u32, rounds: u32) -> u32 {
    // With a factor that the compiler knows, it would unroll the loop and merge eight steps into one. This adds 0.
    let factor = FACTOR.wrapping_add(rounds >> 31);
    for _ in 0..rounds {
        x = x.wrapping_mul(factor).wrapping_add(SUMMAND);
    }
    x
}

/// Computes `out[i]`: `inp[i]` after `rounds` steps, one thread per element.
///
/// Launched with at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; both hold `len` elements, and no other code uses the elements of `out`.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn overlap_rounds(out: *mut u32, inp: *const u32, len: u32, rounds: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        // SAFETY: `i` lies in both, and only this thread writes the element.
        unsafe { *out.add(i) = after(*inp.add(i), rounds) };
    }
}
