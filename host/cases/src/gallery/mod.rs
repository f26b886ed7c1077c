//! The lessons of the gallery: one table of trials for tests, benches, pictures and pages. A lesson's axes, pictures and
//! predicted times are in a file next to its page in `docs/gallery`.

mod allocations;
mod bank_conflicts;
mod block_order;
mod constant;
mod copy_offset;
mod csv;
mod divergence;
mod dot;
mod fusion;
mod grey;
mod groups;
mod hiding;
mod hierarchy;
mod hierarchy_l1;
mod hierarchy_rates;
mod hierarchy_rows;
mod histogram;
mod launch_bounds;
mod launches;
mod layout;
mod matmul;
mod numbers;
mod occupancy;
mod operations;
mod overlap;
mod overtake;
mod parallelism;
mod peaks;
mod prelude;
mod problem;
mod recompute;
mod reduce;
mod register_arrays;
mod relu;
mod scan;
mod stencil;
mod timeline;
mod transfers;
mod transpose;
mod trial;
mod unified;
mod vector_add;
mod warp_masks;
mod warps;

use cuda_std::launch::Limits;

use crate::case::Case;
use crate::scopes::Scope;

pub use problem::{Array, Arrays, Handle, Placed, Problem, Session};
pub use timeline::Timeline;
pub use trial::{Counts, Procedure, Scale, TakeTimeline, Timed, Trial, Work};

macro_rules! lessons {
    ($($name:ident)*) => {
        &[
            $(Lesson { name: stringify!($name), trials: $name::trials }),*,
            Lesson { name: "waves", trials: matmul::waves },
            Lesson { name: "alignment", trials: operations::alignment },
            Lesson { name: "data", trials: operations::data },
        ]
    };
}

/// Every lesson.
pub const LESSONS: &[Lesson] = lessons![
    vector_add overtake launches copy_offset hierarchy hierarchy_rates hierarchy_rows hierarchy_l1 layout constant
    grey fusion recompute relu reduce dot bank_conflicts transpose register_arrays warps warp_masks divergence
    occupancy launch_bounds peaks csv matmul transfers allocations overlap unified block_order scan stencil
    histogram groups parallelism hiding
];

/// A lesson: rungs that run on the same problems.
#[derive(Clone, Copy, Debug)]
pub struct Lesson {
    /// Its name, also of its kernel file and of its page in `docs/gallery`.
    pub name: &'static str,
    /// The trials at a scale.
    pub trials: fn(Scale) -> Vec<Trial>,
}

/// The cases of a scope that run on a device with these limits.
pub fn cases(scope: Scope, limits: &Limits) -> Vec<Case> {
    let scale = if scope == Scope::Tiny { Scale::Tiny } else { Scale::Edges };
    let trials = LESSONS.iter().flat_map(|lesson| (lesson.trials)(scale));
    // Most devices support all or almost all kernels.
    let lacking = gpu_kernels::KERNELS.iter().filter(|kernel| !limits.runs(kernel));
    let lacking: Vec<&str> = lacking.map(|kernel| kernel.name).collect();
    let runs = |trial: &Trial| !trial.kernels.iter().any(|name| lacking.contains(name));
    trials.filter(runs).filter_map(Trial::case).collect()
}
