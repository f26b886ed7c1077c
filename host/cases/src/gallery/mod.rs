//! The lessons of the gallery: one table of trials for tests, benches, pictures and pages. A lesson's axes, pictures and
//! predicted times are in a file next to its page in `docs/gallery`.

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
mod matmul;
mod numbers;
mod occupancy;
mod overlap;
mod overtake;
mod peaks;
mod problem;
mod recompute;
mod reduce;
mod register_arrays;
mod relu;
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
use cuda_std::launch::{LaunchConfig, Launcher, Limits};
use ferrowarp::device::Device;
use gpu_kernels::gallery::Rung;

use crate::compare::Bound;
use crate::reference::Sum;
use crate::{Case, Scope};

use numbers::{elements, number, numbers, numbers_as, sum};
pub use problem::{Array, Arrays, Handle, Placed, Problem, Session};
pub use timeline::Timeline;

macro_rules! lessons {
    ($($name:ident)*) => { &[$(Lesson { name: stringify!($name), trials: $name::trials }),*] };
}

/// Every lesson.
pub const LESSONS: &[Lesson] = lessons![
    vector_add overtake copy_offset layout constant grey fusion recompute relu reduce dot bank_conflicts transpose
    register_arrays warps warp_masks divergence occupancy launch_bounds peaks csv matmul transfers overlap unified
    block_order
];

/// A lesson: rungs that run on the same problems.
#[derive(Clone, Copy, Debug)]
pub struct Lesson {
    /// Its name, also of its kernel file and of its page in `docs/gallery`.
    pub name: &'static str,
    /// The trials at a scale.
    pub trials: fn(Scale) -> Vec<Trial>,
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
    counts: Counts,
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
    fn of_bytes(bytes: usize) -> Self {
        Self { bytes: bytes as f64, ..Self::default() }
    }

    fn with_memory_bytes(self, bytes: usize) -> Self {
        Self { memory_bytes: Some(bytes as f64), ..self }
    }

    /// Sets the floating-point operations.
    fn with_flop(self, flop: usize) -> Self {
        Self { flop: flop as f64, ..self }
    }

    /// Predicts the numbers of sectors loaded and stored.
    fn with_sectors(mut self, loaded: usize, stored: usize) -> Self {
        (self.counts.sectors_loaded, self.counts.sectors_stored) = (Some(loaded as f64), Some(stored as f64));
        self
    }

    fn with_conflicts(mut self, conflicts: usize) -> Self {
        self.counts.bank_conflicts = Some(conflicts as f64);
        self
    }

    fn with_divergent_branches(mut self, branches: usize) -> Self {
        self.counts.divergent_branches = Some(branches as f64);
        self
    }
}

impl Trial {
    /// Creates a trial of a rung; its kernels run on the problem from `make`.
    fn new(
        (rung, idea, kernels): (&'static str, &'static str, Vec<&'static str>),
        at: usize,
        words: String,
        work: Work,
        make: impl Fn() -> Problem + Send + Sync + 'static,
    ) -> Self {
        Self::empty((rung, idea), at, words, work).with_kernels(kernels, make)
    }

    /// Creates a trial of a rung with one kernel.
    fn of_rung<A, F>(
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
    fn of_host(
        name: (&'static str, &'static str),
        at: usize,
        words: String,
        work: Work,
        procedure: impl Fn(&Device, usize) -> Result<Timed> + Send + Sync + 'static,
    ) -> Self {
        Self { procedure: Some(Box::new(procedure)), ..Self::empty(name, at, words, work) }
    }

    /// Creates a trial without launches or a procedure.
    fn empty((rung, idea): (&'static str, &'static str), at: usize, words: String, work: Work) -> Self {
        let (peak, make, procedure, timeline, conflicts) = (None, None, None, None, None);
        let (at, kernels) = (at as f64, Vec::new());
        Self { rung, idea, at, kernels, words, work, peak, make, procedure, timeline, conflicts }
    }

    /// Sets the kernels that it launches; tests run them on the problem from `make`.
    fn with_kernels(
        self,
        kernels: Vec<&'static str>,
        make: impl Fn() -> Problem + Send + Sync + 'static,
    ) -> Self {
        Self { kernels, make: Some(Box::new(make)), ..self }
    }

    /// Sets a prediction of bank conflicts that counts requests one by one. It is only computed on request.
    fn with_conflicts(self, conflicts: impl Fn() -> usize + Send + Sync + 'static) -> Self {
        Self { conflicts: Some(Box::new(conflicts)), ..self }
    }

    /// The predictions for the launch.
    pub fn predicted(&self) -> Counts {
        let conflicts = self.conflicts.as_ref().map(|conflicts| conflicts() as f64);
        Counts { bank_conflicts: conflicts.or(self.work.counts.bank_conflicts), ..self.work.counts }
    }

    /// Sets the maximum bytes or operations per second at a device's clocks.
    fn with_peak(self, peak: impl Fn(&Device) -> Option<f64> + Send + Sync + 'static) -> Self {
        Self { peak: Some(Box::new(peak)), ..self }
    }

    /// The maximum rate at the device's clocks; `None` if unknown.
    pub fn peak(&self, device: &Device) -> Option<f64> {
        self.peak.as_ref()?(device)
    }

    /// Sets the function that records when and where its blocks or warps ran.
    fn with_timeline(self, take: impl Fn(&Device) -> Result<Timeline> + Send + Sync + 'static) -> Self {
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
        let make: Arc<dyn Fn() -> Problem + Send + Sync> = self.make?.into();
        let again = Arc::clone(&make);
        Some(Case::new(self.kernels, words, move |device| make().run(device), move || again().expected()))
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

/// The trials of each rung on each problem.
fn each<R, P: Copy>(
    rungs: &'static [R],
    problems: &[P],
    trial: impl Fn(&'static R, P) -> Trial,
) -> Vec<Trial> {
    let trial = &trial;
    rungs.iter().flat_map(|rung| problems.iter().map(move |&problem| trial(rung, problem))).collect()
}

/// Lanes of a warp.
const WARP: usize = 32;

/// Passes of a request for these words over the 32 banks of shared memory, which are one 4-byte word wide: the number of
/// words in the bank with the most. A word that several lanes request counts once.
fn passes(words: impl IntoIterator<Item = usize>) -> usize {
    let mut words: Vec<usize> = words.into_iter().collect();
    words.sort_unstable();
    words.dedup();
    let mut of_bank = [0; 32];
    words.iter().for_each(|word| of_bank[word % 32] += 1);
    of_bank.into_iter().max().unwrap_or(0)
}

/// Element `i` of an array of words that differ from each other.
fn word(i: usize) -> u32 {
    (i as u32).wrapping_mul(2_654_435_761)
}

/// The value, rounded once.
fn rounded(value: f64) -> Bound {
    Sum { value, magnitude: value.abs() }.within(1.0)
}

/// GeLU in its tanh form (Hendrycks, Gimpel 2016, section 2).
fn gelu(x: f64) -> Bound {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    // Near -1, adding to the tanh loses precision.
    Sum { value: 0.5 * x * (1.0 + inner.tanh()), magnitude: x.abs() }.within(16.0)
}
