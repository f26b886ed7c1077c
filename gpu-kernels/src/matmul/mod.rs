//! Matrix multiplication on tensor cores: `out = activation(alpha A B + bias + residual)`.
//!
//! [`operation`] has the kernels that `ferrowarp::matmul` launches. The numbered files are a ladder, one idea a file, explained
//! in `docs/matmul-ladder.md`.

pub mod args;

pub mod operation;

mod copies;
mod epilogue;
mod operand;
mod tile_order;
