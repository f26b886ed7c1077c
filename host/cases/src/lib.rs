//! The expected results of the kernels: the cases, and oracles in f64.
//!
//! A [`Case`] is one kernel, or a pair of them, on one problem. All code that runs kernels iterates over the cases of its
//! [`Scope`]: `cargo test` on the executor and on the PTX emulator, the self-check on a GPU, the runs with many seeds,
//! Miri and the sanitizers.

pub mod attention;
pub mod axis;
mod case;
mod check;
pub mod compare;
#[cfg(feature = "emulator")]
pub mod emulated;
pub mod gallery;
mod later;
pub mod layer;
pub mod matmul;
pub mod norm;
pub mod place;
pub mod queued;
pub mod random;
pub mod reference;
mod scopes;
mod share;
pub mod small;
pub mod softmax;
pub mod soundness;

pub use case::Case;
pub use check::{assert_right, assert_right_under_shuffled_schedules};
pub use scopes::{Scope, Setting};
pub use share::Share;
