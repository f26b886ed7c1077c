//! A trial: a rung of a lesson on a problem, and its work.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use ferrowarp::device::Device;
use gpu_kernels::gallery::Rung;

use super::problem::Problem;
use super::timeline::Timeline;
use crate::case::Case;

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
    /// What the rung does, in one line.
    pub idea: &'static str,
    /// The problem's value on the lesson's axis.
    pub at: f64,
    /// The kernels that it launches.
    pub kernels: Vec<&'static str>,
    /// The problem in words.
    pub words: String,
    /// The work of one run.
    pub work: Work,
    peak: Option<Box<Peak>>,
    make: Option<Box<dyn Fn() -> Problem + Send + Sync>>,
    procedure: Option<Box<Procedure>>,
    timeline: Option<Box<TakeTimeline>>,
    conflicts: Option<Box<dyn Fn() -> usize + Send + Sync>>,
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
    /// The predictions for the kernel that need no counting; see [`Trial::predicted`].
    pub(super) counts: Counts,
}

/// The predictions for a launch, to compare with the counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
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
    pub(super) fn of_bytes(bytes: usize) -> Self {
        Self { bytes: bytes as f64, ..Self::default() }
    }

    pub(super) fn with_memory_bytes(self, bytes: usize) -> Self {
        Self { memory_bytes: Some(bytes as f64), ..self }
    }

    /// Sets the floating-point operations.
    pub(super) fn with_flop(self, flop: usize) -> Self {
        Self { flop: flop as f64, ..self }
    }

    /// Predicts the numbers of sectors loaded and stored.
    pub(super) fn with_sectors(mut self, loaded: usize, stored: usize) -> Self {
        (self.counts.sectors_loaded, self.counts.sectors_stored) = (Some(loaded as f64), Some(stored as f64));
        self
    }

    pub(super) fn with_conflicts(mut self, conflicts: usize) -> Self {
        self.counts.bank_conflicts = Some(conflicts as f64);
        self
    }

    pub(super) fn with_divergent_branches(mut self, branches: usize) -> Self {
        self.counts.divergent_branches = Some(branches as f64);
        self
    }
}

impl Trial {
    /// Creates a trial of a rung; its kernels run on the problem from `make`.
    pub(super) fn new(
        (rung, idea, kernels): (&'static str, &'static str, Vec<&'static str>),
        at: usize,
        words: String,
        work: Work,
        make: impl Fn() -> Problem + Send + Sync + 'static,
    ) -> Self {
        Self::empty((rung, idea), at, words, work).with_kernels(kernels, make)
    }

    /// Creates a trial of a rung with one kernel.
    pub(super) fn of_rung<A, F>(
        rung: &'static Rung<A, F>,
        at: usize,
        words: String,
        work: Work,
        make: impl Fn() -> Problem + Send + Sync + 'static,
    ) -> Self {
        Self::new((rung.name, rung.idea, vec![rung.kernel.meta.name]), at, words, work, make)
    }

    /// Creates a trial of a rung that the host carries out, such as a copy. `procedure` repeats it a given number of times
    /// and checks the result.
    pub(super) fn of_host(
        name: (&'static str, &'static str),
        at: usize,
        words: String,
        work: Work,
        procedure: impl Fn(&Device, usize) -> Result<Timed> + Send + Sync + 'static,
    ) -> Self {
        Self { procedure: Some(Box::new(procedure)), ..Self::empty(name, at, words, work) }
    }

    /// Creates a trial without launches or a procedure.
    pub(super) fn empty(
        (rung, idea): (&'static str, &'static str),
        at: usize,
        words: String,
        work: Work,
    ) -> Self {
        let (peak, make, procedure, timeline, conflicts) = (None, None, None, None, None);
        let (at, kernels) = (at as f64, Vec::new());
        Self { rung, idea, at, kernels, words, work, peak, make, procedure, timeline, conflicts }
    }

    /// Sets the kernels that it launches; tests run them on the problem from `make`.
    pub(super) fn with_kernels(
        self,
        kernels: Vec<&'static str>,
        make: impl Fn() -> Problem + Send + Sync + 'static,
    ) -> Self {
        Self { kernels, make: Some(Box::new(make)), ..self }
    }

    /// Sets a prediction of bank conflicts that counts requests one by one. It is only computed on request.
    pub(super) fn with_conflicts(self, conflicts: impl Fn() -> usize + Send + Sync + 'static) -> Self {
        Self { conflicts: Some(Box::new(conflicts)), ..self }
    }

    /// The predictions for the launch.
    pub fn predicted(&self) -> Counts {
        let conflicts = self.conflicts.as_ref().map(|conflicts| conflicts() as f64);
        Counts { bank_conflicts: conflicts.or(self.work.counts.bank_conflicts), ..self.work.counts }
    }

    /// Sets the maximum bytes or operations per second at a device's clocks.
    pub(super) fn with_peak(self, peak: impl Fn(&Device) -> Option<f64> + Send + Sync + 'static) -> Self {
        Self { peak: Some(Box::new(peak)), ..self }
    }

    /// The maximum rate at the device's clocks; `None` if unknown.
    pub fn peak(&self, device: &Device) -> Option<f64> {
        self.peak.as_ref()?(device)
    }

    /// Sets the function that records when and where its blocks or warps ran.
    pub(super) fn with_timeline(
        self,
        take: impl Fn(&Device) -> Result<Timeline> + Send + Sync + 'static,
    ) -> Self {
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
    pub(super) fn case(self) -> Option<Case> {
        let words = move || format!("{}, {}", self.rung, self.words);
        let make: Arc<dyn Fn() -> Problem + Send + Sync> = self.make?.into();
        let again = Arc::clone(&make);
        Some(Case::new(self.kernels, words, move |device| make().run(device), move || again().expected()))
    }
}

/// The trials of each rung on each problem.
pub(super) fn each<R, P: Copy>(
    rungs: &'static [R],
    problems: &[P],
    trial: impl Fn(&'static R, P) -> Trial,
) -> Vec<Trial> {
    let trial = &trial;
    rungs.iter().flat_map(|rung| problems.iter().map(move |&problem| trial(rung, problem))).collect()
}
