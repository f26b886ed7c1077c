//! The kernels of Ferrowarp: one source for the GPU and the CPU, one crate for each operation.
//!
//! Read [`mlp`] in the order of its modules: first the kernels of a training step as a textbook writes them, one thread per
//! output; then the ones that training uses by default, which share tiles and fuse neighbours. [`ladders`] climb from the
//! naive softmax to the fast one, one rung per file, and do the same for matrix multiplication and attention. [`softmax`],
//! [`matmul`], [`attention`], [`norm`] and [`axis`] have the kernels of `ferrowarp`'s operations. [`gallery`] has one lesson of
//! GPU programming per file; [`mod@copy`] is what memory-bound kernels are compared with.

pub use attention_kernels as attention;
pub use axis_kernels as axis;
pub use common_kernels::element;
pub use ladders_kernels as ladders;
pub use lessons_kernels::{copy, gallery};
pub use matmul_kernels as matmul;
pub use mlp_kernels as mlp;
pub use norm_kernels as norm;
pub use softmax_kernels as softmax;

use std::sync::LazyLock;

use cuda_std::launch::{KernelMeta, kernels_in};

/// Every kernel of these crates, sorted by name. Miri cannot collect them, and has none.
pub static KERNELS: LazyLock<Vec<&KernelMeta>> = LazyLock::new(|| kernels_in("gpu-kernels/"));
