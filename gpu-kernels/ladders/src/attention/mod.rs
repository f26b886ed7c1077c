//! The ladder of attention, one idea per file, explained in `docs/attention-ladder.md`.
//!
//! Every rung computes `out = softmax(scale Q K^T) V` of `bf16` for each head, without a mask. All tensors are dense, in the
//! order batch, length, heads, [`SIZE`](ladder::SIZE). The lengths are multiples of the rung's tiles.

pub mod ladder;

pub mod r01_matrix;

pub mod r02_online;

pub mod r03_mma_sync;

pub mod r04_wgmma;

pub mod r05_specialised;

pub mod r06_overlap;

pub mod r07_persistent;

mod stages;

#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::{KernelOf, KernelsOf};

#[cfg(not(target_arch = "nvptx64"))]
use ladder::{LadderArgs, RungShape};

/// A rung of the ladder.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
pub struct Rung {
    /// Its name, which is its file's.
    pub name: &'static str,
    /// Its idea, in one line.
    pub idea: &'static str,
    /// Its kernels, in launch order.
    pub kernels: &'static [&'static KernelOf<LadderArgs, RungShape>],
    /// Whether it stores the matrix of queries and keys.
    pub has_matrix: bool,
}

#[cfg(not(target_arch = "nvptx64"))]
macro_rules! rungs {
    ($($name:literal, [$($kernel:path),*], $has_matrix:literal, $idea:literal;)*) => {
        /// The rungs, in order.
        pub const RUNGS: &[Rung] = &[$(Rung {
            name: $name,
            idea: $idea,
            kernels: &[$(&<$kernel as KernelsOf<LadderArgs>>::INSTANCES[0]),*],
            has_matrix: $has_matrix,
        }),*];
    };
}

#[cfg(not(target_arch = "nvptx64"))]
rungs! {
    "r01_matrix",
        [r01_matrix::attention_01_logits, r01_matrix::attention_01_softmax, r01_matrix::attention_01_values], true,
        "three kernels, with the matrix of queries and keys in global memory";
    "r02_online", [r02_online::attention_02_online], false,
        "tiles of queries and keys in shared memory, and an online softmax";
    "r03_mma_sync", [r03_mma_sync::attention_03_mma_sync], false,
        "tensor cores by mma.sync, fed by ldmatrix and cp.async";
    "r04_wgmma", [r04_wgmma::attention_04_wgmma], false,
        "wgmma reads shared memory that tensor copies fill";
    "r05_specialised", [r05_specialised::attention_05_specialised], false,
        "one warpgroup copies, and two multiply";
    "r06_overlap", [r06_overlap::attention_06_overlap], false,
        "the softmax runs under the multiplications of other keys";
    "r07_persistent", [r07_persistent::attention_07_persistent], false,
        "a block per multiprocessor, tensor copies store a tile under the next one, and warpgroups take turns";
}
