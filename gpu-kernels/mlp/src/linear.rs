//! The linear layer, one thread per output element.

use cuda_std::{kernel, thread};

/// Computes `out = inp * weights + biases`: `[batch, outputs] = [batch, inputs] [inputs, outputs] + [outputs]`.
///
/// Launched with a grid of at least `outputs` x `batch` threads (x, y).
///
/// # Safety
/// `out` holds `batch * outputs` elements that no other code uses; `inp`, `weights` and `biases` hold at least the elements
/// of their shapes.
#[kernel]
pub unsafe fn linear_forward(
    out: *mut f32,
    inp: &[f32],
    weights: &[f32],
    biases: &[f32],
    batch: u32,
    inputs: u32,
    outputs: u32,
) {
    let (col, row) = (thread::index_2d().x as usize, thread::index_2d().y as usize);
    let (inputs, outputs) = (inputs as usize, outputs as usize);
    if row < batch as usize && col < outputs {
        let mut sum = biases[col];
        for i in 0..inputs {
            sum += inp[row * inputs + i] * weights[i * outputs + col];
        }
        // SAFETY: row and col lie in the shape of `out`, and only this thread writes the element.
        unsafe { *out.add(row * outputs + col) = sum };
    }
}

/// Computes `d_inp = d_out * weights^T`: `[batch, inputs] = [batch, outputs] [inputs, outputs]^T`.
///
/// Launched with a grid of at least `inputs` x `batch` threads (x, y).
///
/// # Safety
/// `d_inp` holds `batch * inputs` elements that no other code uses; `d_out` and `weights` hold at least the elements of
/// their shapes.
#[kernel]
pub unsafe fn linear_backward_input(
    d_inp: *mut f32,
    d_out: &[f32],
    weights: &[f32],
    batch: u32,
    inputs: u32,
    outputs: u32,
) {
    let (col, row) = (thread::index_2d().x as usize, thread::index_2d().y as usize);
    let (inputs, outputs) = (inputs as usize, outputs as usize);
    if row < batch as usize && col < inputs {
        let mut sum = 0.0;
        for o in 0..outputs {
            sum += d_out[row * outputs + o] * weights[col * outputs + o];
        }
        // SAFETY: row and col lie in the shape of `d_inp`, and only this thread writes the element.
        unsafe { *d_inp.add(row * inputs + col) = sum };
    }
}
