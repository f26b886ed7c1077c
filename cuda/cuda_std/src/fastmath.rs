//! The approximate functions of the hardware, one instruction each.
//!
//! The errors according to the PTX ISA: `ex2.approx`, `rcp.approx`, `rsqrt.approx`, `sqrt.approx` within about 2 units
//! in the last place, `lg2.approx` within 2^-22 near 1, `sin.approx` and `cos.approx` within 2^-20 for arguments of at
//! most 2 pi, `tanh.approx` within 2^-11 relative. The `_ftz` forms flush subnormal arguments and results to zero. On
//! the host the functions are those of [`GpuFloat`] and `std`.

#[cfg(not(target_arch = "nvptx64"))]
use crate::GpuFloat;

/// Flushes a subnormal number to zero of the same sign.
#[cfg(not(target_arch = "nvptx64"))]
#[inline]
fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident = $ptx:literal, $llvm:literal, |$x:ident| $host:expr;)*) => {$(
        $(#[$doc])*
        #[doc(alias = $ptx)]
        #[inline(always)]
        pub fn $name($x: f32) -> f32 {
            #[cfg(target_arch = "nvptx64")]
            {
                unsafe extern "C" {
                    #[link_name = $llvm]
                    fn instruction(x: f32) -> f32;
                }
                // SAFETY: the instruction only computes a number.
                unsafe { instruction($x) }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                $host
            }
        }
    )*};
}

unary! {
    /// 2 to the power `x`.
    ex2_approx = "ex2.approx.f32", "llvm.nvvm.ex2.approx.f", |x| GpuFloat::exp2(x);
    /// 2 to the power `x`; subnormals are zero.
    ex2_approx_ftz = "ex2.approx.ftz.f32", "llvm.nvvm.ex2.approx.ftz.f", |x| flush(GpuFloat::exp2(flush(x)));
    /// The logarithm of `x` to base 2.
    lg2_approx = "lg2.approx.f32", "llvm.nvvm.lg2.approx.f", |x| x.log2();
    /// The logarithm of `x` to base 2; subnormals are zero.
    lg2_approx_ftz = "lg2.approx.ftz.f32", "llvm.nvvm.lg2.approx.ftz.f", |x| flush(flush(x).log2());
    /// 1 / `x`; subnormals are zero.
    rcp_approx_ftz = "rcp.approx.ftz.f32", "llvm.nvvm.rcp.approx.ftz.f", |x| flush(1.0 / flush(x));
    /// 1 / the square root of `x`.
    rsqrt_approx = "rsqrt.approx.f32", "llvm.nvvm.rsqrt.approx.f", |x| 1.0 / x.sqrt();
    /// 1 / the square root of `x`; subnormals are zero.
    rsqrt_approx_ftz = "rsqrt.approx.ftz.f32", "llvm.nvvm.rsqrt.approx.ftz.f", |x| flush(1.0 / flush(x).sqrt());
    /// The square root of `x`.
    sqrt_approx = "sqrt.approx.f32", "llvm.nvvm.sqrt.approx.f", |x| x.sqrt();
    /// The square root of `x`; subnormals are zero.
    sqrt_approx_ftz = "sqrt.approx.ftz.f32", "llvm.nvvm.sqrt.approx.ftz.f", |x| flush(flush(x).sqrt());
    /// The sine of `x` radians.
    sin_approx = "sin.approx.f32", "llvm.nvvm.sin.approx.f", |x| x.sin();
    /// The sine of `x` radians; subnormals are zero.
    sin_approx_ftz = "sin.approx.ftz.f32", "llvm.nvvm.sin.approx.ftz.f", |x| flush(flush(x).sin());
    /// The cosine of `x` radians.
    cos_approx = "cos.approx.f32", "llvm.nvvm.cos.approx.f", |x| x.cos();
    /// The cosine of `x` radians; subnormals are zero.
    cos_approx_ftz = "cos.approx.ftz.f32", "llvm.nvvm.cos.approx.ftz.f", |x| flush(flush(x).cos());
}

/// Functions with an intrinsic in libNVVM but not in LLVM, as assembly.
macro_rules! assembly {
    ($($(#[$doc:meta])* $name:ident = $ptx:literal, |$x:ident| $host:expr;)*) => {$(
        $(#[$doc])*
        #[doc(alias = $ptx)]
        #[inline(always)]
        pub fn $name($x: f32) -> f32 {
            #[cfg(target_arch = "nvptx64")]
            {
                let result;
                // SAFETY: the instruction only computes a number.
                unsafe {
                    core::arch::asm!(concat!($ptx, " {}, {};"), out(reg32) result, in(reg32) $x,
                        options(pure, nomem, nostack, preserves_flags));
                }
                result
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                $host
            }
        }
    )*};
}

assembly! {
    /// 1 / `x`.
    rcp_approx = "rcp.approx.f32", |x| 1.0 / x;
    /// The hyperbolic tangent of `x`. Compute capability 7.5 and later; the instruction has no `ftz` form.
    tanh_approx = "tanh.approx.f32", |x| x.tanh();
}

macro_rules! quotients {
    ($($(#[$doc:meta])* $name:ident = $ptx:literal, $llvm:literal, |$a:ident, $b:ident| $host:expr;)*) => {$(
        $(#[$doc])*
        #[doc(alias = $ptx)]
        #[inline(always)]
        pub fn $name($a: f32, $b: f32) -> f32 {
            #[cfg(target_arch = "nvptx64")]
            {
                unsafe extern "C" {
                    #[link_name = $llvm]
                    fn instruction(a: f32, b: f32) -> f32;
                }
                // SAFETY: the instruction only computes a number.
                unsafe { instruction($a, $b) }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                $host
            }
        }
    )*};
}

quotients! {
    /// `a` / `b` as `a` times the reciprocal of `b`, for `b` between 2^-126 and 2^126.
    div_approx = "div.approx.f32", "llvm.nvvm.div.approx.f", |a, b| a / b;
    /// `a` / `b` as `a` times the reciprocal of `b`; subnormals are zero.
    div_approx_ftz = "div.approx.ftz.f32", "llvm.nvvm.div.approx.ftz.f", |a, b| flush(flush(a) / flush(b));
}

/// The exponential of `x`: [`ex2_approx`] of `x` times the logarithm of e to base 2, two instructions. The relative
/// error grows with `x`, as for CUDA's `__expf`: about (2 + 1.16 |x|) units in the last place.
#[doc(alias = "__expf")]
#[inline(always)]
pub fn exp_approx(x: f32) -> f32 {
    ex2_approx(x * core::f32::consts::LOG2_E)
}

/// The natural logarithm of `x`: [`lg2_approx`] times the natural logarithm of 2, two instructions.
#[doc(alias = "__logf")]
#[inline(always)]
pub fn ln_approx(x: f32) -> f32 {
    lg2_approx(x) * core::f32::consts::LN_2
}
