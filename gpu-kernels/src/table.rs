//! The list of all kernels, for whoever wants to treat them alike.

use cuda_std::launch::KernelMeta;

use crate::mlp::{activation, batch, fused_backward, fused_forward, fused_update, linear, loss, sgd};
use crate::softmax::backward::BACKWARD;
use crate::softmax::cross_entropy::CROSS_ENTROPY;
use crate::softmax::operation::{FORWARD, OfType, Tier};
use crate::softmax::{LADDER, Variant};

/// Every kernel of this crate.
pub const KERNELS: &[&KernelMeta] = ALL.kernels.split_at(ALL.len).0;

const ALL: List = {
    // One after the other, since constants are made without iterators.
    let mut all = List { kernels: [MLP[0]; 512], len: 0 };
    let mut i = 0;
    while i < MLP.len() {
        all = all.with(MLP[i]);
        i += 1;
    }
    let mut i = 0;
    while i < LADDER.len() {
        all = all.with_variants(LADDER[i].variants);
        i += 1;
    }
    let mut i = 0;
    while i < FORWARD.len() {
        let of_types = &FORWARD[i];
        all = all.with_tiers(of_types.tiers).with_tiers(of_types.clusters);
        all = all.with(of_types.serial.meta).with(of_types.split.reduce).with(of_types.split.write);
        i += 1;
    }
    all.with_types(CROSS_ENTROPY).with_types(BACKWARD)
};

/// A list that grows while the crate compiles.
struct List {
    kernels: [&'static KernelMeta; 512],
    len: usize,
}

impl List {
    const fn with(mut self, kernel: &'static KernelMeta) -> Self {
        self.kernels[self.len] = kernel;
        self.len += 1;
        self
    }

    const fn with_variants(mut self, variants: &[Variant]) -> Self {
        let mut i = 0;
        while i < variants.len() {
            let mut step = 0;
            while step < variants[i].steps.len() {
                self = self.with(variants[i].steps[step].meta);
                step += 1;
            }
            i += 1;
        }
        self
    }

    const fn with_tiers<A>(mut self, tiers: &[Tier<A>]) -> Self {
        let mut i = 0;
        while i < tiers.len() {
            self = self.with(tiers[i].meta);
            i += 1;
        }
        self
    }

    const fn with_types<A>(mut self, types: &[OfType<A>]) -> Self {
        let mut i = 0;
        while i < types.len() {
            self = self.with_tiers(types[i].tiers);
            i += 1;
        }
        self
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
