//! The lessons of the gallery: one table for tests, benches, pictures and pages.

mod bank_conflicts;
mod block_order;
mod constant;
mod copy_offset;
mod csv;
mod divergence;
mod dot;
mod fusion;
mod grey;
mod launch_bounds;
mod layout;
mod made;
mod matmul;
mod occupancy;
mod overlap;
mod overtake;
mod peaks;
mod prediction;
mod problem;
mod recompute;
mod reduce;
mod register_arrays;
mod relu;
mod theory;
mod timeline;
mod transfers;
mod transpose;
mod unified;
mod vector_add;
mod warp_masks;
mod warps;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use cuda_std::launch::{KernelMeta, LaunchConfig, Limits};
use ferrowarp::device::Device;

use crate::{Case, Scope};

pub(crate) use made::{elements, number, numbers, numbers_as, sum};
pub use prediction::{Prediction, Quantity};
pub use problem::{Array, Arrays, Handle, Placed, Problem, Session};
pub use timeline::Timeline;

/// Every lesson, in reading order.
pub const LESSONS: &[&Lesson] = &[
    &vector_add::LESSON,
    &overtake::LESSON,
    &copy_offset::LESSON,
    &layout::LESSON,
    &constant::LESSON,
    &grey::LESSON,
    &fusion::LESSON,
    &recompute::LESSON,
    &relu::LESSON,
    &reduce::LESSON,
    &dot::LESSON,
    &bank_conflicts::LESSON,
    &transpose::LESSON,
    &register_arrays::LESSON,
    &warps::LESSON,
    &warp_masks::LESSON,
    &divergence::LESSON,
    &occupancy::LESSON,
    &launch_bounds::LESSON,
    &peaks::LESSON,
    &csv::LESSON,
    &matmul::LESSON,
    &transfers::LESSON,
    &overlap::LESSON,
    &unified::LESSON,
    &block_order::LESSON,
];

/// A lesson: rungs that run on the same problems.
#[derive(Debug)]
pub struct Lesson {
    /// Its name, also of its kernel file and of its page in `docs/gallery`.
    pub name: &'static str,
    /// The title of its page.
    pub title: &'static str,
    /// The difference between the problems of a rung.
    pub axis: Axis,
    /// The measure of a rung.
    pub measure: Measure,
    /// Its rungs: name and idea, from the first to the last.
    pub rungs: fn() -> Vec<(&'static str, &'static str)>,
    /// The trials at a scale.
    pub trials: fn(Scale) -> Vec<Trial>,
    /// The predicted times at [`Scale::Gpu`], at least one for each rung.
    pub predictions: fn() -> Vec<Prediction>,
}

/// The difference between problems.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Its label in charts and tables, with its unit.
    pub label: &'static str,
    /// Whether charts show it on a logarithmic axis.
    pub is_log: bool,
}

/// The measure of a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Useful bytes per second.
    Bytes,
    /// Floating-point operations per second.
    Flops,
    /// Microseconds per launch.
    Time,
}

/// The size of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The smallest problems that exercise all of every kernel, for Miri.
    Tiny,
    /// Edge cases of all kinds, for tests.
    Edges,
    /// Problems that the emulator counts in seconds: whole warps that behave like those of a large problem.
    Count,
    /// Problems that a CPU runs in about a tenth of a second.
    Laptop,
    /// Problems that show the speed of a GPU's memory or arithmetic.
    Gpu,
}

/// A rung on a problem.
pub struct Trial {
    /// The rung's name in its lesson.
    pub rung: &'static str,
    /// The problem's value on the lesson's axis.
    pub at: f64,
    /// The kernels that it launches.
    pub kernels: Vec<&'static str>,
    /// The problem in words.
    pub words: String,
    /// The work of one run.
    pub work: Work,
    /// The launch, for a rung with one launch if the lesson is about its grid.
    pub grid: Option<(&'static KernelMeta, LaunchConfig)>,
    cluster_threads: u32,
    peak: Option<Box<Peak>>,
    make: Option<Box<dyn Fn() -> Problem + Send + Sync>>,
    procedure: Option<Box<Procedure>>,
    timeline: Option<Box<TakeTimeline>>,
    foretold: Option<Box<dyn Fn() -> Foretold + Send + Sync>>,
}

/// The maximum rate of a device in the rung's measure; `None` if unknown.
type Peak = dyn Fn(&Device) -> Option<f64> + Send + Sync;

/// A procedure of the host with a device, repeated a given number of times.
pub type Procedure = dyn Fn(&Device, usize) -> Result<Timed> + Send + Sync;

/// A launch with a recorded timeline.
pub type TakeTimeline = dyn Fn(&Device) -> Result<Timeline> + Send + Sync;

/// The result of a procedure.
#[derive(Clone, Debug, PartialEq)]
pub enum Timed {
    /// The time of each run.
    Samples(Vec<Duration>),
    /// The device, its driver or the system lacks this feature.
    Lacking(String),
}

/// The work of one run of a trial, derived from the problem alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Useful bytes: what is read and written at least once, whatever the kernel does.
    pub bytes: f64,
    /// Bytes that global memory must move, if they differ.
    pub memory_bytes: Option<f64>,
    /// Floating-point operations.
    pub flop: f64,
    /// The predictions for the kernel that need no counting; see [`Trial::foretold`].
    pub(crate) foretold: Foretold,
}

/// The predictions for a launch, to compare with the counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Foretold {
    /// 32-byte sectors touched by global loads and by asynchronous copies from global memory, counted per request.
    pub sectors_loaded: Option<f64>,
    /// The same for stores.
    pub sectors_stored: Option<f64>,
    /// Passes over shared memory beyond the minimum.
    pub bank_conflicts: Option<f64>,
    /// Divergent branches.
    pub divergent_branches: Option<f64>,
}

