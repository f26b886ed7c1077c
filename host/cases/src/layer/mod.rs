//! The network's kernels on one layer: for each, how to run it and the expected values.

mod batch;
mod fused;
mod head;
mod linear;
mod problem;
pub mod resident;
mod rounded;
mod rows;
mod run;
pub mod short;
mod update;

use std::sync::Arc;

use anyhow::Result;
use cuda_std::launch::{KernelMeta, Limits};
use ferrowarp::device::Device;

use crate::case::Case;
use crate::compare::{Bound, Expected, Outputs};
use crate::reference::{LayerShape, Sum};

pub use problem::{Problem, problems, small_problems};

/// Seed and epoch of the order of the samples.
const ORDER: (u64, u32) = (0x0123_4567_89ab_cdef, 3);
/// The value of elements that are not written.
const UNTOUCHED: f32 = 0.25;
/// The same for words.
const UNTOUCHED_WORD: u32 = 77;

/// One kernel's check.
#[derive(Clone, Copy)]
struct Check {
    /// The kernel.
    kernel: &'static KernelMeta,
    /// Runs it and returns its outputs.
    run: fn(&Device, &Problem) -> Result<Outputs>,
    /// The expected outputs.
    expected: fn(&Problem) -> Expected,
}

/// The kernels of the last layer that run on a device with these limits.
pub fn last(problem: &Arc<Problem>, limits: &Limits) -> Vec<Case> {
    head::cases(problem, limits)
}

/// Every kernel of the network on a layer that runs on a device with these limits.
pub fn cases(problem: &Arc<Problem>, limits: &Limits) -> impl Iterator<Item = Case> + use<> {
    let checks = [batch::CHECKS, linear::CHECKS, rows::CHECKS, update::CHECKS].into_iter().flatten();
    let fused = fused::cases(problem, limits);
    let resident = resident::cases(problem, limits);
    let short = short::cases(problem);
    let problem = problem.clone();
    let naive = checks.map(move |&Check { kernel, run, expected }| {
        let (words, run_on, of) = (problem.clone(), problem.clone(), problem.clone());
        Case::new(
            vec![kernel.name],
            move || words.to_string(),
            move |device| run(device, &run_on),
            move || expected(&of),
        )
    });
    naive.chain(fused).chain(resident).chain(short)
}

// Tolerances of elements, in roundings of the magnitude. Sums are added in different orders, with or without fused
// multiply-add; functions of libm and libdevice are off by about two.
/// For sums of products.
const SUM: f64 = 16.0;
/// For sums of products by tensor cores, whose precision PTX leaves open.
const TENSOR_SUM: f64 = 64.0;
/// For logarithms.
const TRANSCENDENTAL: f64 = 32.0;
/// For a single operation.
const ONCE: f64 = 1.0;

fn within(sums: Vec<Sum>, roundings: f64) -> Vec<Bound> {
    sums.into_iter().map(|sum| sum.within(roundings)).collect()
}

/// An exact value.
fn exact(value: f64) -> Sum {
    Sum { value, magnitude: 0.0 }
}

fn layer_shape(p: &Problem) -> LayerShape {
    LayerShape { batch: p.batch, inputs: p.inputs, outputs: p.outputs }
}

/// The problem's shape, as kernels take it.
fn shape(p: &Problem) -> [u32; 3] {
    [p.batch as u32, p.inputs as u32, p.outputs as u32]
}
