//! Attention: `out = softmax(scale Q K^T + mask) V` for each head, and its gradients, without storing the logits.
//!
//! [`operation`] has the kernels that `ferrowarp::attention` launches, and [`backward`] those of the gradients.

#![no_std]
#![allow(unused_imports, reason = "on the host the float methods of std come before those of GpuFloat")]

pub mod args;

pub mod backward;

pub mod operation;

pub mod panels;
mod tiles;
