//! The multi-layer perceptron: forward, loss, backward, update.
//!
//! All arrays are f32 and row-major. A layer with `inputs` features in and `outputs` out has weights
//! `[inputs, outputs]` and biases `[outputs]`; a batch of activations is `[batch, features]`.
//!
//! The naive set has one thread per output: [`linear`], [`activation`], [`loss`], [`sgd`]. [`batch`] gathers its samples.
//!
//! The fused set computes the same in fewer launches: [`fused_forward`], [`head`], [`fused_backward`]. Their multiplications
//! run on a block ([`tile`], from shared memory in [`slab`]), on tensor cores ([`tensor_tile`]), or in one thread
//! ([`serial`]). [`product`] is the interface of these three. [`matrix`] describes the operands, [`operand`] how they are
//! rounded, and [`state`] what the launches keep in device memory.
//!
//! [`short`] does a step of a small batch in three launches. [`resident`] trains many steps in one launch. [`grid`] has the
//! grids of the first two sets.

#![no_std]
#![allow(clippy::too_many_arguments, reason = "a kernel's parameters are its calling convention")]
#![allow(unused_imports, reason = "on the host the float methods of std come before those of GpuFloat")]

pub mod batch;

pub mod linear;

pub mod activation;

pub mod loss;

pub mod sgd;

pub mod matrix;

pub mod operand;

pub mod product;

pub mod serial;

pub mod state;

pub mod slab;

pub mod tile;

pub mod tensor_tile;

pub mod fused_forward;

pub mod head;

pub mod fused_backward;

pub mod short;

pub mod resident;

#[cfg(not(target_arch = "nvptx64"))]
pub mod grid;

use cuda_std::grid::{launch_dependents, wait_for_dependencies};
use cuda_std::thread;

/// Begins every fused kernel. The kernel may start before the launch ahead has ended; this waits for that launch's results,
/// and lets the next launch start, which then waits here too.
#[inline(always)]
fn wait_for_turn() {
    wait_for_dependencies();
    launch_dependents();
}

/// Returns column and row of the thread in a two-dimensional launch, as indices.
#[inline(always)]
fn col_and_row() -> (usize, usize) {
    let (col, row) = (thread::index_1d(), row());
    (col as usize, row as usize)
}

#[inline(always)]
fn row() -> u32 {
    thread::block_idx_y().wrapping_mul(thread::block_dim_y()).wrapping_add(thread::thread_idx_y())
}
