//! The list of all kernels, for whoever wants to treat them alike.

use cuda_std::launch::KernelMeta;

use crate::mlp::{activation, batch, fused_backward, fused_forward, fused_update, linear, loss, sgd};
use crate::softmax::{LADDER, backward, cross_entropy, forward_tiers};

/// Every kernel of this crate.
pub const KERNELS: &[&KernelMeta] = ALL.kernels.split_at(ALL.len).0;

const ALL: List = {
    let mut all = List { kernels: [MLP[0]; 512], len: 0 }.with(MLP);
    let mut i = 0;
    while i < LADDER.len() {
        all = all.with_rung(&LADDER[i]);
        i += 1;
    }
    all.with(forward_tiers::softmax::KERNELS)
        .with(forward_tiers::reduce::KERNELS)
        .with(forward_tiers::write::KERNELS)
        .with(cross_entropy::cross_entropy_rows::KERNELS)
        .with(backward::softmax_backward::KERNELS)
};

/// A list that grows while the crate compiles, by loops, since constants are made without iterators.
struct List {
    kernels: [&'static KernelMeta; 512],
    len: usize,
}

impl List {
    const fn with(mut self, kernels: &[&'static KernelMeta]) -> Self {
        let mut i = 0;
        while i < kernels.len() {
            self.kernels[self.len] = kernels[i];
            self.len += 1;
            i += 1;
        }
        self
    }

    const fn with_rung(mut self, rung: &crate::softmax::Rung) -> Self {
        let mut i = 0;
        while i < rung.kernels.len() {
            self = self.with(&[rung.kernels[i].meta]);
            i += 1;
        }
        match rung.pair {
            Some([first, last]) => self.with(&[first.meta, last.meta]),
            None => self,
        }
    }
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
    fused_backward::linear_relu_backward_64x64::META,
    fused_backward::linear_relu_backward_64x32::META,
    fused_backward::linear_relu_backward_32x32::META,
    fused_update::linear_update_64x64::META,
    fused_update::linear_update_64x32::META,
    fused_update::linear_update_32x32::META,
];
