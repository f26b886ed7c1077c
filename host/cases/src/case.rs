//! A case: kernels on a problem, and the expected values.

use std::fmt;
use std::sync::LazyLock;

use anyhow::{Context as _, Result, ensure};
use cuda_std::testing::Element;
use ferrowarp::device::Device;

use crate::compare::{Expected, Outputs, compare_all};
use crate::later::Later;

/// The words for a problem, created when the case runs.
type Words = LazyLock<String, Box<dyn FnOnce() -> String + Send>>;

type Run = dyn Fn(&Device) -> Result<Outputs> + Send + Sync;

/// A kernel, or a pair of them, on one problem.
pub struct Case {
    kernels: Vec<&'static str>,
    problem: Words,
    cluster_threads: u32,
    run: Box<Run>,
    expected: Box<dyn Fn() -> Expected + Send + Sync>,
}

impl Case {
    /// Creates a case of the kernels, with a function for the problem's words.
    pub(crate) fn new(
        kernels: Vec<&'static str>,
        problem: impl FnOnce() -> String + Send + 'static,
        run: impl Fn(&Device) -> Result<Outputs> + Send + Sync + 'static,
        expected: impl Fn() -> Expected + Send + Sync + 'static,
    ) -> Self {
        let problem: Words = LazyLock::new(Box::new(problem));
        Self { kernels, problem, cluster_threads: 0, run: Box::new(run), expected: Box::new(expected) }
    }

    /// Creates a case of the kernels on a problem that other cases may share.
    pub(crate) fn of<P: Send + Sync + 'static>(
        problem: impl Into<Later<P>>,
        kernels: Vec<&'static str>,
        words: impl FnOnce(&P) -> String + Send + 'static,
        run: impl Fn(&P, &Device) -> Result<Outputs> + Send + Sync + 'static,
        expected: impl Fn(&P) -> Expected + Send + Sync + 'static,
    ) -> Self {
        let problem = problem.into();
        let [to_name, to_run] = [(); 2].map(|()| problem.clone());
        let run = move |device: &Device| run(&to_run, device);
        Self::new(kernels, move || words(&to_name), run, move || expected(&problem))
    }

    /// Sets the threads per cluster of its kernels; 0 for no clusters.
    pub(crate) fn with_cluster_threads(self, cluster_threads: u32) -> Self {
        Self { cluster_threads, ..self }
    }

    /// Replaces the words for its problem.
    pub(crate) fn named(self, problem: impl FnOnce() -> String + Send + 'static) -> Self {
        Self { problem: LazyLock::new(Box::new(problem)), ..self }
    }

    /// The kernels that it launches.
    pub fn kernels(&self) -> impl Iterator<Item = &'static str> {
        self.kernels.iter().copied()
    }

    /// Threads per cluster, which all need a stack on the CPU at the same time; 0 without clusters.
    pub fn cluster_threads(&self) -> u32 {
        self.cluster_threads
    }

    /// Runs it and returns its outputs.
    ///
    /// # Errors
    /// A kernel failed, wrote outside its output, or did not write a part of it.
    pub fn run(&self, device: &Device) -> Result<Outputs> {
        (self.run)(device)
    }

    /// Runs it and compares with the oracle. Returns the outputs, and the largest error relative to its tolerance.
    ///
    /// # Errors
    /// A result exceeds its tolerance, or as for [`Self::run`]. The error names the case.
    pub fn assess(&self, device: &Device) -> Result<(Outputs, f64)> {
        let assess = || -> Result<(Outputs, f64)> {
            let got = self.run(device)?;
            let worst = compare_all(&got, &(self.expected)())?;
            Ok((got, worst))
        };
        assess().with_context(|| self.to_string())
    }

    /// Same as [`Self::assess`], and checks that a second run gives the same bits.
    ///
    /// # Errors
    /// Same as for `assess`, or the results differ.
    pub fn assess_twice(&self, device: &Device) -> Result<(Outputs, f64)> {
        let (got, worst) = self.assess(device)?;
        ensure!(is_same(&self.run(device)?, &got), "{self}: a second run gave other results");
        Ok((got, worst))
    }

    /// Runs it `runs` times and compares the outputs bit for bit.
    ///
    /// # Errors
    /// A run's bits differ from the first one's, or as for [`Self::run`].
    pub fn repeat(&self, device: &Device, runs: u32) -> Result<()> {
        let first = self.run(device)?;
        for run in 1..runs {
            ensure!(
                is_same(&self.run(device)?, &first),
                "{self}: run {} gave other results than the first",
                run + 1
            );
        }
        Ok(())
    }

    /// Same as [`Self::assess_twice`], and checks that a GPU's results match the CPU executor's within twice the tolerance.
    ///
    /// # Errors
    /// Same as for `assess_twice`, or the results differ.
    pub fn assess_with_cpu(&self, device: &Device) -> Result<f64> {
        let (got, worst) = self.assess_twice(device)?;
        if !device.is_cuda() {
            return Ok(worst);
        }
        let on_cpu = self.run(&Device::cpu())?;
        let oracle = (self.expected)();
        let around = oracle.iter().zip(&on_cpu).map(|((name, expected), (_, values))| {
            let pairs = expected.iter().zip(values);
            let bounds = pairs.map(|(bound, &value)| bound.around(value));
            (*name, bounds.collect())
        });
        let from_cpu = compare_all(&got, &around.collect());
        Ok(worst.max(from_cpu.with_context(|| format!("{self}, compared with the CPU"))?))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kernels.join(" + "), *self.problem)
    }
}

/// Whether two outputs are identical in every bit.
pub(crate) fn is_same(a: &Outputs, b: &Outputs) -> bool {
    let bits = |outputs: &Outputs| -> Vec<Vec<u64>> {
        outputs.iter().map(|(_, numbers)| numbers.iter().map(|x| x.to_bits()).collect()).collect()
    };
    bits(a) == bits(b)
}

/// The numbers as f64.
pub(crate) fn wide<T: Element>(numbers: &[T]) -> Vec<f64> {
    numbers.iter().map(|x| x.to_f64()).collect()
}
