//! What the checks of the network's kernels have in common.

use std::sync::Arc;

use anyhow::Result;
use cuda_std::launch::KernelMeta;
use ferrowarp::device::Device;

use super::problem::Problem;
use crate::case::Case;
use crate::compare::{Bound, Expected, Outputs};
use crate::reference::{LayerShape, Sum};

/// Seed and epoch of the order of the samples.
pub(super) const ORDER: (u64, u32) = (0x0123_4567_89ab_cdef, 3);
/// The value of elements that are not written.
pub(super) const UNTOUCHED: f32 = 0.25;
/// The same for words.
pub(super) const UNTOUCHED_WORD: u32 = 77;

/// One kernel's check.
#[derive(Clone, Copy)]
pub(super) struct Check {
    /// The kernel.
    pub kernel: &'static KernelMeta,
    /// Runs it and returns its outputs.
    pub run: fn(&Device, &Problem) -> Result<Outputs>,
    /// The expected outputs.
    pub expected: fn(&Problem) -> Expected,
}

/// The case of a kernel on this problem.
pub(super) fn case(
    problem: &Arc<Problem>,
    kernel: &'static KernelMeta,
    run: impl Fn(&Problem, &Device) -> Result<Outputs> + Send + Sync + 'static,
    expected: impl Fn(&Problem) -> Expected + Send + Sync + 'static,
) -> Case {
    Case::of(problem, vec![kernel.name], Problem::to_string, run, expected)
}

// Tolerances of elements, in roundings of the magnitude. Sums are added in different orders, with or without fused
// multiply-add; functions of libm and libdevice are off by about two.
/// For sums of products.
pub(super) const SUM: f64 = 16.0;
/// For sums of products by tensor cores, whose precision PTX leaves open.
pub(super) const TENSOR_SUM: f64 = 64.0;
/// For logarithms.
pub(super) const TRANSCENDENTAL: f64 = 32.0;
/// For a single operation.
pub(super) const ONCE: f64 = 1.0;

pub(super) fn within(sums: Vec<Sum>, roundings: f64) -> Vec<Bound> {
    sums.into_iter().map(|sum| sum.within(roundings)).collect()
}

/// An exact value.
pub(super) fn exact(value: f64) -> Sum {
    Sum { value, magnitude: 0.0 }
}

pub(super) fn layer_shape(p: &Problem) -> LayerShape {
    LayerShape { batch: p.batch, inputs: p.inputs, outputs: p.outputs }
}

/// The problem's shape, as kernels take it.
pub(super) fn shape(p: &Problem) -> [u32; 3] {
    [p.batch as u32, p.inputs as u32, p.outputs as u32]
}
