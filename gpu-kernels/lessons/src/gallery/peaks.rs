//! The peak rates of a machine: instructions that wait only for each other.
//!
//! A multiprocessor has four schedulers, and each issues an instruction of one warp per cycle. The result of a fused
//! multiply-add is ready some four cycles later. A warp whose next instruction needs it waits, and other warps run
//! meanwhile, if there are any. So a scheduler is busy if its warps times the independent chains of each are at least four.
//!
//! * `chain_1`, `chain_2`, `chain_4`, `chain_8`: a thread has 1, 2, 4 or 8 chains, whose instructions alternate. 16 warps of
//!   the first or 4 of the third fill a multiprocessor.
//! * `chain_1_own`: one chain whose instruction reads one register only, three times.
//! * `chain_8_f64`: the same as `chain_8` in `f64`, for which a data-centre GPU has half the lanes, and other GPUs a
//!   sixty-fourth.
//! * `chain_8_i32`, `chain_8_i64`, `divide_i32`, `divide_i64`: integers.
//! * `ex2`, `rsqrt`, `cos`: functions, each one instruction of the special function units.
//! * `shared_load`: a load from shared memory that gives the place of the next one.
//! * `mma_sync`, `wgmma_registers`, `wgmma_shared`: tensor cores, with A in registers or in shared memory.
//!
//! Nothing is read from global memory, and a thread writes one number at its end. An iteration of the loop has 256 such
//! instructions for any number of chains, so the loop's own instructions do not count.
//! Requires: blocks of 256 threads.
//@ ptx(peaks_f32_1): fma.rn.f32 == 256, .local == 0, ld.global == 0, st.global == 1
//@ ptx(peaks_f32_2): fma.rn.f32 == 256, .local == 0, ld.global == 0, st.global == 1
//@ ptx(peaks_f32_4): fma.rn.f32 == 256, .local == 0, ld.global == 0, st.global == 1
//@ ptx(peaks_f32_8): fma.rn.f32 == 256, .local == 0, ld.global == 0, st.global == 1
//@ ptx(peaks_own_1): fma.rn.f32 == 256, .local == 0, ld.global == 0, st.global == 1
//@ ptx(peaks_f64_8): fma.rn.f64 == 256, .local == 0, ld.global == 0, st.global == 1
//@ ptx(peaks_i32_8): mad.lo.s32 >= 64, .local == 0, st.global == 1
//@ ptx(peaks_i64_8): mad.lo.s64 >= 32, .local == 0, st.global == 1
//@ ptx(peaks_ex2_8): ex2.approx.ftz.f32 >= 64, .local == 0, st.global == 1
//@ ptx(peaks_rsqrt_8): rsqrt.approx.ftz.f32 == 256, .local == 0, st.global == 1
//@ ptx(peaks_cos_8): cos.approx.ftz.f32 == 256, .local == 0, st.global == 1
//@ ptx(peaks_divide_i32): div.u32 == 32, .local == 0, st.global == 1
//@ ptx(peaks_divide_i64): div.u64 == 32, .local == 0, st.global == 1
//@ ptx(peaks_shared): ld.shared.b32 >= 32, .local == 0, st.global == 1

mod tensor;

pub use tensor::{peaks_mma_sync, peaks_wgmma_registers, peaks_wgmma_shared, tensor_element};

use cuda_std::fastmath::{cos_approx_ftz, ex2_approx_ftz, rsqrt_approx_ftz};
use cuda_std::hint::opaque;
use cuda_std::{GpuFloat as _, kernel, shared_array, thread};

lesson! {
    buffers(out: f32)
    values(factor: f32, summand: f32, turns: u32)
    facts(Chains)
    "chain_1" = peaks_chains[0]: "each operation of a thread waits for the one before";
    "chain_1_own" = peaks_chains[5]: "one chain, and one register that is read three times";
    "chain_2" = peaks_chains[1]: "two chains a thread";
    "chain_4" = peaks_chains[2]: "four chains a thread";
    "chain_8" = peaks_chains[3]: "eight chains a thread";
    "chain_8_f64" = peaks_chains[4]: "eight chains a thread, in f64";
    "chain_8_i32" = peaks_chains[6]: "eight chains of integer multiply-adds";
    "chain_8_i64" = peaks_chains[7]: "the same in 64 bits, as an index of type usize";
    "divide_i32" = peaks_chains[8]: "eight chains of integer divisions, and an addition after each";
    "divide_i64" = peaks_chains[9]: "the same in 64 bits";
    "ex2" = peaks_chains[10]: "eight chains of powers of two";
    "rsqrt" = peaks_chains[11]: "eight chains of 1 / square root";
    "cos" = peaks_chains[12]: "eight chains of cosines";
    "shared_load" = peaks_shared[0]: "eight chains of loads from shared memory";
    "mma_sync" = peaks_mma_sync[0]: "tensor cores, a warp at a time, bf16";
    "wgmma_registers" = peaks_wgmma_registers[0]: "tensor cores, four warps at a time, A in registers";
    "wgmma_shared" = peaks_wgmma_shared[0]: "tensor cores, four warps at a time, A and B in shared memory";
}

