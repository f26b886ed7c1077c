//! The list of all kernels, module by module.

use cuda_std::launch::KernelMeta;

use crate::mlp::{
    activation, batch, fused_backward, fused_forward, head, linear, loss, resident, sgd, short,
};
use crate::softmax::{LADDER, backward, cross_entropy, forward_kernels, sample, serial, top_k};
use crate::{attention, axis, copy, gallery, matmul, norm};

/// Every kernel of this crate.
pub const KERNELS: &[&KernelMeta] = ALL.kernels.split_at(ALL.len).0;

const ALL: List = {
    let mut all = List { kernels: [batch::KERNELS[0]; 1024], len: 0 }
        .with(batch::KERNELS)
        .with(linear::KERNELS)
        .with(activation::KERNELS)
        .with(loss::KERNELS)
        .with(sgd::KERNELS)
        .with(fused_forward::linear_act_forward::KERNELS)
        .with(head::network_head::KERNELS)
        .with(fused_backward::linear_backward::KERNELS)
        .with(fused_backward::linear_updates::KERNELS)
        .with(short::first::KERNELS)
        .with(short::rows::KERNELS)
        .with(short::updates::KERNELS)
        .with(resident::train::KERNELS)
        .with(copy::KERNELS);
    let mut i = 0;
    while i < LADDER.len() {
        all = all.with_rung(&LADDER[i]);
        i += 1;
    }
    let mut i = 0;
    while i < gallery::KERNELS.len() {
        all = all.with(gallery::KERNELS[i]);
        i += 1;
    }
    let mut i = 0;
    while i < matmul::operation::KERNELS.len() {
        all = all.with(matmul::operation::KERNELS[i]);
        i += 1;
    }
    let mut i = 0;
    while i < matmul::ladder::RUNGS.len() {
        all = all.with(&[matmul::ladder::RUNGS[i].kernel.meta]);
        i += 1;
    }
    let mut i = 0;
    while i < attention::operation::KERNELS.len() {
        all = all.with(attention::operation::KERNELS[i]);
        i += 1;
    }
    let mut i = 0;
    while i < attention::backward::KERNELS.len() {
        all = all.with(attention::backward::KERNELS[i]);
        i += 1;
    }
    let mut i = 0;
    while i < attention::ladder::RUNGS.len() {
        all = all.with_attention_rung(&attention::ladder::RUNGS[i]);
        i += 1;
    }
    let mut i = 0;
    while i < norm::KERNELS.len() {
        all = all.with(norm::KERNELS[i]);
        i += 1;
    }
    let mut i = 0;
    while i < axis::KERNELS.len() {
        all = all.with(axis::KERNELS[i]);
        i += 1;
    }
    all.with(forward_kernels::softmax::KERNELS)
        .with(serial::softmax_serial::KERNELS)
        .with(forward_kernels::narrow::KERNELS)
        .with(forward_kernels::staged::KERNELS)
        .with(forward_kernels::reduce::KERNELS)
        .with(forward_kernels::write::KERNELS)
        .with(cross_entropy::cross_entropy_rows::KERNELS)
        .with(cross_entropy::cross_entropy_staged::KERNELS)
        .with(cross_entropy::cross_entropy_part::KERNELS)
        .with(&[cross_entropy::cross_entropy_combine::META])
        .with(cross_entropy::cross_entropy_gradient::KERNELS)
        .with(backward::softmax_backward::KERNELS)
        .with(backward::softmax_backward_staged::KERNELS)
        .with(top_k::top_k_rows::KERNELS)
        .with(top_k::top_k_cluster::KERNELS)
        .with(sample::sample_rows::KERNELS)
        .with(sample::sample_cluster::KERNELS)
        .with(sample::sample_top_k_rows::KERNELS)
        .with(sample::sample_top_k_cluster::KERNELS)
};

/// A list that grows at compile time. It uses loops because iterators do not work in constants.
struct List {
    kernels: [&'static KernelMeta; 1024],
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

    const fn with_attention_rung(mut self, rung: &attention::ladder::Rung) -> Self {
        let mut i = 0;
        while i < rung.kernels.len() {
            self = self.with(&[rung.kernels[i].meta]);
            i += 1;
        }
        self
    }
}
