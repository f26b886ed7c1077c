//! The lessons of the gallery: one table that tests, benches, pictures and pages iterate.

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

/// A lesson: rungs that are run on problems side by side.
#[derive(Debug)]
pub struct Lesson {
    /// Its name, which is that of its file of kernels and of its page in `docs/gallery`.
    pub name: &'static str,
    /// What its page is called.
    pub title: &'static str,
    /// What differs from one problem of a rung to the next.
    pub axis: Axis,
    /// What a rung is judged by.
    pub measure: Measure,
    /// Its rungs: name and idea, from the first to the last.
    pub rungs: fn() -> Vec<(&'static str, &'static str)>,
    /// What is run at a scale.
    pub trials: fn(Scale) -> Vec<Trial>,
    /// The predicted times at [`Scale::Gpu`], at least one for each rung.
    pub predictions: fn() -> Vec<Prediction>,
}

/// What differs from one problem to the next.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// What charts and tables call it, with its unit.
    pub label: &'static str,
    /// Whether charts have it in powers.
    pub is_log: bool,
}

/// What a rung is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Useful bytes a second.
    Bytes,
    /// Operations on floats a second.
    Flops,
    /// Microseconds of a launch.
    Time,
}

/// How large problems are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The least that makes every kernel do all it does, for Miri.
    Tiny,
    /// Edges of all kinds, for tests.
    Edges,
    /// What the emulator counts in seconds: whole warps that do what those of a large problem do.
    Count,
    /// What a CPU runs in about a tenth of a second.
    Laptop,
    /// What shows what a GPU's memory or arithmetic does.
    Gpu,
}

/// A rung on a problem.
pub struct Trial {
    /// The rung's name in its lesson.
    pub rung: &'static str,
    /// The problem's place on the lesson's axis.
    pub at: f64,
    /// The kernels that it launches.
    pub kernels: Vec<&'static str>,
    /// The problem in words.
    pub words: String,
    /// What one run of it is worth.
    pub work: Work,
    /// Of a rung with one launch whose grid the lesson is about, that launch.
    pub grid: Option<(&'static KernelMeta, LaunchConfig)>,
    cluster_threads: u32,
    peak: Option<Box<Peak>>,
    make: Option<Box<dyn Fn() -> Problem + Send + Sync>>,
    procedure: Option<Box<Procedure>>,
    timeline: Option<Box<TakeTimeline>>,
    foretold: Option<Box<dyn Fn() -> Foretold + Send + Sync>>,
}

/// The most that a device could do in a second of what a rung is judged by; none where that is not known.
type Peak = dyn Fn(&Device) -> Option<f64> + Send + Sync;

/// What a host does with a device a given number of times.
pub type Procedure = dyn Fn(&Device, usize) -> Result<Timed> + Send + Sync;

/// A launch that is watched.
pub type TakeTimeline = dyn Fn(&Device) -> Result<Timeline> + Send + Sync;

/// The result of a procedure.
#[derive(Clone, Debug, PartialEq)]
pub enum Timed {
    /// The time of each run.
    Samples(Vec<Duration>),
    /// The device, its driver or the system lacks what it takes: this.
    Lacking(String),
}

/// What one run of a trial is worth, derived from the problem alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Useful bytes: what is read and written once, whatever the kernel does.
    pub bytes: f64,
    /// Bytes that global memory must move, where that is not the same.
    pub memory_bytes: Option<f64>,
    /// Operations on floats.
    pub flop: f64,
    /// The predictions for the kernel that need no counting; see [`Trial::foretold`].
    pub(crate) foretold: Foretold,
}

