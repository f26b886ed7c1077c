//! The gallery: one lesson of GPU programming per file, each with its kernels in rungs.
//!
//! A rung is a kernel that differs from its neighbour in the subject of the lesson, and takes the same arguments. The pages
//! of `docs/gallery` explain what the hardware does and report the measurements.

#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::{Instance, LaunchConfig};

/// Declares a lesson for the host: `Arguments`, with the parameters of all its kernels, and `RUNGS`, each with its name, its
/// kernel and its idea. The kernels document what they require of their arguments.
macro_rules! lesson {
    (
        buffers($($buffer:ident: $element:ty),*)
        values($($value:ident: $ty:ty),*)
        facts($facts:ty)
        $($name:literal = $kernel:ident[$index:literal]: $idea:literal;)*
    ) => {
        lesson! { buffers($($buffer: $element),*) values($($value: $ty),*) }

        /// The rungs.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const RUNGS: &[$crate::gallery::Rung<Arguments, $facts>] = &[
            $($crate::gallery::Rung { name: $name, idea: $idea, kernel: &$kernel::INSTANCES[$index] }),*
        ];
    };
    (buffers($($buffer:ident: $element:ty),*) values($($value:ident: $ty:ty),*)) => {
        #[cfg(not(target_arch = "nvptx64"))]
        use $crate::gallery::Grid;

        /// The arguments of the kernels; each takes those that it has as parameters.
        #[cfg(not(target_arch = "nvptx64"))]
        #[derive(Clone, Copy, Debug)]
        pub struct Arguments {
            $(
                #[doc = concat!("The parameter `", stringify!($buffer), "`.")]
                pub $buffer: cuda_std::launch::RawBuffer<$element>,
            )*
            $(
                #[doc = concat!("The parameter `", stringify!($value), "`.")]
                pub $value: $ty,
            )*
        }
    };
}

pub mod bank_conflicts;
pub mod block_order;
pub mod constant;
pub mod copy_offset;
pub mod divergence;
pub mod dot;
mod elementwise;
pub mod fusion;
pub mod grey;
pub mod groups;
pub mod hiding;
pub mod hierarchy;
pub mod histogram;
mod last_block;
pub mod launch_bounds;
pub mod launches;
pub mod layout;
pub mod matmul;
pub mod occupancy;
pub mod overlap;
pub mod parallelism;
pub mod peaks;
pub mod recompute;
pub mod reduce;
pub mod register_arrays;
pub mod relu;
pub mod scan;
pub mod stencil;
pub mod transpose;
pub mod unified;
pub mod vector_add;
pub mod warp_masks;
pub mod warps;

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
