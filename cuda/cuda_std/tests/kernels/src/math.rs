//! Approximate functions and libdevice.

use cuda_std::{FloatExt, GpuFloat, fastmath};

kernels! {
    //@ ptx: ex2.approx.f32 == 1
    //@ ptx: lg2.approx.f32 == 1
    //@ ptx: rcp.approx.f32 == 1
    //@ ptx: rsqrt.approx.f32 == 1
    //@ ptx: sqrt.approx.f32 == 1
    //@ ptx: sin.approx.f32 == 1
    //@ ptx: cos.approx.f32 == 1
    //@ ptx: tanh.approx.f32 == 1
    //@ ptx: div.approx.f32 == 1
    math_approx(out: *mut f32, x: f32, y: f32) {
        let sum = fastmath::ex2_approx(x) + fastmath::lg2_approx(x) + fastmath::rcp_approx(x);
        let sum = sum + fastmath::rsqrt_approx(x) + fastmath::sqrt_approx(x) + fastmath::sin_approx(x);
        *out = sum + fastmath::cos_approx(x) + fastmath::tanh_approx(x) + fastmath::div_approx(x, y);
    }

    //@ ptx: ex2.approx.ftz.f32 == 1
    //@ ptx: lg2.approx.ftz.f32 == 1
    //@ ptx: rcp.approx.ftz.f32 == 1
    //@ ptx: rsqrt.approx.ftz.f32 == 1
    //@ ptx: sqrt.approx.ftz.f32 == 1
    //@ ptx: sin.approx.ftz.f32 == 1
    //@ ptx: cos.approx.ftz.f32 == 1
    //@ ptx: div.approx.ftz.f32 == 1
    math_approx_ftz(out: *mut f32, x: f32, y: f32) {
        let sum = fastmath::ex2_approx_ftz(x) + fastmath::lg2_approx_ftz(x) + fastmath::rcp_approx_ftz(x);
        let sum = sum + fastmath::rsqrt_approx_ftz(x) + fastmath::sqrt_approx_ftz(x) + fastmath::sin_approx_ftz(x);
        *out = sum + fastmath::cos_approx_ftz(x) + fastmath::div_approx_ftz(x, y);
    }

    //@ ptx: ex2.approx.f32 == 1
    //@ ptx: mul.f32 == 1
    math_exp_approx(out: *mut f32, x: f32) { *out = fastmath::exp_approx(x); }

    //@ ptx: sqrt.rn.f32 == 1
    //@ ptx: fma.rn.f32 == 1
    //@ ptx: cvt.rmi.f32.f32 == 1
    //@ ptx: call == 0
    math_exact(out: *mut f32, x: f32) {
        *out = GpuFloat::sqrt(x);
        *out.add(1) = GpuFloat::mul_add(x, x, 1.0);
        *out.add(2) = GpuFloat::floor(x);
    }

    //@ ptx: ex2.approx.ftz.f32 >= 1
    math_exp(out: *mut f32, x: f32) { *out = GpuFloat::exp(x); }

    //@ ptx: fma.rn.f64 >= 5
    math_exp_f64(out: *mut f64, x: f64) { *out = GpuFloat::exp(x); }

    //@ ptx: fma.rn.f32 >= 5
    math_all_f32(out: *mut f32, x: f32, y: f32) { *out = every_function(x, y); }

    //@ ptx: fma.rn.f64 >= 5
    math_all_f64(out: *mut f64, x: f64, y: f64) { *out = every_function(x, y); }

    //@ ptx: fma.rn.f32 >= 5
    math_ext_f32(out: *mut f32, x: f32) { *out = every_extension(x) + x.saturate(); }

    //@ ptx: fma.rn.f64 >= 5
    math_ext_f64(out: *mut f64, x: f64) { *out = every_extension(x) + x.saturate(); }
}

fn every_function<T: GpuFloat + core::iter::Sum>(x: T, y: T) -> T {
    let rounded = [x.floor(), x.ceil(), x.round(), x.trunc(), x.fract(), x.abs(), x.signum(), x.copysign(y)];
    let algebraic =
        [x.mul_add(y, x), x.div_euclid(y), x.rem_euclid(y), x.powi(3), x.powf(y), x.sqrt(), x.cbrt()];
    let exponential =
        [x.exp(), x.exp2(), x.exp_m1(), x.ln(), x.log(y), x.log2(), x.log10(), x.ln_1p(), x.hypot(y)];
    let circular = [x.sin(), x.cos(), x.tan(), x.asin(), x.acos(), x.atan(), x.atan2(y), x.sin_cos().0];
    let hyperbolic = [x.sinh(), x.cosh(), x.tanh(), x.asinh(), x.acosh(), x.atanh()];
    let sums = rounded.into_iter().chain(algebraic).chain(exponential);
    sums.chain(circular).chain(hyperbolic).sum()
}

fn every_extension<T: FloatExt + core::iter::Sum>(x: T) -> T {
    let pi = [x.cospi(), x.sinpi(), x.sincospi().0];
    let errors = [
        x.error_function(),
        x.complementary_error_function(),
        x.inv_complementary_error_function(),
        x.scaled_complementary_error_function(),
        x.norm_cdf(),
        x.inv_norm_cdf(),
    ];
    let bessel = [x.j0(), x.j1(), x.jn(3), x.y0(), x.y1(), x.yn(3)];
    let scaled = [x.frexp().0, x.ldexp(x.frexp().1), x.scale_by_n(x.unbiased_exp())];
    let others = [x.log_gamma(), x.gamma(), x.log1p(), x.rcbrt()];
    pi.into_iter().chain(errors).chain(bessel).chain(scaled).chain(others).sum()
}
