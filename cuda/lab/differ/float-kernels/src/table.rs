//! The functions: what the device and the executor compute, and the oracle.

#![allow(clippy::missing_safety_doc, reason = "clippy does not see the sections that stand in a macro")]

use cuda_std::{FloatExt, GpuFloat, fastmath, kernel};

#[cfg(not(target_arch = "nvptx64"))]
use crate::oracle;
use crate::{Worst, flushed, list, pairs, scan};

/// A function of one number.
pub trait Unary {
    /// Of `f32`.
    fn single(x: f32) -> f32;
    /// The same of `f64`.
    fn double(x: f64) -> f64;
}

/// A function of two numbers.
pub trait Binary {
    /// Of `f32`.
    fn single(x: f32, y: f32) -> f32;
    /// The same of `f64`.
    fn double(x: f64, y: f64) -> f64;
}

/// A quotient that is approximate for `f32`, and exact for `f64`.
trait Quotient {
    fn approximate(self, divisor: Self) -> Self;
    fn approximate_ftz(self, divisor: Self) -> Self;
}

impl Quotient for f32 {
    #[inline(always)]
    fn approximate(self, divisor: f32) -> f32 {
        fastmath::div_approx(self, divisor)
    }

    #[inline(always)]
    fn approximate_ftz(self, divisor: f32) -> f32 {
        fastmath::div_approx_ftz(self, divisor)
    }
}

impl Quotient for f64 {
    #[inline(always)]
    fn approximate(self, divisor: f64) -> f64 {
        self / divisor
    }

    #[inline(always)]
    fn approximate_ftz(self, divisor: f64) -> f64 {
        self / divisor
    }
}

/// A function of one number on the host: what the executor computes, and the oracle.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct UnaryRow {
    /// Its name, which is the end of the kernels' names.
    pub name: &'static str,
    /// The executor's function.
    pub single: fn(f32) -> f32,
    /// The exact result.
    pub oracle: fn(f64) -> f64,
    /// Whether it is one of `fastmath`, which are of `f32` alone.
    pub is_fast: bool,
}

/// A function of two numbers on the host.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct BinaryRow {
    /// Its name, which is the end of the kernels' names.
    pub name: &'static str,
    /// The executor's function.
    pub single: fn(f32, f32) -> f32,
    /// The exact result.
    pub oracle: fn(f64, f64) -> f64,
}

/// What the executor has no implementation of.
pub const DEVICE_ONLY: [&str; 3] =
    ["inv_complementary_error_function", "scaled_complementary_error_function", "inv_norm_cdf"];

macro_rules! unary {
    (exact { $($name:ident = |$x:ident| $function:expr, $oracle:expr;)* }
     fast { $($fast:ident = |$y:ident| $wide:expr, $fast_oracle:expr;)* }) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            #[allow(non_camel_case_types, reason = "it names kernels")]
            #[derive(Debug)]
            pub enum $name {}

            impl Unary for $name {
                #[inline(always)]
                fn single($x: f32) -> f32 {
                    $function
                }

                #[inline(always)]
                fn double($x: f64) -> f64 {
                    $function
                }
            }
        )*
        $(
            #[doc = concat!("`fastmath::", stringify!($fast), "`.")]
            #[allow(non_camel_case_types, reason = "it names kernels")]
            #[derive(Debug)]
            pub enum $fast {}

            impl Unary for $fast {
                #[inline(always)]
                fn single(x: f32) -> f32 {
                    fastmath::$fast(x)
                }

                #[inline(always)]
                fn double($y: f64) -> f64 {
                    $wide
                }
            }
        )*

        /// Evaluates a function of `f32` for `count` inputs a thread, and gives what is worst of each thread's.
        ///
        /// # Safety
        /// `worst` has an element for each thread, which no other code uses.
        #[kernel(instances(for F in [$($name,)* $($fast),*] { scan_{F} = <>; }))]
        pub unsafe fn scans<F: Unary>(first: u32, count: u32, worst: *mut Worst) {
            scan::<F>(first, count, worst);
        }

        /// Evaluates a function of `f32` for inputs `stride` apart.
        ///
        /// # Safety
        /// `out` has `count` elements, which no other code uses.
        #[kernel(instances(for F in [$($name,)* $($fast),*] { list_{F} = <>; }))]
        pub unsafe fn lists<F: Unary>(first: u32, stride: u32, count: u32, out: *mut f32) {
            list::<F>(first, stride, count, out);
        }

        /// Evaluates a function of `f64`.
        ///
        /// # Safety
        /// `x` and `out` have `count` elements, and no other code uses those of `out`.
        #[kernel(instances(for F in [$($name),*] { double_{F} = <>; }))]
        pub unsafe fn doubles<F: Unary>(x: *const f64, count: u32, out: *mut f64) {
            // SAFETY: the caller's promise.
            unsafe { pairs(x, x, count, out, |x, _| F::double(x)) }
        }

        /// The functions of one number.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const UNARY: &[UnaryRow] = &[
            $(UnaryRow { name: stringify!($name), single: $name::single, oracle: $oracle, is_fast: false },)*
            $(UnaryRow { name: stringify!($fast), single: $fast::single, oracle: $fast_oracle, is_fast: true },)*
        ];
    };
}