/// What theory predicts for a launch, to compare with the counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Foretold {
    /// Sectors of 32 bytes that loads of global memory, and asynchronous copies from it, touch, a request at a time.
    pub sectors_loaded: Option<f64>,
    /// The same for stores.
    pub sectors_stored: Option<f64>,
    /// Passes over shared memory beyond the least.
    pub bank_conflicts: Option<f64>,
    /// Branches that diverge.
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

    /// The same, where global memory moves `bytes` bytes.
    pub const fn with_memory_bytes(self, bytes: f64) -> Self {
        Self { memory_bytes: Some(bytes), ..self }
    }

    /// The same, with `flop` operations on floats.
    pub const fn with_flop(self, flop: f64) -> Self {
        Self { flop, ..self }
    }

    /// The same, with the predicted numbers of sectors loaded and stored.
    pub const fn with_sectors(self, loaded: f64, stored: f64) -> Self {
        let foretold =
            Foretold { sectors_loaded: Some(loaded), sectors_stored: Some(stored), ..self.foretold };
        Self { foretold, ..self }
    }

    /// The same, where no two lanes of a request want different words of a bank, and no branch diverges.
    pub const fn without_conflicts(self) -> Self {
        let foretold = Foretold { bank_conflicts: Some(0.0), divergent_branches: Some(0.0), ..self.foretold };
        Self { foretold, ..self }
    }
}

impl Trial {
    /// A trial of a rung whose kernels run on what `make` gives.
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

    /// A trial that neither launches nor does anything.
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

    /// The same trial, for which `foretold` counts requests one by one. That is done only if it is asked for.
    pub(crate) fn with_foretold(self, foretold: impl Fn() -> Foretold + Send + Sync + 'static) -> Self {
        Self { foretold: Some(Box::new(foretold)), ..self }
    }

    /// What theory predicts for the launch.
    pub fn foretold(&self) -> Foretold {
        self.foretold.as_ref().map_or(self.work.foretold, |foretold| foretold())
    }

    /// The same trial, with kernels that run in clusters of `cluster_threads` threads; 0 for no clusters.
    pub fn with_cluster_threads(self, cluster_threads: u32) -> Self {
        Self { cluster_threads, ..self }
    }

    /// The same trial, with the bytes or operations per second that the clocks of a device allow.
    pub fn with_peak(self, peak: impl Fn(&Device) -> Option<f64> + Send + Sync + 'static) -> Self {
        Self { peak: Some(Box::new(peak)), ..self }
    }

    /// What the clocks of the device allow in a second; none where that is not known.
    pub fn peak(&self, device: &Device) -> Option<f64> {
        self.peak.as_ref()?(device)
    }

    /// The same trial, whose lesson is about the grid of its one launch.
    pub fn with_grid(self, meta: &'static KernelMeta, config: LaunchConfig) -> Self {
        Self { grid: Some((meta, config)), ..self }
    }

    /// A trial of a rung that the host carries out, such as a copy. `procedure` does it a given number of times and
    /// checks the result.
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

    /// The same trial of a host, that is known to launch `kernels`, which tests run on what `make` gives.
    pub fn with_kernels(
        self,
        kernels: Vec<&'static str>,
        make: impl Fn() -> Problem + Send + Sync + 'static,
    ) -> Self {
        Self { kernels, make: Some(Box::new(make)), ..self }
    }

    /// The same trial, where `take` records when and where its blocks or warps ran.
    pub fn with_timeline(self, take: impl Fn(&Device) -> Result<Timeline> + Send + Sync + 'static) -> Self {
        Self { timeline: Some(Box::new(take)), ..self }
    }

    /// A new copy of the problem that its kernels run on. `None` for a trial that launches no kernel.
    pub fn problem(&self) -> Option<Problem> {
        self.make.as_ref().map(|make| make())
    }

    /// What the host does. `None` for a trial that times only its launches.
    pub fn procedure(&self) -> Option<&Procedure> {
        self.procedure.as_deref()
    }

    /// What watches a launch; none where nobody does.
    pub fn timeline(&self) -> Option<&TakeTimeline> {
        self.timeline.as_deref()
    }

    /// The trial as a case, which is compared with its oracle; none of one that launches nothing.
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
    // Most devices lack few kernels or none.
    let lacking = gpu_kernels::KERNELS.iter().filter(|kernel| !limits.runs(kernel));
    let lacking: Vec<&str> = lacking.map(|kernel| kernel.name).collect();
    let runs = |trial: &Trial| !trial.kernels.iter().any(|name| lacking.contains(name));
    trials.filter(runs).filter_map(Trial::case).collect()
}
