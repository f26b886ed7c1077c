//! The sum of an array, in rungs: from an atomic addition for every element to what memory allows.
//!
//! A sum needs one addition for each element of 4 bytes, so memory is the limit; what keeps the first rungs from it is how
//! threads wait for each other. After Harris, "Optimizing Parallel Reduction in CUDA" (2007), from whose ladder the middle
//! rungs are; warps have exchanged by shuffles since.

mod atomic;
mod tree;

mod warps;

#[cfg(not(target_arch = "nvptx64"))]
use super::Grid;
#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::{KernelMeta, LaunchConfig, RawBuffer};

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

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) const KERNELS: &[&KernelMeta] = &[
    reduce_clear::META,
    reduce_atomic::META,
    reduce_modulo::META,
    reduce_mask::META,
    reduce_strided::META,
    reduce_sequential::META,
    reduce_first_add::META,
    reduce_shuffle::META,
    reduce_grid_stride::META,
    reduce_vec4::META,
];

/// What the kernels take.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// The sum, or one for each block.
    pub out: RawBuffer<f32>,
    /// The summands, `len` of them, from a multiple of 16 bytes.
    pub inp: RawBuffer<f32>,
    /// Where the blocks of a launch that ends in one sum leave theirs, one each.
    pub partials: RawBuffer<f32>,
    /// How many of them have; 0 between launches.
    pub arrived: RawBuffer<u32>,
    /// How many summands.
    pub len: u32,
}

/// How a rung's kernel makes one sum of an array.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    /// Elements of a block of 256 threads; of [`Launches::Resident`] the least.
    pub of_block: usize,
    /// Its launches.
    pub launches: Launches,
}

/// The launches of a sum.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launches {
    /// [`reduce_clear`](fn@reduce_clear) and then the kernel, whose threads add to `out`: in any order, so that two runs
    /// may round differently.
    Cleared,
    /// The kernel on the array, then on the sums of its blocks, until there is one.
    Passes,
    /// The kernel once, on no more blocks than fit on the device at the same time.
    Resident,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Reduction {
    /// Grid and block for `len` elements, where there is room for all blocks.
    pub fn config(&self, len: usize) -> LaunchConfig {
        LaunchConfig::cover(len.div_ceil(self.of_block / 256), 256)
    }
}
