//! Device functions one by one: each kernel writes what each function of a family gives to an element of its own.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::atomic::{AtomicF32, AtomicI32, AtomicU32, AtomicU64, BlockAtomicU32, SystemAtomicI64, mid};
use cuda_std::half::{self, bf16, f16};
use cuda_std::warp::{self, WarpReductionOp};
use cuda_std::{FloatExt, GpuFloat, grid, kernel, shared_array, thread};

pub mod clusters;
pub mod costs;
pub mod grids;
pub mod tensor_cores;

/// Functions of [`GpuFloat`] for one argument or two.
pub const FUNCTIONS: usize = 39;

#[inline(always)]
fn functions<T: GpuFloat>(x: T, y: T) -> [T; FUNCTIONS] {
    let rounded = [x.floor(), x.ceil(), x.round(), x.trunc(), x.fract(), x.abs(), x.signum(), x.copysign(y)];
    let algebraic =
        [x.mul_add(y, x), x.div_euclid(y), x.rem_euclid(y), x.powi(3), x.powf(y), x.sqrt(), x.cbrt()];
    let exponential =
        [x.exp(), x.exp2(), x.exp_m1(), x.ln(), x.log(y), x.log2(), x.log10(), x.ln_1p(), x.hypot(y)];
    let (sin, cos) = x.sin_cos();
    let circular = [x.sin(), x.cos(), x.tan(), x.asin(), x.acos(), x.atan(), x.atan2(y), sin, cos];
    let hyperbolic = [x.sinh(), x.cosh(), x.tanh(), x.asinh(), x.acosh(), x.atanh()];
    let mut all = [x; FUNCTIONS];
    let each = rounded.into_iter().chain(algebraic).chain(exponential).chain(circular).chain(hyperbolic);
    each.enumerate().for_each(|(i, value)| all[i] = value);
    all
}

/// Functions of [`FloatExt`] that the host has too.
pub const EXTENSIONS: usize = 20;

#[inline(always)]
fn extensions<T: FloatExt + GpuFloat>(x: T) -> [T; EXTENSIONS] {
    let ((sin, cos), (fraction, exponent)) = (x.sincospi(), x.frexp());
    let bessel = [x.j0(), x.j1(), x.jn(3), x.y0(), x.y1(), x.yn(3)];
    let others = [x.log_gamma(), x.gamma(), x.log1p(), x.norm_cdf(), x.rcbrt(), x.saturate()];
    [
        x.cospi(),
        x.sinpi(),
        sin,
        cos,
        x.error_function(),
        x.complementary_error_function(),
        fraction,
        fraction.ldexp(exponent + 2),
        x.scale_by_n(x.unbiased_exp()),
        bessel[0],
        bessel[1],
        bessel[2],
        bessel[3],
        bessel[4],
        others[0],
        others[1],
        others[2],
        others[3],
        others[4],
        others[5],
    ]
}

macro_rules! float_kernels {
    ($($functions:ident $extensions:ident $float:ty;)*) => {$(
        /// Writes every function of `x` and `y`.
        ///
        /// # Safety
        /// `out` holds [`FUNCTIONS`] elements.
        #[kernel]
        pub unsafe fn $functions(out: *mut $float, x: $float, y: $float) {
            for (i, value) in functions(x, y).into_iter().enumerate() {
                // SAFETY: `i` is below the number of functions.
                unsafe { *out.add(i) = value };
            }
        }

        /// Writes every extension of `x`.
        ///
        /// # Safety
        /// `out` holds [`EXTENSIONS`] elements.
        #[kernel]
        pub unsafe fn $extensions(out: *mut $float, x: $float) {
            for (i, value) in extensions(x).into_iter().enumerate() {
                // SAFETY: `i` is below the number of functions.
                unsafe { *out.add(i) = value };
            }
        }
    )*};
}

float_kernels! {
    functions_f32 extensions_f32 f32;
    functions_f64 extensions_f64 f64;
}

/// Results of a thread of [`widened_halves`](fn@widened_halves).
pub const WIDENED: usize = 8;

