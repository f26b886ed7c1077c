//! The kernels of the network and of the softmax ladder on one layer: for each how to run it and what is right.

mod batch;
mod linear;
mod problem;
mod rows;
mod run;
mod update;

use anyhow::{Result, ensure};
use cuda_std::launch::KernelMeta;
use ferrowarp::device::Device;
use gpu_kernels::softmax::{LADDER, Rung, Variant};

use crate::compare::compare;
use crate::reference::LayerShape;

/// One right answer, and the magnitudes added up on the way; 0 if the answer is exact in f32.
pub use crate::reference::Sum as Expected;
pub use problem::{Problem, problems, small_problems};

/// One kernel's check.
#[derive(Clone, Copy)]
pub struct Check {
    /// The kernel.
    pub kernel: &'static KernelMeta,
    /// Rounding errors of the magnitude that an element may be off. Sums are added in another order here and there, and
    /// with or without fused multiply-add; libm's and libdevice's functions are off by two or so.
    pub roundings: f64,
    /// How to run the kernel.
    pub run: Runner,
    /// The outputs in f64, with their names.
    pub reference: fn(&Problem) -> References,
}

impl Check {
    /// The kernels that it launches.
    pub fn kernels(&self) -> Vec<&'static str> {
        match self.run {
            Runner::With(_) => vec![self.kernel.name],
            Runner::Softmax(variant) => variant.steps().map(|step| step.meta.name).collect(),
        }
    }

    /// Runs the kernel on a problem and compares with the oracle. Gives the outputs, and the largest error in parts of
    /// what is allowed.
    ///
    /// # Errors
    /// A result is off by more, or the kernel failed or wrote outside its output.
    pub fn assess(&self, device: &Device, problem: &Problem) -> Result<(Outputs, f64)> {
        let got = self.run.on(device, problem)?;
        let worst = compare_all(&got, &(self.reference)(problem), self.roundings)?;
        Ok((got, worst))
    }

    /// As [`Self::assess`]; also a second run gives the same, and a GPU what the CPU executor does, within the rounding
    /// errors of both.
    ///
    /// # Errors
    /// Those of `assess`, or the results differ.
    pub fn assess_thoroughly(&self, device: &Device, problem: &Problem) -> Result<f64> {
        let (got, mut worst) = self.assess(device, problem)?;
        if device.is_cuda() {
            let on_cpu = self.run.on(&Device::cpu(), problem)?;
            let oracle = (self.reference)(problem);
            let around = oracle.iter().zip(&on_cpu);
            let around = around.map(|((name, expected), values)| (*name, with_values(expected, values)));
            worst = worst.max(compare_all(&got, &around.collect::<Vec<_>>(), 2.0 * self.roundings)?);
        }
        ensure!(self.run.on(device, problem)? == got, "a second run gave other results");
        Ok(worst)
    }
}

fn compare_all(got: &[Vec<f64>], expected: &[(&str, Vec<Expected>)], roundings: f64) -> Result<f64> {
    ensure!(got.len() == expected.len(), "{} outputs instead of {}", got.len(), expected.len());
    let mut worst = 0.0f64;
    for (got, (name, expected)) in got.iter().zip(expected) {
        worst = worst.max(compare(name, got, expected, roundings).map_err(anyhow::Error::msg)?);
    }
    Ok(worst)
}

/// The same scales around other values.
fn with_values(expected: &[Expected], values: &[f64]) -> Vec<Expected> {
    expected.iter().zip(values).map(|(expected, &value)| Expected { value, ..*expected }).collect()
}

/// How to run a kernel on a problem.
#[derive(Clone, Copy)]
pub enum Runner {
    /// This returns its outputs.
    With(fn(&Device, &Problem) -> Result<Outputs>),
    /// On the logits, as the ladder says.
    Softmax(Variant),
}

impl Runner {
    /// Whether the problem's shape is one for the kernel, and the device new enough for it.
    pub fn takes(self, device: &Device, problem: &Problem) -> bool {
        match self {
            Runner::With(_) => true,
            Runner::Softmax(variant) => {
                let prepared = variant.prepare(problem.batch, problem.outputs);
                prepared.is_some_and(|prepared| prepared.runs_on(device.limits()))
            }
        }
    }

    /// Runs the kernel and returns its outputs.
    pub fn on(self, device: &Device, problem: &Problem) -> Result<Outputs> {
        match self {
            Runner::With(run) => run(device, problem),
            Runner::Softmax(variant) => rows::run_ladder(device, problem, variant),
        }
    }
}

/// Every output of a kernel.
pub type Outputs = Vec<Vec<f64>>;

/// Every output of a kernel as it should be, with its name.
pub type References = Vec<(&'static str, Vec<Expected>)>;

/// For sums of products.
const SUM: f64 = 16.0;
/// For exponentials and logarithms.
const TRANSCENDENTAL: f64 = 32.0;
/// For a single operation.
const ONCE: f64 = 1.0;
/// For what is exact.
const EXACT: f64 = 0.0;

fn exact(value: f64) -> Expected {
    Expected { value, magnitude: 0.0 }
}

fn layer_shape(p: &Problem) -> LayerShape {
    LayerShape { batch: p.batch, inputs: p.inputs, outputs: p.outputs }
}

/// The problem's shape as kernels take it.
fn shape(p: &Problem) -> [u32; 3] {
    [p.batch as u32, p.inputs as u32, p.outputs as u32]
}

/// Every kernel's check.
pub fn checks() -> Vec<Check> {
    let softmax = LADDER.iter().flat_map(Rung::variants).map(|variant| Check {
        kernel: variant.meta(),
        roundings: TRANSCENDENTAL,
        run: Runner::Softmax(variant),
        reference: |p| vec![("out", rows::softmax(p))],
    });
    network().chain(softmax).collect()
}

/// The checks of the network's kernels.
pub fn network() -> impl Iterator<Item = Check> {
    [batch::CHECKS, linear::CHECKS, rows::CHECKS, update::CHECKS].into_iter().flatten().copied()
}
