//! The gallery: one lesson of GPU programming per file, each with its kernels in rungs.
//!
//! A rung is a kernel that differs from its neighbour in the subject of the lesson, and takes the same arguments. Each file
//! lists its rungs in `RUNGS`. The pages of `docs/gallery` explain what the hardware does and report the measurements.

pub mod vector_add;

pub mod copy_offset;

mod elementwise;

pub mod fusion;

pub mod layout;

pub mod constant;

pub mod grey;

pub mod recompute;

pub mod relu;

pub mod reduce;

pub mod dot;

pub mod bank_conflicts;

pub mod transpose;

pub mod register_arrays;

pub mod warps;

pub mod warp_masks;

pub mod divergence;

pub mod occupancy;

pub mod launch_bounds;

pub mod peaks;

mod last_block;

pub mod matmul;

pub mod overlap;

pub mod unified;

pub mod block_order;

#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::{Instance, LaunchConfig};

/// One step of a lesson, with a kernel that takes an `A`.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
pub struct Rung<A: 'static, F: 'static = Grid> {
    /// The rung's name in the lesson.
    pub name: &'static str,
    /// What it does, in one line.
    pub idea: &'static str,
    /// Its kernel.
    pub kernel: &'static Instance<A, F>,
}

/// One step of a lesson that has several launches, one after the other.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
pub struct Sequence<S: 'static> {
    /// The rung's name in the lesson.
    pub name: &'static str,
    /// What it does, in one line.
    pub idea: &'static str,
    /// The launches.
    pub steps: &'static [S],
}

/// The grid of a kernel.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// Returns the launch for a number of elements, at least one.
    pub config: fn(usize) -> LaunchConfig,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Grid {
    /// One thread for every `ELEMENTS` elements, in blocks of `THREADS`.
    pub(crate) const fn threads<const THREADS: u32, const ELEMENTS: usize>() -> Self {
        Self { config: |len| LaunchConfig::cover(len.div_ceil(ELEMENTS), THREADS) }
    }
}
