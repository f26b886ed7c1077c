//! The math functions of `std`'s floats, for kernels: libdevice on the device, `std` on the host.

#[cfg(target_arch = "nvptx64")]
use crate::intrinsics as nv;

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod host;
mod maximum;

pub use maximum::maximum;

/// Returns `x`, but on the host 0 for a subnormal number.
///
/// Use it for values that shrink from launch to launch and need not be exact. A GPU computes with subnormal numbers at
/// full speed, so there it costs no instruction. A CPU takes a hundred times as long for each, and cannot be set to flush
/// them to 0, because compiled code relies on the floating-point environment of Rust.
///
/// ```
/// use cuda_std::float::flush_subnormal;
///
/// assert_eq!(flush_subnormal(-1e-40), 0.0);
/// assert_eq!(flush_subnormal(f32::MIN_POSITIVE), f32::MIN_POSITIVE);
/// assert!(flush_subnormal(f32::NAN).is_nan());
/// ```
#[inline(always)]
pub fn flush_subnormal(x: f32) -> f32 {
    if !cfg!(target_arch = "nvptx64") && x.abs() < f32::MIN_POSITIVE { 0.0 } else { x }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// The methods of `std`'s `f32` and `f64` that `core` lacks, under the same names and with the same meaning.
///
/// On the host a plain `x.sin()` is `std`'s own method; the trait serves generic code. The errors on the device are
/// libdevice's (CUDA math API, "single/double precision functions"). On the host, `GpuFloat::exp` and `GpuFloat::exp2`
/// of `f32` are within 0.503 units in the last place and the same on every machine. In a loop over an array they become
/// vector instructions. `GpuFloat::asinh` is `libm`'s, since `std`'s is infinite if twice the number is; the others are
/// `std`'s. `docs/float-accuracy.md` lists the measured errors.
pub trait GpuFloat: Copy + PartialOrd + sealed::Sealed {
    /// The largest integer not above the number.
    fn floor(self) -> Self;
    /// The smallest integer not below the number.
    fn ceil(self) -> Self;
    /// The nearest integer, halves away from zero.
    fn round(self) -> Self;
    /// The integer part.
    fn trunc(self) -> Self;
    /// The fractional part, with the number's sign.
    fn fract(self) -> Self;
    /// The absolute value.
    fn abs(self) -> Self;
    /// 1 with the number's sign, or NaN.
    fn signum(self) -> Self;
    /// The number with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// The number times `a` plus `b`, rounded once.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// The quotient such that the remainder is not negative.
    fn div_euclid(self, rhs: Self) -> Self;
    /// The remainder that is not negative.
    fn rem_euclid(self, rhs: Self) -> Self;
    /// The power `n`.
    fn powi(self, n: i32) -> Self;
    /// The power `n`.
    fn powf(self, n: Self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// e to the power of the number.
    fn exp(self) -> Self;
    /// 2 to the power of the number.
    fn exp2(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The logarithm to `base`.
    fn log(self, base: Self) -> Self;
    /// The logarithm to base 2.
    fn log2(self) -> Self;
    /// The logarithm to base 10.
    fn log10(self) -> Self;
    /// The cube root.
    fn cbrt(self) -> Self;
    /// The hypotenuse of a right triangle with this leg and `other`.
    fn hypot(self, other: Self) -> Self;
    /// The sine, of radians.
    fn sin(self) -> Self;
    /// The cosine, of radians.
    fn cos(self) -> Self;
    /// The tangent, of radians.
    fn tan(self) -> Self;
    /// The arc sine, in radians.
    fn asin(self) -> Self;
    /// The arc cosine, in radians.
    fn acos(self) -> Self;
    /// The arc tangent, in radians.
    fn atan(self) -> Self;
    /// The angle of the point (`other`, self), in radians.
    fn atan2(self, other: Self) -> Self;
    /// Sine and cosine, of radians.
    fn sin_cos(self) -> (Self, Self);
    /// e to the power of the number, minus 1, exact near zero.
    fn exp_m1(self) -> Self;
    /// The natural logarithm of 1 plus the number, exact near zero.
    fn ln_1p(self) -> Self;
    /// The hyperbolic sine.
    fn sinh(self) -> Self;
    /// The hyperbolic cosine.
    fn cosh(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// The inverse hyperbolic sine.
    fn asinh(self) -> Self;
    /// The inverse hyperbolic cosine.
    fn acosh(self) -> Self;
    /// The inverse hyperbolic tangent.
    fn atanh(self) -> Self;
}

macro_rules! same_on_both {
    ($ty:ident: $($method:ident($($arg:ident: $arg_ty:ty),*) = $device:ident $(or $host:path)?;)*) => {$(
        #[inline(always)]
        fn $method(self $(, $arg: $arg_ty)*) -> Self {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: a libdevice function of plain numbers has no precondition.
            unsafe {
                nv::$device(self $(, $arg)*)
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let _of_host = <$ty>::$method;
                $(let _of_host = $host;)?
                _of_host(self $(, $arg)*)
            }
        }
    )*};
}

macro_rules! gpu_float {
    ($ty:ident, $sincos:ident, $($table:tt)*) => {
        impl GpuFloat for $ty {
            same_on_both! { $ty: $($table)* }

            #[inline(always)]
            fn fract(self) -> Self {
                self - GpuFloat::trunc(self)
            }

            #[inline(always)]
            fn signum(self) -> Self {
                if self.is_nan() { self } else { GpuFloat::copysign(1.0, self) }
            }

            #[inline(always)]
            fn div_euclid(self, rhs: Self) -> Self {
                let quotient = GpuFloat::trunc(self / rhs);
                if self % rhs < 0.0 {
                    return if rhs > 0.0 { quotient - 1.0 } else { quotient + 1.0 };
                }
                quotient
            }

            #[inline(always)]
            fn rem_euclid(self, rhs: Self) -> Self {
                let remainder = self % rhs;
                if remainder < 0.0 { remainder + GpuFloat::abs(rhs) } else { remainder }
            }

            #[inline(always)]
            fn log(self, base: Self) -> Self {
                GpuFloat::ln(self) / GpuFloat::ln(base)
            }

            #[inline(always)]
            fn sin_cos(self) -> (Self, Self) {
                #[cfg(target_arch = "nvptx64")]
                {
                    let (mut sin, mut cos) = (0.0, 0.0);
                    // SAFETY: both pointers are to local variables.
                    unsafe {
                        nv::$sincos(self, &raw mut sin, &raw mut cos);
                    }
                    (sin, cos)
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    <$ty>::sin_cos(self)
                }
            }
        }
    };
}

gpu_float! { f32, sincosf,
    floor() = floorf; ceil() = ceilf; round() = roundf; trunc() = truncf; abs() = fabsf;
    copysign(sign: Self) = copysignf; mul_add(a: Self, b: Self) = fmaf;
    powi(n: i32) = powif; powf(n: Self) = powf; sqrt() = sqrtf; cbrt() = cbrtf; hypot(other: Self) = hypotf;
    exp() = expf or host::exp; exp2() = exp2f or host::exp2; exp_m1() = expm1f;
    ln() = logf; log2() = log2f; log10() = log10f; ln_1p() = log1pf;
    sin() = sinf; cos() = cosf; tan() = tanf; asin() = asinf; acos() = acosf; atan() = atanf;
    atan2(other: Self) = atan2f;
    sinh() = sinhf; cosh() = coshf; tanh() = tanhf; asinh() = asinhf or libm::asinhf; acosh() = acoshf; atanh() = atanhf;
}

gpu_float! { f64, sincos,
    floor() = floor; ceil() = ceil; round() = round; trunc() = trunc; abs() = fabs;
    copysign(sign: Self) = copysign; mul_add(a: Self, b: Self) = fma;
    powi(n: i32) = powi; powf(n: Self) = pow; sqrt() = sqrt; cbrt() = cbrt; hypot(other: Self) = hypot;
    exp() = exp; exp2() = exp2; exp_m1() = expm1;
    ln() = log; log2() = log2; log10() = log10; ln_1p() = log1p;
    sin() = sin; cos() = cos; tan() = tan; asin() = asin; acos() = acos; atan() = atan;
    atan2(other: Self) = atan2;
    sinh() = sinh; cosh() = cosh; tanh() = tanh; asinh() = asinh or libm::asinh; acosh() = acosh; atanh() = atanh;
}

/// The functions of libdevice that `std` does not have.
///
/// On the host most are `libm`'s. Three have no counterpart there and panic: `inv_complementary_error_function`,
/// `scaled_complementary_error_function` and `inv_norm_cdf`.
pub trait FloatExt: Copy + sealed::Sealed {
    /// The cosine of the number times pi.
    fn cospi(self) -> Self;
    /// The sine of the number times pi.
    fn sinpi(self) -> Self;
    /// Sine and cosine of the number times pi.
    fn sincospi(self) -> (Self, Self);
    /// The error function.
    fn error_function(self) -> Self;
    /// 1 minus the error function.
    fn complementary_error_function(self) -> Self;
    /// The inverse of the complementary error function. Device only.
    fn inv_complementary_error_function(self) -> Self;
    /// The complementary error function times e to the square of the number. Device only.
    fn scaled_complementary_error_function(self) -> Self;
    /// The fraction, at least 0.5 and below 1, and the exponent: the number is the fraction times 2 to that power.
    fn frexp(self) -> (Self, i32);
    /// The exponent without bias.
    fn unbiased_exp(self) -> i32;
    /// The Bessel function of the first kind of order 0.
    fn j0(self) -> Self;
    /// The Bessel function of the first kind of order 1.
    fn j1(self) -> Self;
    /// The Bessel function of the first kind of order `n`.
    fn jn(self, n: i32) -> Self;
    /// The Bessel function of the second kind of order 0.
    fn y0(self) -> Self;
    /// The Bessel function of the second kind of order 1.
    fn y1(self) -> Self;
    /// The Bessel function of the second kind of order `n`.
    fn yn(self, n: i32) -> Self;
    /// The number times 2 to the power `exp`.
    fn ldexp(self, exp: i32) -> Self;
    /// The number times 2 to the power `n`.
    fn scale_by_n(self, n: i32) -> Self;
    /// The logarithm of the absolute value of the gamma function.
    fn log_gamma(self) -> Self;
    /// The gamma function.
    fn gamma(self) -> Self;
    /// The natural logarithm of 1 plus the number.
    fn log1p(self) -> Self;
    /// The share of the normal distribution below the number.
    fn norm_cdf(self) -> Self;
    /// The number below which this share of the normal distribution lies. Device only.
    fn inv_norm_cdf(self) -> Self;
    /// 1 / the cube root.
    fn rcbrt(self) -> Self;
    /// The number, between 0 and 1; NaN is 0.
    fn saturate(self) -> Self;
}

#[cfg(not(target_arch = "nvptx64"))]
#[cold]
#[track_caller]
fn device_only(name: &str) -> ! {
    panic!("FloatExt::{name} has no implementation on the CPU; it runs on a CUDA device only")
}

macro_rules! ext_methods {
    ($($method:ident($x:ident $(, $arg:ident: $arg_ty:ty)*) -> $ret:ty = $device:expr, $host:expr;)*) => {$(
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        fn $method(self $(, $arg: $arg_ty)*) -> $ret {
            let $x = self;
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: a libdevice function of plain numbers has no precondition; pointers are to locals.
            unsafe {
                $device
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                $host
            }
        }
    )*};
}

impl FloatExt for f32 {
    ext_methods! {
        cospi(x) -> Self = nv::cospif(x), host::cospi(f64::from(x)) as f32;
        sinpi(x) -> Self = nv::sinpif(x), host::sinpi(f64::from(x)) as f32;
        sincospi(x) -> (Self, Self) = {
            let (mut sin, mut cos) = (0.0, 0.0);
            nv::sincospif(x, &raw mut sin, &raw mut cos);
            (sin, cos)
        }, (x.sinpi(), x.cospi());
        error_function(x) -> Self = nv::erff(x), libm::erff(x);
        complementary_error_function(x) -> Self = nv::erfcf(x), libm::erfcf(x);
        inv_complementary_error_function(x) -> Self = nv::erfcinvf(x), {
            let _ = x;
            device_only("inv_complementary_error_function")
        };
        scaled_complementary_error_function(x) -> Self = nv::erfcxf(x), {
            let _ = x;
            device_only("scaled_complementary_error_function")
        };
        frexp(x) -> (Self, i32) = {
            let mut exponent = 0;
            let fraction = nv::frexpf(x, &raw mut exponent);
            (fraction, exponent)
        }, libm::frexpf(x);
        unbiased_exp(x) -> i32 = nv::ilogbf(x), libm::ilogbf(x);
        j0(x) -> Self = nv::j0f(x), libm::j0f(x);
        j1(x) -> Self = nv::j1f(x), libm::j1f(x);
        jn(x, n: i32) -> Self = nv::jnf(n, x), libm::jnf(n, x);
        y0(x) -> Self = nv::y0f(x), libm::y0f(x);
        y1(x) -> Self = nv::y1f(x), libm::y1f(x);
        yn(x, n: i32) -> Self = nv::ynf(n, x), libm::ynf(n, x);
        ldexp(x, exp: i32) -> Self = nv::ldexpf(x, exp), libm::ldexpf(x, exp);
        scale_by_n(x, n: i32) -> Self = nv::scalbnf(x, n), libm::scalbnf(x, n);
        log_gamma(x) -> Self = nv::lgammaf(x), libm::lgammaf(x);
        gamma(x) -> Self = nv::tgammaf(x), libm::tgammaf(x);
        log1p(x) -> Self = nv::log1pf(x), x.ln_1p();
        norm_cdf(x) -> Self = nv::normcdff(x), host::norm_cdf(f64::from(x)) as f32;
        inv_norm_cdf(x) -> Self = nv::normcdfinvf(x), {
            let _ = x;
            device_only("inv_norm_cdf")
        };
        rcbrt(x) -> Self = nv::rcbrtf(x), 1.0 / x.cbrt();
        saturate(x) -> Self = nv::saturatef(x), if x > 0.0 { x.min(1.0) } else { 0.0 };
    }
}

impl FloatExt for f64 {
    ext_methods! {
        cospi(x) -> Self = nv::cospi(x), host::cospi(x);
        sinpi(x) -> Self = nv::sinpi(x), host::sinpi(x);
        sincospi(x) -> (Self, Self) = {
            let (mut sin, mut cos) = (0.0, 0.0);
            nv::sincospi(x, &raw mut sin, &raw mut cos);
            (sin, cos)
        }, (x.sinpi(), x.cospi());
        error_function(x) -> Self = nv::erf(x), libm::erf(x);
        complementary_error_function(x) -> Self = nv::erfc(x), libm::erfc(x);
        inv_complementary_error_function(x) -> Self = nv::erfcinv(x), {
            let _ = x;
            device_only("inv_complementary_error_function")
        };
        scaled_complementary_error_function(x) -> Self = nv::erfcx(x), {
            let _ = x;
            device_only("scaled_complementary_error_function")
        };
        frexp(x) -> (Self, i32) = {
            let mut exponent = 0;
            let fraction = nv::frexp(x, &raw mut exponent);
            (fraction, exponent)
        }, libm::frexp(x);
        unbiased_exp(x) -> i32 = nv::ilogb(x), libm::ilogb(x);
        j0(x) -> Self = nv::j0(x), libm::j0(x);
        j1(x) -> Self = nv::j1(x), libm::j1(x);
        jn(x, n: i32) -> Self = nv::jn(n, x), libm::jn(n, x);
        y0(x) -> Self = nv::y0(x), libm::y0(x);
        y1(x) -> Self = nv::y1(x), libm::y1(x);
        yn(x, n: i32) -> Self = nv::yn(n, x), libm::yn(n, x);
        ldexp(x, exp: i32) -> Self = nv::ldexp(x, exp), libm::ldexp(x, exp);
        scale_by_n(x, n: i32) -> Self = nv::scalbn(x, n), libm::scalbn(x, n);
        log_gamma(x) -> Self = nv::lgamma(x), libm::lgamma(x);
        gamma(x) -> Self = nv::tgamma(x), libm::tgamma(x);
        log1p(x) -> Self = nv::log1p(x), x.ln_1p();
        norm_cdf(x) -> Self = nv::normcdf(x), host::norm_cdf(x);
        inv_norm_cdf(x) -> Self = nv::normcdfinv(x), {
            let _ = x;
            device_only("inv_norm_cdf")
        };
        rcbrt(x) -> Self = nv::rcbrt(x), 1.0 / x.cbrt();
        saturate(x) -> Self = nv::fmin(nv::fmax(x, 0.0), 1.0), if x > 0.0 { x.min(1.0) } else { 0.0 };
    }
}