/// What a kernel computes.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Chains {
    /// Its operation.
    pub what: What,
    /// Chains of a thread.
    pub chains: usize,
    /// Steps of a chain in an iteration.
    pub steps: usize,
}

/// The operation of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// `x * factor + summand`.
    F32,
    /// The same in `f64`.
    F64,
    /// `x * x + x`.
    Own,
    /// `x * x + INCREMENT`, modulo 2^32.
    I32,
    /// The same modulo 2^64.
    I64,
    /// `x / divisor(factor) + DIVIDEND`, modulo 2^32.
    DivideI32,
    /// The same modulo 2^64.
    DivideI64,
    /// 2 to the power `-x`.
    Ex2,
    /// 1 / square root of `x`.
    Rsqrt,
    /// The cosine of `x`.
    Cos,
    /// A load of the next place.
    Shared,
    /// A multiplication of 16 x 8 x 16 by each warp.
    MmaSync,
    /// A multiplication of 64 x 128 x 16 by each warpgroup.
    Wgmma,
}

/// Operations of a thread in an iteration, of all its chains together; of divisions an eighth.
pub const OPERATIONS: usize = 256;

/// Consecutive operations of a chain in the inner loop.
const STEPS: usize = 32;

/// The summand of integer multiply-adds; for 32 bits its lower half. They multiply a number by itself, because the compiler
/// would make one multiply-add of many with a constant factor.
pub const INCREMENT: u64 = 6_364_136_223_846_793_005;

/// What is added to a quotient, so that the numbers stay large; for 32 bits its lower half.
pub const DIVIDEND: u64 = 0xf1ea_5eed_f00d_cafe;

/// Words of the table of [`peaks_shared`](fn@peaks_shared): 32 rows of 32.
const PLACES: u32 = 1024;

/// The divisor, which the compiler does not know: the upper bits of `factor`, about 1000.
#[inline(always)]
pub fn divisor(factor: f32) -> u32 {
    factor.to_bits() >> 20
}

/// The numbers of chains.
pub trait Number: Copy {
    /// The sum of two chains.
    fn plus(self, other: Self) -> Self;
    /// The number as it is written; of integers the upper 24 bits, on which all others have an influence.
    fn rounded(self) -> f32;
}

impl Number for f32 {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
    #[inline(always)]
    fn rounded(self) -> f32 {
        self
    }
}

impl Number for f64 {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
    #[inline(always)]
    fn rounded(self) -> f32 {
        self as f32
    }
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl Number for $ty {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn rounded(self) -> f32 {
                (self >> (<$ty>::BITS - 24)) as f32
            }
        }
    )*};
}

integers! { u32, u64 }

/// An operation on numbers, each of which depends on the one before.
pub trait Operation {
    /// The type of the numbers.
    type Number: Number;
    /// Its name.
    const WHAT: What;
    /// How many of them an iteration has for all chains.
    const OPERATIONS: usize = OPERATIONS;

    /// The first number of a chain, for a number of eighths below 8.
    fn start(eighths: u32) -> Self::Number;
    /// The next number.
    fn step(x: Self::Number, factor: f32, summand: f32) -> Self::Number;
}

macro_rules! operations {
    ($($name:ident: $ty:ty, $count:expr, $start:expr, |$x:ident, $factor:pat_param, $summand:pat_param| $step:expr;)*) => {$(
        #[doc = concat!("See [`What::", stringify!($name), "`].")]
        #[derive(Debug)]
        pub struct $name;

        impl Operation for $name {
            type Number = $ty;
            const WHAT: What = What::$name;
            const OPERATIONS: usize = $count;

            #[inline(always)]
            fn start(eighths: u32) -> $ty {
                $start(eighths)
            }

            #[inline(always)]
            fn step($x: $ty, $factor: f32, $summand: f32) -> $ty {
                $step
            }
        }
    )*};
}

