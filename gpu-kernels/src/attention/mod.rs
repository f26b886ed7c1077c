//! Attention: `out = softmax(scale Q K^T + mask) V` for each head, and its gradients, without storing the matrix of the logits.
//!
//! [`operation`] has the kernels that `ferrowarp::attention` launches, [`backward`] those of the gradients. [`ladder`] gets to
//! the first ones, one idea a file.

pub mod args;

pub mod backward;

pub mod ladder;

pub mod operation;

mod panels;
mod ring;
