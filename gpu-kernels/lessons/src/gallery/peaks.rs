//! The peak FLOPs of a machine: multiplications and additions that wait only for each other.
//!
//! A multiprocessor has four schedulers, and each issues an instruction of one warp per cycle. The result of a fused
//! multiply-add is ready some four cycles later. A warp whose next instruction needs it waits, and other warps run
//! meanwhile, if there are any. So a scheduler is busy if its warps times the independent chains of each are at least four.
//!
//! * `chain_1`, `chain_2`, `chain_4`, `chain_8`: a thread has 1, 2, 4 or 8 chains, whose instructions alternate. 16 warps of
//!   the first or 4 of the third fill a multiprocessor.
//! * `chain_8_f64`: the same in `f64`, for which a data-centre GPU has half the lanes, and other GPUs a sixty-fourth.
//!
//! Nothing is read, and a thread writes one number at its end. An iteration of the loop has 256 such instructions for any
//! number of chains, so the loop's own instructions do not count.
//! Requires: blocks of 256 threads.
//@ ptx(peaks_f32_1): fma.rn.f32 == 256, .local == 0, ld.global == 0, st.global == 1
//@ ptx(peaks_f32_2): fma.rn.f32 == 256, .local == 0, ld.global == 0, st.global == 1
//@ ptx(peaks_f32_4): fma.rn.f32 == 256, .local == 0, ld.global == 0, st.global == 1
//@ ptx(peaks_f32_8): fma.rn.f32 == 256, .local == 0, ld.global == 0, st.global == 1
//@ ptx(peaks_f64_8): fma.rn.f64 == 256, .local == 0, ld.global == 0, st.global == 1

use cuda_std::hint::opaque;
use cuda_std::{GpuFloat, kernel, thread};

lesson! {
    buffers(out: f32)
    values(factor: f32, summand: f32, turns: u32)
    facts(Chains)
    "chain_1" = peaks_chains[0]: "each operation of a thread waits for the one before";
    "chain_2" = peaks_chains[1]: "two chains a thread";
    "chain_4" = peaks_chains[2]: "four chains a thread";
    "chain_8" = peaks_chains[3]: "eight chains a thread";
    "chain_8_f64" = peaks_chains[4]: "eight chains a thread, in f64";
}

/// What a kernel computes.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Chains {
    /// Chains of a thread.
    pub chains: usize,
    /// Bytes of a number: 4 or 8.
    pub bytes: usize,
}

/// Operations of a thread in an iteration, of all its chains together.
pub const OPERATIONS: usize = 256;

/// Consecutive operations of a chain in the inner loop.
const STEPS: usize = 32;

/// The type of the numbers of chains.
pub trait Number: GpuFloat + From<f32> + core::ops::Add<Output = Self> {
    /// Returns the nearest `f32`.
    fn rounded(self) -> f32;
}

impl Number for f32 {
    #[inline(always)]
    fn rounded(self) -> f32 {
        self
    }
}

impl Number for f64 {
    #[inline(always)]
    fn rounded(self) -> f32 {
        self as f32
    }
}

/// Computes `out[i]`: the sum of thread `i`'s chains after `turns` iterations. Chain `k` begins with a quarter of the
/// remainder of `i + 3 * k` divided by 8. In an iteration its number becomes itself times `factor` plus `summand`, rounded
/// once, `OPERATIONS / CHAINS` times.
///
/// Launched with blocks of 256 threads along x.
///
/// # Safety
/// The launch is as described; `out` holds an element for each thread, and no other code uses it.
#[kernel(
    max_threads = 256,
    args = Arguments,
    facts: Chains = Chains { chains: CHAINS, bytes: size_of::<T>() },
    instances(
        peaks_f32_1 = <f32, 1>;
        peaks_f32_2 = <f32, 2>;
        peaks_f32_4 = <f32, 4>;
        peaks_f32_8 = <f32, 8>;
        peaks_f64_8 = <f64, 8>;
    ),
)]
pub unsafe fn peaks_chains<T: Number, const CHAINS: usize>(
    out: *mut f32,
    factor: f32,
    summand: f32,
    turns: u32,
) {
    let i = thread::index_1d();
    let (factor, summand) = (T::from(factor), T::from(summand));
    let mut x_reg: [T; CHAINS] =
        core::array::from_fn(|k| T::from((i.wrapping_add(3 * k as u32) % 8) as f32 / 4.0));
    let mut turn = 0;
    while turn < turns as usize {
        // Two loops, because the compiler would unroll only a part of one loop with 256 iterations.
        for _ in 0..OPERATIONS / CHAINS / STEPS {
            for _ in 0..STEPS {
                for x in &mut x_reg {
                    *x = x.mul_add(factor, summand);
                }
            }
        }
        turn = opaque(turn + 1);
    }
    let sum = x_reg.into_iter().fold(T::from(0.0), |sum, x| sum + x);
    // SAFETY: only this thread writes the element.
    unsafe { *out.add(i as usize) = sum.rounded() };
}
