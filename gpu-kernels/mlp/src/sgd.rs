//! The step of stochastic gradient descent, one thread per weight.

use cuda_std::{float, kernel, thread};

/// Computes one SGD step of a layer, averaged over the batch.
///
/// The gradient of the weights is `activations^T * d_out / batch`; that of the biases is the column mean of `d_out`. With
/// momentum `m`, a velocity `v = m * v + gradient` is kept and `-lr * v` added, as in PyTorch's SGD. With momentum 0 the
/// velocities are neither read nor written, and may be any pointer.
///
/// `activations` `[batch, inputs]` is the layer's input, `d_out` `[batch, outputs]` the gradient of its output, `weights`
/// and `weight_velocity` `[inputs, outputs]`, `biases` and `bias_velocity` `[outputs]`. Launched with a grid of at least
/// `outputs` x `inputs` threads (x, y); the first row of threads updates the biases.
///
/// # Safety
/// All pointers and slices hold the elements of their shapes, and no other code uses those that are written.
#[kernel]
pub unsafe fn update_layer(
    weights: *mut f32,
    biases: *mut f32,
    weight_velocity: *mut f32,
    bias_velocity: *mut f32,
    activations: &[f32],
    d_out: &[f32],
    batch: u32,
    inputs: u32,
    outputs: u32,
    lr: f32,
    momentum: f32,
) {
    let (col, row) = super::col_and_row();
    let (batch, inputs, outputs) = (batch as usize, inputs as usize, outputs as usize);
    if row < inputs && col < outputs {
        let mut d_weight = 0.0;
        let mut d_bias = 0.0;
        for sample in 0..batch {
            let d = d_out[sample * outputs + col];
            d_weight += activations[sample * inputs + row] * d;
            d_bias += d;
        }
        let i = row * outputs + col;
        // SAFETY: `i` and `col` lie in the shapes; one thread writes each weight, and only row 0 writes the biases.
        unsafe {
            step(weights.add(i), weight_velocity.wrapping_add(i), d_weight / batch as f32, lr, momentum);
            if row == 0 {
                step(biases.add(col), bias_velocity.wrapping_add(col), d_bias / batch as f32, lr, momentum);
            }
        }
    }
}

/// Moves one parameter against its gradient.
///
/// Without gradients a velocity shrinks until it is subnormal, and stays so: 0.9 times the smallest number rounds back to
/// it. On a CPU this would slow every step down, so the velocity is flushed to 0.
///
/// # Safety
/// `parameter` is valid for reads and writes, and so is `velocity` unless `momentum` is 0.
#[inline(always)]
pub(super) unsafe fn step(parameter: *mut f32, velocity: *mut f32, gradient: f32, lr: f32, momentum: f32) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut direction = gradient;
        if momentum != 0.0 {
            direction = float::flush_subnormal(momentum * *velocity + gradient);
            *velocity = direction;
        }
        *parameter -= lr * direction;
    }
}
