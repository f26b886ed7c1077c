//! The rectified linear unit, one thread per element.

use cuda_std::{kernel, thread};

/// Computes `out = max(inp, 0)`, both `[rows, cols]`.
///
/// NaN becomes 0, as in the comparison `inp > 0`. Launched with a grid of at least `cols` x `rows` threads.
///
/// # Safety
/// `out` holds `rows * cols` elements that no other code uses; `inp` holds at least as many.
#[kernel]
pub unsafe fn relu_forward(out: *mut f32, inp: &[f32], rows: u32, cols: u32) {
    let (col, row) = (thread::index_2d().x as usize, thread::index_2d().y as usize);
    if row < rows as usize && col < cols as usize {
        let i = row * cols as usize + col;
        let x = inp[i];
        // SAFETY: `i` lies in the shape of `out`, and only this thread writes the element.
        unsafe { *out.add(i) = if x > 0.0 { x } else { 0.0 } };
    }
}

/// Computes `d_inp`: `d_out` where the activation is positive, otherwise 0; all `[rows, cols]`.
///
/// `activations` is the output of [`relu_forward`](fn@relu_forward), or its input: both have the same sign. Launched with a
/// grid of at least `cols` x `rows` threads.
///
/// # Safety
/// `d_inp` holds `rows * cols` elements that no other code uses; `d_out` and `activations` hold at least as many.
#[kernel]
pub unsafe fn relu_backward(d_inp: *mut f32, d_out: &[f32], activations: &[f32], rows: u32, cols: u32) {
    let (col, row) = (thread::index_2d().x as usize, thread::index_2d().y as usize);
    if row < rows as usize && col < cols as usize {
        let i = row * cols as usize + col;
        // SAFETY: `i` lies in the shape of `d_inp`, and only this thread writes the element.
        unsafe { *d_inp.add(i) = if activations[i] > 0.0 { d_out[i] } else { 0.0 } };
    }
}
