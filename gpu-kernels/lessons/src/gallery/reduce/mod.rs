//! The sum of an array, in rungs: from one atomic addition per element to the speed of memory.
//!
//! A sum needs one addition per element of 4 bytes, so memory is the limit. In the first rungs threads wait too much for
//! each other to reach it. The middle rungs follow the ladder of Harris, "Optimizing Parallel Reduction in CUDA" (2007);
//! shuffles between lanes came later.

mod atomic;
mod tree;

mod warps;

#[cfg(not(target_arch = "nvptx64"))]
use super::Grid;
#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::{LaunchConfig, RawBuffer};

pub use atomic::{reduce_atomic, reduce_clear};
pub use tree::{reduce_first_add, reduce_mask, reduce_modulo, reduce_sequential, reduce_strided};
pub use warps::{reduce_grid_stride, reduce_shuffle, reduce_vec4};

/// A rung.
#[cfg(not(target_arch = "nvptx64"))]
pub type Rung = super::Rung<Arguments, Reduction>;

/// The rungs.
#[cfg(not(target_arch = "nvptx64"))]
pub const RUNGS: &[Rung] = &[
    Rung {
        name: "atomic",
        idea: "an atomic addition for each element, all to one address",
        kernel: &reduce_atomic::INSTANCES[0],
    },
    Rung {
        name: "modulo",
        idea: "a tree in shared memory; a thread's part goes by a remainder",
        kernel: &reduce_modulo::INSTANCES[0],
    },
    Rung { name: "mask", idea: "by the lowest bits instead", kernel: &reduce_mask::INSTANCES[0] },
    Rung {
        name: "strided",
        idea: "the first threads do the additions, so that whole warps have none",
        kernel: &reduce_strided::INSTANCES[0],
    },
    Rung {
        name: "sequential",
        idea: "of elements side by side, so that no banks conflict",
        kernel: &reduce_sequential::INSTANCES[0],
    },
    Rung {
        name: "first_add",
        idea: "each thread loads two elements and adds them",
        kernel: &reduce_first_add::INSTANCES[0],
    },
    Rung {
        name: "shuffle",
        idea: "within a warp by shuffles, with one barrier",
        kernel: &reduce_shuffle::INSTANCES[0],
    },
    Rung {
        name: "grid_stride",
        idea: "as many blocks as fit at once, one launch",
        kernel: &reduce_grid_stride::INSTANCES[0],
    },
    Rung { name: "vec4", idea: "four loads of 16 bytes in flight", kernel: &reduce_vec4::INSTANCES[0] },
];

/// The arguments of the kernels.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// The sum, or one sum per block.
    pub out: RawBuffer<f32>,
    /// The summands, `len` of them, at a multiple of 16 bytes.
    pub inp: RawBuffer<f32>,
    /// The sums of the blocks, one each, in a launch that ends in one sum.
    pub partials: RawBuffer<f32>,
    /// The number of blocks that have written their sums; 0 between launches.
    pub arrived: RawBuffer<u32>,
    /// The number of summands.
    pub len: u32,
}

/// How a rung's kernel sums an array.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    /// Elements of a block of 256 threads; for [`Launches::Resident`] the least.
    pub of_block: usize,
    /// Its launches.
    pub launches: Launches,
}

/// The launches of a sum.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launches {
    /// [`reduce_clear`](fn@reduce_clear), then the kernel. Its threads add to `out` in any order, so two runs may round
    /// differently.
    Cleared,
    /// The kernel on the array, then on the sums of its blocks, until one sum is left.
    Passes,
    /// One launch of the kernel, with at most the blocks that fit on the device at the same time.
    Resident,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Reduction {
    /// Returns the launch for `len` elements, if there is room for all blocks.
    pub fn config(&self, len: usize) -> LaunchConfig {
        LaunchConfig::cover(len.div_ceil(self.of_block / 256), 256)
    }
}