unary! {
    exact {
        sqrt = |x| GpuFloat::sqrt(x), f64::sqrt;
        floor = |x| GpuFloat::floor(x), f64::floor;
        ceil = |x| GpuFloat::ceil(x), f64::ceil;
        round = |x| GpuFloat::round(x), f64::round;
        trunc = |x| GpuFloat::trunc(x), f64::trunc;
        fract = |x| GpuFloat::fract(x), f64::fract;
        abs = |x| GpuFloat::abs(x), f64::abs;
        signum = |x| GpuFloat::signum(x), f64::signum;
        exp = |x| GpuFloat::exp(x), f64::exp;
        exp2 = |x| GpuFloat::exp2(x), f64::exp2;
        exp_m1 = |x| GpuFloat::exp_m1(x), f64::exp_m1;
        ln = |x| GpuFloat::ln(x), f64::ln;
        log2 = |x| GpuFloat::log2(x), f64::log2;
        log10 = |x| GpuFloat::log10(x), f64::log10;
        ln_1p = |x| GpuFloat::ln_1p(x), f64::ln_1p;
        cbrt = |x| GpuFloat::cbrt(x), f64::cbrt;
        sin = |x| GpuFloat::sin(x), f64::sin;
        cos = |x| GpuFloat::cos(x), f64::cos;
        tan = |x| GpuFloat::tan(x), f64::tan;
        sin_cos_sine = |x| GpuFloat::sin_cos(x).0, f64::sin;
        sin_cos_cosine = |x| GpuFloat::sin_cos(x).1, f64::cos;
        asin = |x| GpuFloat::asin(x), f64::asin;
        acos = |x| GpuFloat::acos(x), f64::acos;
        atan = |x| GpuFloat::atan(x), f64::atan;
        sinh = |x| GpuFloat::sinh(x), f64::sinh;
        cosh = |x| GpuFloat::cosh(x), f64::cosh;
        tanh = |x| GpuFloat::tanh(x), f64::tanh;
        asinh = |x| GpuFloat::asinh(x), libm::asinh;
        acosh = |x| GpuFloat::acosh(x), libm::acosh;
        atanh = |x| GpuFloat::atanh(x), libm::atanh;
        sinpi = |x| FloatExt::sinpi(x), oracle::sinpi;
        cospi = |x| FloatExt::cospi(x), oracle::cospi;
        sincospi_sine = |x| FloatExt::sincospi(x).0, oracle::sinpi;
        sincospi_cosine = |x| FloatExt::sincospi(x).1, oracle::cospi;
        error_function = |x| FloatExt::error_function(x), libm::erf;
        complementary_error_function = |x| FloatExt::complementary_error_function(x), libm::erfc;
        inv_complementary_error_function = |x| FloatExt::inv_complementary_error_function(x), oracle::erfcinv;
        scaled_complementary_error_function = |x| FloatExt::scaled_complementary_error_function(x), oracle::erfcx;
        norm_cdf = |x| FloatExt::norm_cdf(x), oracle::norm_cdf;
        inv_norm_cdf = |x| FloatExt::inv_norm_cdf(x), oracle::norm_cdf_inv;
        gamma = |x| FloatExt::gamma(x), libm::tgamma;
        log_gamma = |x| FloatExt::log_gamma(x), libm::lgamma;
        log1p = |x| FloatExt::log1p(x), f64::ln_1p;
        rcbrt = |x| FloatExt::rcbrt(x), |x| 1.0 / x.cbrt();
        saturate = |x| FloatExt::saturate(x), |x| if x > 0.0 { x.min(1.0) } else { 0.0 };
        frexp_fraction = |x| FloatExt::frexp(x).0, |x| libm::frexp(x).0;
        unbiased_exp = |x| FloatExt::unbiased_exp(x) as _, oracle::exponent;
        j0 = |x| FloatExt::j0(x), libm::j0;
        j1 = |x| FloatExt::j1(x), libm::j1;
        y0 = |x| FloatExt::y0(x), libm::y0;
        y1 = |x| FloatExt::y1(x), libm::y1;
    }
    fast {
        ex2_approx = |x| GpuFloat::exp2(x), f64::exp2;
        ex2_approx_ftz = |x| flushed(GpuFloat::exp2(flushed(x))), |x| flushed(flushed(x).exp2());
        lg2_approx = |x| GpuFloat::log2(x), f64::log2;
        lg2_approx_ftz = |x| flushed(GpuFloat::log2(flushed(x))), |x| flushed(flushed(x).log2());
        rcp_approx = |x| 1.0 / x, |x| 1.0 / x;
        rcp_approx_ftz = |x| flushed(1.0 / flushed(x)), |x| flushed(1.0 / flushed(x));
        rsqrt_approx = |x| 1.0 / GpuFloat::sqrt(x), |x| 1.0 / x.sqrt();
        rsqrt_approx_ftz = |x| flushed(1.0 / GpuFloat::sqrt(flushed(x))), |x| flushed(1.0 / flushed(x).sqrt());
        sqrt_approx = |x| GpuFloat::sqrt(x), f64::sqrt;
        sqrt_approx_ftz = |x| flushed(GpuFloat::sqrt(flushed(x))), |x| flushed(flushed(x).sqrt());
        sin_approx = |x| GpuFloat::sin(x), f64::sin;
        sin_approx_ftz = |x| flushed(GpuFloat::sin(flushed(x))), |x| flushed(flushed(x).sin());
        cos_approx = |x| GpuFloat::cos(x), f64::cos;
        cos_approx_ftz = |x| flushed(GpuFloat::cos(flushed(x))), |x| flushed(flushed(x).cos());
        tanh_approx = |x| GpuFloat::tanh(x), f64::tanh;
        exp_approx = |x| GpuFloat::exp(x), f64::exp;
        ln_approx = |x| GpuFloat::ln(x), f64::ln;
    }
}

