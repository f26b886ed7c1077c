//! Attention: `out = softmax(scale Q K^T + mask) V` for each head, and its gradients, without storing the logits.
//!
//! [`operation`] has the kernels that `ferrowarp::attention` launches, and [`backward`] those of the gradients. [`ladder`]
//! builds up to the former, one idea per file.

pub mod args;

pub mod backward;

pub mod ladder;

pub mod operation;

mod panels;
mod ring;
