//! Matrix multiplication on tensor cores, as a ladder with one idea per file, explained in `docs/matmul-ladder.md`.

pub mod ladder;
pub mod r01_mma_sync;
pub mod r02_wgmma;
pub mod r03_tma;
pub mod r04_specialised;
pub mod r05_two_consumers;
pub mod r06_persistent;
pub mod r07_tma_store;
pub mod r08_cluster;

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
    /// Its kernel.
    pub kernel: &'static KernelOf<LadderArgs, RungShape>,
}

#[cfg(not(target_arch = "nvptx64"))]
macro_rules! rungs {
    ($($name:literal, $kernel:path, $idea:literal;)*) => {
        /// The rungs, in order.
        pub const RUNGS: &[Rung] = &[$(Rung {
            name: $name,
            idea: $idea,
            kernel: &<$kernel as KernelsOf<LadderArgs>>::INSTANCES[0],
        }),*];
    };
}

#[cfg(not(target_arch = "nvptx64"))]
rungs! {
    "r01_mma_sync", r01_mma_sync::matmul_01_mma_sync, "mma.sync, fed by ldmatrix and four stages of cp.async";
    "r02_wgmma", r02_wgmma::matmul_02_wgmma, "wgmma reads both operands from swizzled shared memory";
    "r03_tma", r03_tma::matmul_03_tma, "tensor copies fill four stages, and mbarriers count their bytes";
    "r04_specialised", r04_specialised::matmul_04_specialised, "one warpgroup copies, another multiplies";
    "r05_two_consumers", r05_two_consumers::matmul_05_two_consumers, "tiles of 128 x 256, shared by two multiplying warpgroups";
    "r06_persistent", r06_persistent::matmul_06_persistent, "a block per multiprocessor computes tiles in an order that L2 likes";
    "r07_tma_store", r07_tma_store::matmul_07_tma_store, "stmatrix and tensor copies store a tile under the next one";
    "r08_cluster", r08_cluster::matmul_08_cluster, "two blocks share B by multicast";
}