operations! {
    F32: f32, OPERATIONS, |n| n as f32 / 4.0, |x, factor, summand| x.mul_add(factor, summand);
    F64: f64, OPERATIONS, |n| f64::from(n) / 4.0, |x, factor, summand| x.mul_add(factor.into(), summand.into());
    Own: f32, OPERATIONS, |n| n as f32 / -8.0, |x, _, _| x.mul_add(x, x);
    I32: u32, OPERATIONS, u32::from, |x, _, _| x.wrapping_mul(x).wrapping_add(INCREMENT as u32);
    I64: u64, OPERATIONS, u64::from, |x, _, _| x.wrapping_mul(x).wrapping_add(INCREMENT);
    DivideI32: u32, OPERATIONS / 8, u32::from, |x, factor, _| (x / divisor(factor)).wrapping_add(DIVIDEND as u32);
    DivideI64: u64, OPERATIONS / 8, u64::from, |x, factor, _| (x / u64::from(divisor(factor))).wrapping_add(DIVIDEND);
    Ex2: f32, OPERATIONS, |n| n as f32 / 4.0, |x, _, _| ex2_approx_ftz(-x);
    Rsqrt: f32, OPERATIONS, |n| (n + 1) as f32 / 4.0, |x, _, _| rsqrt_approx_ftz(x);
    Cos: f32, OPERATIONS, |n| n as f32 / 4.0, |x, _, _| cos_approx_ftz(x);
}

/// Computes `out[i]`: the sum of thread `i`'s chains after `turns` iterations. Chain `k` begins with the start of
/// `(i + 3 * k) % 8`. An iteration has `OPERATIONS / CHAINS` steps of each chain.
///
/// Launched with blocks of 256 threads along x.
///
/// # Safety
/// The launch is as described; `out` holds an element for each thread, and no other code uses it; `divisor(factor)` is not 0.
#[kernel(
    max_threads = 256,
    args = Arguments,
    facts: Chains = Chains { what: O::WHAT, chains: CHAINS, steps: O::OPERATIONS / CHAINS },
    instances(
        peaks_f32_1 = <F32, 1>;
        peaks_f32_2 = <F32, 2>;
        peaks_f32_4 = <F32, 4>;
        peaks_f32_8 = <F32, 8>;
        peaks_f64_8 = <F64, 8>;
        peaks_own_1 = <Own, 1>;
        peaks_i32_8 = <I32, 8>;
        peaks_i64_8 = <I64, 8>;
        peaks_divide_i32 = <DivideI32, 8>;
        peaks_divide_i64 = <DivideI64, 8>;
        peaks_ex2_8 = <Ex2, 8>;
        peaks_rsqrt_8 = <Rsqrt, 8>;
        peaks_cos_8 = <Cos, 8>;
    ),
)]
pub unsafe fn peaks_chains<O: Operation, const CHAINS: usize>(
    out: *mut f32,
    factor: f32,
    summand: f32,
    turns: u32,
) {
    let i = thread::index_1d();
    let mut x_reg: [O::Number; CHAINS] = core::array::from_fn(|k| O::start(i.wrapping_add(3 * k as u32) % 8));
    let mut turn = 0;
    while turn < turns as usize {
        // Two loops, because the compiler would unroll only a part of one loop with 256 iterations.
        for _ in 0..(O::OPERATIONS / CHAINS).div_ceil(STEPS) {
            for _ in 0..STEPS.min(O::OPERATIONS / CHAINS) {
                for x in &mut x_reg {
                    *x = O::step(*x, factor, summand);
                }
            }
        }
        turn = opaque(turn + 1);
    }
    let sum = x_reg.into_iter().skip(1).fold(x_reg[0], O::Number::plus);
    // SAFETY: only this thread writes the element.
    unsafe { *out.add(i as usize) = sum.rounded() };
}

/// Computes `out[i]`: the sum of thread `i`'s places after `turns` iterations. Place `k` is the offset of a word in a table of
/// 32 x 32 words: first row `k` and the lane's column, then one row further with each step.
///
/// Launched with blocks of 256 threads along x.
///
/// # Safety
/// The launch is as described; `out` holds an element for each thread, and no other code uses it.
#[kernel(
    max_threads = 256,
    args = Arguments,
    facts: Chains = Chains { what: What::Shared, chains: 8, steps: OPERATIONS / 8 },
)]
pub unsafe fn peaks_shared(out: *mut f32, turns: u32) {
    const CHAINS: usize = 8;
    let table = shared_array![u32; PLACES as usize];
    let tid = thread::thread_idx_x();
    let mut place = tid;
    while place < PLACES {
        // SAFETY: each thread writes its own places.
        unsafe { *table.add(place as usize) = 4 * ((place + 32) % PLACES) };
        place += 256;
    }
    // SAFETY: all threads of the block execute this.
    unsafe { thread::sync_threads_aligned() };
    let mut x_reg: [u32; CHAINS] = core::array::from_fn(|k| 4 * (32 * k as u32 + tid % 32));
    let mut turn = 0;
    while turn < turns as usize {
        for _ in 0..OPERATIONS / CHAINS {
            for x in &mut x_reg {
                // SAFETY: every word of the table is the offset of one, and none is written any more.
                *x = unsafe { *table.byte_add(*x as usize) };
            }
        }
        turn = opaque(turn + 1);
    }
    let sum = x_reg.into_iter().sum::<u32>();
    // SAFETY: only this thread writes the element.
    unsafe { *out.add(thread::index_1d() as usize) = sum as f32 };
}