/// Writes the bits of `f32` that each of `numbers` widens to, as `f16` and as `bf16`, alone and in a pair, and the larger
/// of two.
///
/// # Safety
/// `out` holds [`WIDENED`] elements a number; no more threads than numbers.
#[kernel]
pub unsafe fn widened_halves(out: *mut u32, numbers: &[u16]) {
    let i = thread::index_1d() as usize;
    let bits = numbers[i];
    let pair = u32::from(bits) << 16 | u32::from(bits ^ 1);
    let (f16_pair, bf16_pair) = (half::f16x2_to_f32(pair), half::bf16x2_to_f32(pair));
    let other = u32::from(bits.rotate_left(5));
    let all: [f32; WIDENED] = [
        half::f16_to_f32(f16::from_bits(bits)),
        half::bf16_to_f32(bf16::from_bits(bits)),
        f16_pair[0],
        f16_pair[1],
        bf16_pair[0],
        bf16_pair[1],
        half::f16x2_to_f32(half::f16x2_max(pair, other))[0],
        half::bf16x2_to_f32(half::bf16x2_max(pair, other))[0],
    ];
    for (j, value) in all.into_iter().enumerate() {
        // SAFETY: each thread has its own elements.
        unsafe { *out.add(i * WIDENED + j) = value.to_bits() };
    }
}

/// Results of a thread of [`narrowed_halves`](fn@narrowed_halves).
pub const NARROWED: usize = 6;

/// Writes what each of `numbers` is as `f16` and as `bf16`, alone and in a pair with its negation.
///
/// # Safety
/// `out` holds [`NARROWED`] elements a number; no more threads than numbers.
#[kernel]
pub unsafe fn narrowed_halves(out: *mut u16, numbers: &[f32]) {
    let i = thread::index_1d() as usize;
    let x = numbers[i];
    let (f16_pair, bf16_pair) = (half::f32_to_f16x2([x, -x]), half::f32_to_bf16x2([x, -x]));
    let all: [u16; NARROWED] = [
        half::f32_to_f16(x).to_bits(),
        half::f32_to_bf16(x).to_bits(),
        f16_pair as u16,
        (f16_pair >> 16) as u16,
        bf16_pair as u16,
        (bf16_pair >> 16) as u16,
    ];
    for (j, value) in all.into_iter().enumerate() {
        // SAFETY: each thread has its own elements.
        unsafe { *out.add(i * NARROWED + j) = value };
    }
}

/// Results of [`wide_integers`](fn@wide_integers).
pub const WIDE: usize = 28;

/// Writes the results of operations on 128-bit and 64-bit integers that are built from the four halves.
///
/// # Safety
/// `out` holds [`WIDE`] elements.
#[kernel]
pub unsafe fn wide_integers(out: *mut u128, a: u64, b: u64, c: u64, d: u64) {
    let (x, y) = ((u128::from(a) << 64) | u128::from(b), (u128::from(c) << 64) | u128::from(d) | 1);
    let (signed_x, signed_y) = (x as i128, y as i128);
    let (sum, carried) = x.overflowing_add(y);
    let (difference, borrowed) = x.overflowing_sub(y);
    let all: [u128; WIDE] = [
        sum,
        u128::from(carried),
        difference,
        u128::from(borrowed),
        x.wrapping_mul(y),
        x / y,
        x % y,
        signed_x.wrapping_div(signed_y) as u128,
        signed_x.wrapping_rem(signed_y) as u128,
        x << (d % 128),
        (signed_x >> (d % 128)) as u128,
        x.rotate_left(d as u32),
        u128::from(x.leading_zeros() + x.trailing_zeros() + x.count_ones()),
        u128::from(x < y) | u128::from(signed_x < signed_y) << 1,
        u128::from(a as f64 as u64),
        u128::from((b as i64 as f32).to_bits()),
        u128::from(a.saturating_mul(b)),
        u128::from(a.checked_add(b).unwrap_or(7)),
        u128::from(a.swap_bytes() ^ b.reverse_bits()),
        u128::from(a.isqrt()),
        (a as i64).wrapping_rem_euclid(b as i64 | 1) as u128,
        u128::from(f64::from_bits(a) as u32 ^ f32::from_bits(b as u32) as i16 as u32),
        f64::from_bits(a) as u128,
        f64::from_bits(a) as i128 as u128,
        f32::from_bits((b >> 32) as u32) as u128,
        f32::from_bits((b >> 32) as u32) as i128 as u128,
        u128::from((x as f64).to_bits() ^ (signed_y as f64).to_bits()),
        u128::from((x as f32).to_bits() ^ (signed_y as f32).to_bits()),
    ];
    for (i, value) in all.into_iter().enumerate() {
        // SAFETY: `i` is below the number of results.
        unsafe { *out.add(i) = value };
    }
}

/// Results of a lane of [`warp_functions`](fn@warp_functions).
pub const WARP: usize = 18;

