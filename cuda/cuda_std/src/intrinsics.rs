//! The functions of libdevice, under their own names without the prefix `__nv_`: `sinf` is `__nv_sinf`.
//!
//! All integers are signed, as in Rust-CUDA: `brev`, `popc` and `umulhi` take and return an `i32`. NVIDIA's "libdevice
//! user's guide" and the CUDA math API document each function and its accuracy. They are foreign functions and therefore
//! `unsafe`. Functions of plain numbers have no precondition; functions with pointers write through them. They exist only on
//! the device. Kernels that also run on the CPU use [`crate::GpuFloat`], [`crate::FloatExt`] or [`crate::fastmath`] instead.

#[cfg(any(target_arch = "nvptx64", doc))]
macro_rules! libdevice {
    ($(fn $args:tt -> $ret:ty: $($name:ident),*;)*) => {$($(
        libdevice! { @one $name $args -> $ret }
    )*)*};
    (@one $name:ident ($($arg:ty),*) -> $ret:ty) => {
        unsafe extern "C" {
            #[doc = concat!("libdevice's `__nv_", stringify!($name), "`.")]
            #[link_name = concat!("__nv_", stringify!($name))]
            pub fn $name($(_: $arg),*) -> $ret;
        }
    };
}

#[cfg(any(target_arch = "nvptx64", doc))]
libdevice! {
    fn(i32) -> i32:
        clz, abs, ffs;
    fn(i64) -> i32:
        clzll, ffsll;
    fn(i32) -> i32:
        popc;
    fn(i64) -> i32:
        popcll;
    fn(i32, i32, i32) -> i32:
        byte_perm, usad;
    fn(i32, i32) -> i32:
        min, max, mulhi, mul24, hadd, rhadd;
    fn(i32, i32) -> i32:
        umin, umax, umulhi, umul24, uhadd, urhadd;
    fn(i64, i64) -> i64:
        llmin, llmax, mul64hi;
    fn(i64, i64) -> i64:
        ullmin, ullmax, umul64hi;
    fn(i32) -> i32:
        brev;
    fn(i64) -> i64:
        brevll;
    fn(i32, i32, i32) -> i32:
        sad;
    fn(i64) -> i64:
        llabs;
    fn(f32) -> f32:
        floorf, fabsf, rsqrtf, exp2f, truncf, ceilf, saturatef, frcp_rn, frcp_rz, frcp_rd, frcp_ru,
        fsqrt_rn, fsqrt_rz, fsqrt_rd, fsqrt_ru, sqrtf, fast_sinf, fast_cosf, fast_log2f, fast_logf,
        fast_expf, fast_tanhf, tanhf, fast_tanf, fast_exp10f, fast_log10f, frsqrt_rn, rintf, nearbyintf,
        sinf, cosf, sinpif, cospif, tanf, log2f, expf, exp10f, coshf, sinhf, atanf, asinf, acosf, logf,
        log10f, log1pf, acoshf, asinhf, atanhf, expm1f, cbrtf, rcbrtf, j0f, j1f, y0f, y1f, cyl_bessel_i0f,
        cyl_bessel_i1f, erff, erfinvf, erfcf, erfcxf, erfcinvf, normcdfinvf, normcdff, lgammaf, tgammaf,
        roundf, logbf;
    fn(f64) -> f64:
        floor, fabs, rcp64h, rsqrt, ceil, trunc, drcp_rn, drcp_rz, drcp_rd, drcp_ru, dsqrt_rn, dsqrt_rz,
        dsqrt_rd, dsqrt_ru, sqrt, rint, nearbyint, sin, cos, sinpi, cospi, tan, log, log2, log10, log1p,
        exp, exp2, exp10, expm1, cosh, sinh, tanh, atan, asin, acos, acosh, asinh, atanh, cbrt, rcbrt, j0,
        j1, y0, y1, cyl_bessel_i0, cyl_bessel_i1, erf, erfinv, erfcinv, normcdfinv, erfc, erfcx, normcdf,
        tgamma, lgamma, round, logb;
    fn(f32, f32) -> f32:
        fminf, fmaxf, fast_fdividef, fdiv_rn, fdiv_rz, fdiv_rd, fdiv_ru, fadd_rd, fadd_ru, fmul_rd, fmul_ru,
        fadd_rn, fadd_rz, fmul_rn, fmul_rz, fast_powf, fsub_rn, fsub_rz, fsub_rd, fsub_ru, copysignf,
        nextafterf, atan2f, hypotf, rhypotf, fmodf, remainderf, powf, fdimf;
    fn(f64, f64) -> f64:
        fmin, fmax, ddiv_rn, ddiv_rz, ddiv_rd, ddiv_ru, dadd_rn, dadd_rz, dadd_rd, dadd_ru, dmul_rn,
        dmul_rz, dmul_rd, dmul_ru, copysign, atan2, hypot, rhypot, pow, fmod, remainder, nextafter, dsub_rn,
        dsub_rz, dsub_ru, dsub_rd, fdim;
    fn(f32, f32, f32) -> f32:
        fmaf_rn, fmaf_rz, fmaf_rd, fmaf_ru, fmaf_ieee_rn, fmaf_ieee_rz, fmaf_ieee_rd, fmaf_ieee_ru, norm3df,
        rnorm3df, fmaf;
    fn(f64, f64, f64) -> f64:
        fma_rn, fma_rz, fma_rd, fma_ru, norm3d, rnorm3d, fma;
    fn(f64) -> f32:
        double2float_rn, double2float_rz, double2float_rd, double2float_ru;
    fn(f64) -> i32:
        double2int_rn, double2int_rz, double2int_rd, double2int_ru, double2loint, double2hiint, signbitd,
        isfinited, isinfd, isnand, ilogb;
    fn(f64) -> i32:
        double2uint_rn, double2uint_rz, double2uint_rd, double2uint_ru;
    fn(i32) -> f64:
        int2double_rn;
    fn(i32) -> f64:
        uint2double_rn;
    fn(f32) -> i32:
        float2int_rn, float2int_rz, float2int_rd, float2int_ru, float_as_int, isnanf, signbitf, finitef,
        isinff, ilogbf;
    fn(f32) -> i32:
        float2uint_rn, float2uint_rz, float2uint_rd, float2uint_ru, float_as_uint;
    fn(i32) -> f32:
        int2float_rn, int2float_rz, int2float_rd, int2float_ru, int_as_float;
    fn(i32) -> f32:
        uint2float_rn, uint2float_rz, uint2float_rd, uint2float_ru, uint_as_float;
    fn(i32, i32) -> f64:
        hiloint2double;
    fn(f32) -> i64:
        float2ll_rn, float2ll_rz, float2ll_rd, float2ll_ru, llrintf, llroundf;
    fn(f32) -> i64:
        float2ull_rn, float2ull_rz, float2ull_rd, float2ull_ru;
    fn(f64) -> i64:
        double2ll_rn, double2ll_rz, double2ll_rd, double2ll_ru, double_as_longlong, llrint, llround;
    fn(f64) -> i64:
        double2ull_rn, double2ull_rz, double2ull_rd, double2ull_ru;
    fn(i64) -> f32:
        ll2float_rn, ll2float_rz, ll2float_rd, ll2float_ru;
    fn(i64) -> f32:
        ull2float_rn, ull2float_rz, ull2float_rd, ull2float_ru;
    fn(i64) -> f64:
        ll2double_rn, ll2double_rz, ll2double_rd, ll2double_ru, longlong_as_double;
    fn(i64) -> f64:
        ull2double_rn, ull2double_rz, ull2double_rd, ull2double_ru;
    fn(f32) -> i16:
        float2half_rn;
    fn(i16) -> f32:
        half2float;
    fn(f32, *mut f32, *mut f32) -> ():
        fast_sincosf, sincosf, sincospif;
    fn(*mut i8) -> f32:
        nanf;
    fn(f32, f32, f32, f32) -> f32:
        norm4df, rnorm4df;
    fn(i32, *const f32) -> f32:
        normf, rnormf;
    fn(i32, f32) -> f32:
        ynf, jnf;
    fn(f32, i32) -> f32:
        ldexpf, scalbnf, powif;
    fn(f32, *mut i32) -> f32:
        frexpf;
    fn(f32, *mut f32) -> f32:
        modff;
    fn(f32, f32, *mut i32) -> f32:
        remquof;
    fn(f64, i32) -> f64:
        powi, ldexp, scalbn;
    fn(f64, *mut f64, *mut f64) -> ():
        sincos, sincospi;
    fn(f64, f64, f64, f64) -> f64:
        norm4d, rnorm4d;
    fn(i32, *const f64) -> f64:
        norm, rnorm;
    fn(i32, f64) -> f64:
        yn, jn;
    fn(f64, *mut i32) -> f64:
        frexp;
    fn(f64, *mut f64) -> f64:
        modf;
    fn(f64, f64, *mut i32) -> f64:
        remquo;
    fn(*mut i8) -> f64:
        nan;
}