macro_rules! binary {
    ($($name:ident = |$x:ident, $y:ident| $function:expr, $oracle:expr;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            #[allow(non_camel_case_types, reason = "it names kernels")]
            #[derive(Debug)]
            pub enum $name {}

            impl Binary for $name {
                #[inline(always)]
                fn single($x: f32, $y: f32) -> f32 {
                    $function
                }

                #[inline(always)]
                fn double($x: f64, $y: f64) -> f64 {
                    $function
                }
            }
        )*

        /// Evaluates a function of two `f32`.
        ///
        /// # Safety
        /// The pointers are to `count` elements, and no other code uses those of `out`.
        #[kernel(instances(for F in [$($name),*] { pairs_{F} = <>; }))]
        pub unsafe fn single_pairs<F: Binary>(x: *const f32, y: *const f32, count: u32, out: *mut f32) {
            // SAFETY: the caller's promise.
            unsafe { pairs(x, y, count, out, F::single) }
        }

        /// Evaluates a function of two `f64`.
        ///
        /// # Safety
        /// The pointers are to `count` elements, and no other code uses those of `out`.
        #[kernel(instances(for F in [$($name),*] { double_pairs_{F} = <>; }))]
        pub unsafe fn double_pairs<F: Binary>(x: *const f64, y: *const f64, count: u32, out: *mut f64) {
            // SAFETY: the caller's promise.
            unsafe { pairs(x, y, count, out, F::double) }
        }

        /// The functions of two numbers.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const BINARY: &[BinaryRow] =
            &[$(BinaryRow { name: stringify!($name), single: $name::single, oracle: $oracle },)*];
    };
}

binary! {
    remainder = |x, y| x % y, |x, y| x % y;
    rem_euclid = |x, y| GpuFloat::rem_euclid(x, y), f64::rem_euclid;
    quotient = |x, y| x / y, |x, y| x / y;
    div_approx = |x, y| Quotient::approximate(x, y), |x, y| x / y;
    div_approx_ftz = |x, y| Quotient::approximate_ftz(x, y), |x, y| flushed(flushed(x) / flushed(y));
    powf = |x, y| GpuFloat::powf(x, y), f64::powf;
    atan2 = |x, y| GpuFloat::atan2(x, y), f64::atan2;
    hypot = |x, y| GpuFloat::hypot(x, y), f64::hypot;
    log = |x, y| GpuFloat::log(x, y), f64::log;
    copysign = |x, y| GpuFloat::copysign(x, y), f64::copysign;
    mul_add_minus_one = |x, y| GpuFloat::mul_add(x, y, -1.0), |x, y| x.mul_add(y, -1.0);
    powi = |x, n| GpuFloat::powi(x, n as i32), |x, n| x.powi(n as i32);
    ldexp = |x, n| FloatExt::ldexp(x, n as i32), |x, n| libm::ldexp(x, n as i32);
    scale_by_n = |x, n| FloatExt::scale_by_n(x, n as i32), |x, n| libm::scalbn(x, n as i32);
    jn = |x, n| FloatExt::jn(x, n as i32 & 7), |x, n| libm::jn(n as i32 & 7, x);
    yn = |x, n| FloatExt::yn(x, n as i32 & 7), |x, n| libm::yn(n as i32 & 7, x);
}