/// Writes, lane by lane, what the functions of a warp give for one value a lane.
///
/// # Safety
/// A block of 32 threads; `values` holds 32 elements, `out` [`WARP`] times as many.
#[kernel]
pub unsafe fn warp_functions(out: *mut u64, values: &[u32], width: u32) {
    let lane = thread::thread_idx_x();
    let value = values[lane as usize];
    let all = u32::MAX;
    let wide = (u128::from(value) << 70) | u128::from(lane);
    // SAFETY: all lanes of the warp execute these with the full mask.
    let results: [u64; WARP] = unsafe {
        [
            u64::from(warp::warp_shuffle_down(all, value, 3, width).0),
            u64::from(warp::warp_shuffle_up(all, value, 3, 32).0),
            u64::from(warp::warp_shuffle_idx(all, value, 5, width).0),
            u64::from(warp::warp_shuffle_xor(all, value, 9, 16).1),
            (warp::warp_shuffle_xor(all, wide, 4, 32).0 >> 33) as u64,
            u64::from(warp::warp_shuffle_down(all, f64::from(value), 1, 32).0 as u32),
            warp::reduce_sum(u64::from(value) << 20),
            u64::from(warp::reduce_max(value as f32).to_bits()),
            u64::from(warp::reduce_min_width::<u32, 32>(all, value)),
            u64::from(warp::warp_reduce(all, value, WarpReductionOp::Add)),
            warp::warp_reduce(all, value as i32, WarpReductionOp::Min) as u64,
            u64::from(warp::warp_reduce(all, value, WarpReductionOp::Xor)),
            u64::from(warp::warp_match_any(all, value & 3)),
            u64::from(warp::warp_match_all(all, u64::from(value) >> 40).unwrap_or(1)),
            u64::from(warp::warp_vote_all(all, value > 3)),
            u64::from(warp::warp_vote_any(all, value > 3)),
            u64::from(warp::warp_vote_ballot(all, value.is_multiple_of(3))),
            u64::from(thread::sync_threads_count_aligned(value & 1)),
        ]
    };
    for (i, value) in results.into_iter().enumerate() {
        // SAFETY: each lane has its own elements.
        unsafe { *out.add(lane as usize * WARP + i) = value };
    }
}

/// Counts what 64-bit cells of all kinds get from the threads of the grid.
///
/// # Safety
/// `cells` holds 12 elements that no other code uses.
#[kernel]
pub unsafe fn atomic_functions(cells: *mut u64) {
    let (i, tid) = (thread::index_1d(), thread::thread_idx_x());
    let shared = shared_array![u32; 1];
    // SAFETY: the cells are the kernel's own, and used by atomics alone; barriers order the shared one.
    unsafe {
        if tid == 0 {
            *shared = 0;
        }
        thread::sync_threads_aligned();
        BlockAtomicU32::from_ptr(shared).fetch_add(tid, Relaxed);
        AtomicF32::from_ptr(cells.cast()).fetch_add(i as f32, Relaxed);
        AtomicU32::from_ptr(cells.add(1).cast()).fetch_add(i, Relaxed);
        AtomicI32::from_ptr(cells.add(2).cast()).fetch_min(-(i as i32), Relaxed);
        AtomicU64::from_ptr(cells.add(3)).fetch_or(1 << (i % 64), Relaxed);
        AtomicU64::from_ptr(cells.add(4)).fetch_xor(u64::from(i) << 30, Relaxed);
        SystemAtomicI64::from_ptr(cells.add(5).cast()).fetch_max(i64::from(i) << 33, Relaxed);
        mid::atomic_fetch_inc_u32_device(cells.add(6).cast(), Relaxed, 10);
        mid::atomic_fetch_dec_u32_device(cells.add(7).cast(), Relaxed, 10);
        let counter = AtomicU32::from_ptr(cells.add(8).cast());
        let mut seen = counter.load(Relaxed);
        while let Err(now) = counter.compare_exchange(seen, seen.wrapping_mul(3) + 1, Relaxed, Relaxed) {
            seen = now;
        }
        thread::sync_threads_aligned();
        if tid == 0 {
            AtomicU32::from_ptr(cells.add(9).cast()).fetch_add(*shared, Relaxed);
        }
    }
}

/// Panics in every thread from `limit` on.
///
/// # Safety
/// None.
#[kernel]
pub unsafe fn panics(limit: u32) {
    assert!(thread::index_1d() < limit, "the index is over the limit");
}

/// Doubles the number between the two halves of programmatic dependent launch.
///
/// # Safety
/// `out` is a number of the thread's own.
#[kernel]
pub unsafe fn dependent(out: *mut u32) {
    grid::wait_for_dependencies();
    // SAFETY: the caller's number.
    unsafe { *out *= 2 };
    grid::launch_dependents();
}