impl Work {
    /// Work that moves `bytes` bytes.
    pub const fn of_bytes(bytes: f64) -> Self {
        let foretold = Foretold {
            sectors_loaded: None,
            sectors_stored: None,
            bank_conflicts: None,
            divergent_branches: None,
        };
        Self { bytes, memory_bytes: None, flop: 0.0, foretold }
    }

    /// Sets the bytes that global memory moves.
    pub const fn with_memory_bytes(self, bytes: f64) -> Self {
        Self { memory_bytes: Some(bytes), ..self }
    }

    /// Sets the floating-point operations.
    pub const fn with_flop(self, flop: f64) -> Self {
        Self { flop, ..self }
    }

    /// Sets the predicted numbers of sectors loaded and stored.
    pub const fn with_sectors(self, loaded: f64, stored: f64) -> Self {
        let foretold =
            Foretold { sectors_loaded: Some(loaded), sectors_stored: Some(stored), ..self.foretold };
        Self { foretold, ..self }
    }

    /// Predicts no bank conflicts and no divergent branches.
    pub const fn without_conflicts(self) -> Self {
        let foretold = Foretold { bank_conflicts: Some(0.0), divergent_branches: Some(0.0), ..self.foretold };
        Self { foretold, ..self }
    }
}

impl Trial {
    /// Creates a trial of a rung; its kernels run on the problem from `make`.
    pub fn new(
        (rung, kernels): (&'static str, Vec<&'static str>),
        at: f64,
        words: String,
        work: Work,
        make: impl Fn() -> Problem + Send + Sync + 'static,
    ) -> Self {
        let make = Some(Box::new(make) as _);
        Self { make, ..Self::empty(rung, at, kernels, words, work) }
    }

    /// Creates a trial without launches or a procedure.
    fn empty(rung: &'static str, at: f64, kernels: Vec<&'static str>, words: String, work: Work) -> Self {
        let (grid, peak, make, procedure, timeline, foretold) = (None, None, None, None, None, None);
        let cluster_threads = 0;
        Self {
            rung,
            at,
            kernels,
            words,
            work,
            grid,
            cluster_threads,
            peak,
            make,
            procedure,
            timeline,
            foretold,
        }
    }

    /// Sets a prediction that counts requests one by one. It is only computed on request.
    pub(crate) fn with_foretold(self, foretold: impl Fn() -> Foretold + Send + Sync + 'static) -> Self {
        Self { foretold: Some(Box::new(foretold)), ..self }
    }

    /// The predictions for the launch.
    pub fn foretold(&self) -> Foretold {
        self.foretold.as_ref().map_or(self.work.foretold, |foretold| foretold())
    }

    /// Sets the threads per cluster of its kernels; 0 for no clusters.
    pub fn with_cluster_threads(self, cluster_threads: u32) -> Self {
        Self { cluster_threads, ..self }
    }

    /// Sets the maximum bytes or operations per second at a device's clocks.
    pub fn with_peak(self, peak: impl Fn(&Device) -> Option<f64> + Send + Sync + 'static) -> Self {
        Self { peak: Some(Box::new(peak)), ..self }
    }

    /// The maximum rate at the device's clocks; `None` if unknown.
    pub fn peak(&self, device: &Device) -> Option<f64> {
        self.peak.as_ref()?(device)
    }

    /// Sets the grid of its one launch, for a lesson about it.
    pub fn with_grid(self, meta: &'static KernelMeta, config: LaunchConfig) -> Self {
        Self { grid: Some((meta, config)), ..self }
    }

    /// Creates a trial of a rung that the host carries out, such as a copy. `procedure` repeats it a given number of times
    /// and checks the result.
    pub fn of_host(
        rung: &'static str,
        at: f64,
        words: String,
        work: Work,
        procedure: impl Fn(&Device, usize) -> Result<Timed> + Send + Sync + 'static,
    ) -> Self {
        let procedure = Some(Box::new(procedure) as _);
        Self { procedure, ..Self::empty(rung, at, Vec::new(), words, work) }
    }

    /// Sets the kernels that a host's trial launches; tests run them on the problem from `make`.
    pub fn with_kernels(
        self,
        kernels: Vec<&'static str>,
        make: impl Fn() -> Problem + Send + Sync + 'static,
    ) -> Self {
        Self { kernels, make: Some(Box::new(make)), ..self }
    }

    /// Sets the function that records when and where its blocks or warps ran.
    pub fn with_timeline(self, take: impl Fn(&Device) -> Result<Timeline> + Send + Sync + 'static) -> Self {
        Self { timeline: Some(Box::new(take)), ..self }
    }

    /// A new copy of the problem that its kernels run on. `None` for a trial that launches no kernel.
    pub fn problem(&self) -> Option<Problem> {
        self.make.as_ref().map(|make| make())
    }

    /// The host's procedure. `None` for a trial that only times its launches.
    pub fn procedure(&self) -> Option<&Procedure> {
        self.procedure.as_deref()
    }

    /// The function that records a launch's timeline, if any.
    pub fn timeline(&self) -> Option<&TakeTimeline> {
        self.timeline.as_deref()
    }

    /// The trial as a case, which is compared with its oracle; `None` if it launches nothing.
    fn case(self) -> Option<Case> {
        let words = move || format!("{}, {}", self.rung, self.words);
        let (make, again) = {
            let make: Arc<dyn Fn() -> Problem + Send + Sync> = self.make?.into();
            (Arc::clone(&make), make)
        };
        let case =
            Case::new(self.kernels, words, move |device| make().run(device), move || again().expected());
        Some(case.with_cluster_threads(self.cluster_threads))
    }
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
