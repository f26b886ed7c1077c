//! The float functions of `cuda_std` as kernels.
//!
//! `scan_NAME` evaluates a function of one `f32` for all numbers there are, and compares it with the same function of `f64`
//! on the device, which finds the inputs with the largest errors; the host judges these by an oracle of its own. The other
//! kernels evaluate a function for given inputs.

mod error;
#[cfg(not(target_arch = "nvptx64"))]
mod oracle;
mod table;

pub use error::{Class, DOUBLE, Format, SINGLE, class, flushed, is_tiny, units};
pub use table::*;

use cuda_std::thread;

/// What a thread of a scan has found.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Worst {
    /// The bits of the input with the largest error, of that error as `f32`, and of the result.
    pub input: u32,
    /// The error in units in the last place.
    pub error: f32,
    /// The bits of the result.
    pub result: u32,
    /// How many inputs gave a result of another class: NaN, or a zero of the other sign.
    pub others: u32,
    /// The bits of one of these inputs, and of its result.
    pub other_input: u32,
    /// The bits of that result.
    pub other_result: u32,
}

/// Each thread takes `count` inputs, `first` and its own index being the bits of the first one, as many apart as there are
/// threads.
#[inline(always)]
fn scan<F: Unary>(first: u32, count: u32, worst: *mut Worst) {
    let threads = thread::grid_dim_x() * thread::block_dim_x();
    let mut found = Worst { error: -1.0, ..Worst::default() };
    for step in 0..count {
        let input = first.wrapping_add(thread::index_1d()).wrapping_add(step.wrapping_mul(threads));
        let x = f32::from_bits(input);
        let (result, exact) = (F::single(x), F::double(f64::from(x)));
        if class(f64::from(result)) != class(exact) && !is_tiny(exact, f64::from(result)) {
            found.others += 1;
            (found.other_input, found.other_result) = (input, result.to_bits());
        }
        let error = units(f64::from(result), exact, SINGLE) as f32;
        if error > found.error {
            (found.input, found.error, found.result) = (input, error, result.to_bits());
        }
    }
    // SAFETY: the caller of the kernel promises an element for each thread.
    unsafe { *worst.add(thread::index_1d() as usize) = found }
}

/// Evaluates a function for the inputs whose bits are `first`, `first + stride`, and so on.
#[inline(always)]
fn list<F: Unary>(first: u32, stride: u32, count: u32, out: *mut f32) {
    let index = thread::index_1d();
    if index < count {
        let x = f32::from_bits(first.wrapping_add(index.wrapping_mul(stride)));
        // SAFETY: the caller of the kernel promises `count` elements.
        unsafe { *out.add(index as usize) = F::single(x) }
    }
}

/// `out[i] = f(x[i], y[i])`.
///
/// # Safety
/// The pointers are valid for `count` elements, and no other thread uses `out`.
#[inline(always)]
unsafe fn pairs<T: Copy>(x: *const T, y: *const T, count: u32, out: *mut T, f: impl Fn(T, T) -> T) {
    let index = thread::index_1d() as usize;
    if index < count as usize {
        // SAFETY: the caller's promise.
        unsafe { *out.add(index) = f(*x.add(index), *y.add(index)) }
    }
}
