//! Matrix multiplication on tensor cores: `out = activation(alpha A B + bias + residual)`.
//!
//! [`operation`] has the kernels that `ferrowarp::matmul` launches. The numbered files are a ladder, one idea per file,
//! explained in `docs/matmul-ladder.md`.

pub mod args;

pub mod ladder;

pub mod operation;

pub mod r01_mma_sync;

pub mod r02_wgmma;

pub mod r03_tma;

pub mod r04_specialised;

pub mod r05_two_consumers;

pub mod r06_persistent;

pub mod r07_tma_store;

pub mod r08_cluster;

mod copies;
mod epilogue;
mod operand;
pub mod tile_order;
