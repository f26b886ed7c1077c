//! The sum of an array, in rungs: from one atomic addition per element to the speed of memory.
//!
//! A sum needs one addition per element of 4 bytes, so memory is the limit. In the first rungs threads wait too much for
//! each other to reach it. The middle rungs follow the ladder of Harris, "Optimizing Parallel Reduction in CUDA" (2007);
//! shuffles between lanes came later.

mod atomic;
mod tree;
mod warps;

pub use atomic::{reduce_atomic, reduce_clear};
pub use tree::{
    reduce_first_add, reduce_global, reduce_mask, reduce_modulo, reduce_sequential, reduce_strided,
};
pub use warps::{reduce_grid_stride, reduce_shuffle, reduce_vec4};

lesson! {
    buffers(out: f32, inp: f32, partials: f32, arrived: u32)
    values(len: u32)
    facts(Reduction)
    "atomic" = reduce_atomic[0]: "an atomic addition for each element, all to one address";
    "global" = reduce_global[0]: "a tree in global memory, one launch per round";
    "modulo" = reduce_modulo[0]: "a tree in shared memory; a thread's part goes by a remainder";
    "mask" = reduce_mask[0]: "by the lowest bits instead";
    "strided" = reduce_strided[0]: "the first threads do the additions, so that whole warps have none";
    "sequential" = reduce_sequential[0]: "of elements side by side, so that no banks conflict";
    "first_add" = reduce_first_add[0]: "each thread loads two elements and adds them";
    "shuffle" = reduce_shuffle[0]: "within a warp by shuffles, with one barrier";
    "grid_stride" = reduce_grid_stride[0]: "as many blocks as fit at once, one launch";
    "vec4" = reduce_vec4[0]: "four loads of 16 bytes in flight";
}

/// How a rung's kernel sums an array, and the elements of a block of 256 threads.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub enum Reduction {
    /// [`reduce_clear`](fn@reduce_clear), then the kernel. Its threads add to `out` in any order, so two runs may round
    /// differently.
    Cleared(usize),
    /// The kernel on the array, then on the sums of its blocks, until one sum is left.
    Passes(usize),
    /// The kernel on the array, then on its result, until one sum is left. A thread adds two elements.
    Rounds,
    /// One launch of the kernel, with at most the blocks that fit on the device at the same time. A block has these
    /// elements or more.
    Resident(usize),
}

#[cfg(not(target_arch = "nvptx64"))]
impl Reduction {
    /// Elements of a block of 256 threads; for [`Self::Resident`] the least.
    pub fn of_block(self) -> usize {
        match self {
            Self::Cleared(elements) | Self::Passes(elements) | Self::Resident(elements) => elements,
            Self::Rounds => 512,
        }
    }

    /// The sums that a launch on `len` elements leaves, if it leaves more than one.
    pub fn left(self, len: usize) -> usize {
        if matches!(self, Self::Rounds) { len.div_ceil(2) } else { len.div_ceil(self.of_block()) }
    }

    /// Returns the launch for `len` elements, if there is room for all blocks.
    pub fn config(self, len: usize) -> cuda_std::launch::LaunchConfig {
        cuda_std::launch::LaunchConfig::cover(len.div_ceil(self.of_block() / 256), 256)
    }
}
