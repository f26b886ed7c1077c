//! The list of all kernels, for whoever wants to treat them alike.

use cuda_std::launch::KernelMeta;

use crate::mlp::{
    activation, batch, fused_backward, fused_forward, fused_loss, fused_update, linear, loss, sgd,
};
use crate::softmax::LADDER;

/// Every kernel of this crate.
pub const KERNELS: &[&KernelMeta] = &{
    // One after the other, since constants are made without iterators.
    let mut kernels = [MLP[0]; MLP.len() + softmax_kernels()];
    let mut len = 0;
    while len < MLP.len() {
        kernels[len] = MLP[len];
        len += 1;
    }
    let mut rung = 0;
    while rung < LADDER.len() {
        let mut variant = 0;
        while variant < LADDER[rung].variants.len() {
            kernels[len] = LADDER[rung].variants[variant].meta;
            (len, variant) = (len + 1, variant + 1);
        }
        rung += 1;
    }
    kernels
};

/// The kernels of the ladder.
const fn softmax_kernels() -> usize {
    let (mut kernels, mut rung) = (0, 0);
    while rung < LADDER.len() {
        kernels += LADDER[rung].variants.len();
        rung += 1;
    }
    kernels
}

/// The kernels of the network.
const MLP: &[&KernelMeta] = &[
    batch::shuffled_batch::META,
    batch::ordered_batch::META,
    linear::linear_forward::META,
    linear::linear_backward_input::META,
    activation::relu_forward::META,
    activation::relu_backward::META,
    loss::softmax_naive::META,
    loss::cross_entropy_loss::META,
    loss::cross_entropy_backward::META,
    loss::one_hot::META,
    loss::count_correct::META,
    sgd::update_layer::META,
    fused_forward::linear_relu_forward_64x64::META,
    fused_forward::linear_relu_forward_64x32::META,
    fused_forward::linear_relu_forward_32x32::META,
    fused_forward::linear_forward_64x64::META,
    fused_forward::linear_forward_64x32::META,
    fused_forward::linear_forward_32x32::META,
    fused_loss::softmax_cross_entropy::META,
    fused_backward::linear_relu_backward_64x64::META,
    fused_backward::linear_relu_backward_64x32::META,
    fused_backward::linear_relu_backward_32x32::META,
    fused_update::linear_update_64x64::META,
    fused_update::linear_update_64x32::META,
    fused_update::linear_update_32x32::META,
];
