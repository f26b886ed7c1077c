//! Attention, forward: `out = softmax(scale Q K^T + mask) V` for each head, without storing the matrix of the logits.
//!
//! [`operation`] has the kernels that `ferrowarp::attention` launches.

pub mod args;

pub mod operation;

mod ring;
