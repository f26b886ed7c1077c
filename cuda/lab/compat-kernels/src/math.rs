//! Mathematics with `GpuFloat`, closures and iterators.
//@ allow-local(damped_sine_f64): libdevice's f64 sine reduces large arguments in an array that it indexes at run time

use cuda_std::kernel;
use cuda_std::thread;
use cuda_std::GpuFloat;

/// A generic helper over both float types.
fn swing<T: GpuFloat + core::ops::Mul<Output = T> + core::ops::Neg<Output = T>>(t: T) -> T {
    t.sin() * (-(t.abs())).exp()
}

/// out = a damped sine of inp, element by element.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn damped_sine(inp: &[f32], out: *mut f32) {
    let i = thread::index_1d() as usize;
    if i < inp.len() {
        *out.add(i) = swing(inp[i]);
    }
}

/// out = a damped sine of inp in double precision.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn damped_sine_f64(inp: &[f64], out: *mut f64) {
    let i = thread::index_1d() as usize;
    if i < inp.len() {
        *out.add(i) = swing(inp[i]);
    }
}

/// The Gaussian error linear unit, from the tanh formula.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn gelu(inp: &[f32], out: *mut f32) {
    let i = thread::index_1d() as usize;
    if i >= inp.len() {
        return;
    }
    let x = inp[i];
    let inner = 0.797_884_6 * (x + 0.044_715 * x.powi(3));
    *out.add(i) = 0.5 * x * (1.0 + inner.tanh());
}

/// Applies `f` to the window of `2 * radius + 1` elements around `i`, truncated at the ends.
fn window<R>(inp: &[f32], i: usize, radius: usize, f: impl Fn(&[f32]) -> R) -> R {
    let first = i.saturating_sub(radius);
    let last = (i + radius + 1).min(inp.len());
    f(&inp[first..last])
}

/// out = mean and standard deviation of the window around every element, interleaved.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn moving_statistics(inp: &[f32], radius: usize, out: *mut f32) {
    // A stride of the whole grid, so that any grid covers any length.
    let stride = (thread::grid_dim_x() * thread::block_dim_x()) as usize;
    for i in (thread::index_1d() as usize..inp.len()).step_by(stride) {
        let (mean, deviation) = window(inp, i, radius, |values| {
            let count = values.len() as f32;
            let mean = values.iter().sum::<f32>() / count;
            let variance = values.iter().map(|x| (x - mean) * (x - mean)).fold(0.0, |a, b| a + b) / count;
            (mean, variance.sqrt())
        });
        *out.add(2 * i) = mean;
        *out.add(2 * i + 1) = deviation;
    }
}
