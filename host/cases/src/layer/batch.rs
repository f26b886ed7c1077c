//! Gathers the samples of a step.

use anyhow::Result;
use cuda_std::launch::{LaunchConfig, LaunchError, Launcher};
use cuda_std::testing::{InputArg, OutputArg};
use ferrowarp::device::Device;
use gpu_kernels::mlp::batch::{self, PIXEL_SCALE, permuted};
use gpu_kernels::mlp::grid::per_sample;

use super::check::{Check, ORDER, shape};
use super::problem::Problem;
use super::run::Run;
use crate::case::wide;
use crate::compare::{Bound, Expected, Outputs};

/// The checks.
pub const CHECKS: &[Check] = &[
    Check { kernel: batch::shuffled_batch::META, run: shuffled_batch, expected: shuffled_batches },
    Check { kernel: batch::ordered_batch::META, run: ordered_batch, expected: ordered_batches },
];

/// The samples of a batch at `positions`: pixels, then labels.
fn samples(p: &Problem, positions: impl Iterator<Item = usize> + Clone) -> (Vec<Bound>, Vec<Bound>) {
    let pixels = positions.clone().flat_map(|sample| &p.images[sample * p.inputs..(sample + 1) * p.inputs]);
    let labels = positions.map(|sample| Bound::exact(f64::from(p.image_labels[sample])));
    (pixels.map(|&pixel| Bound::exact(f64::from(f32::from(pixel) * PIXEL_SCALE))).collect(), labels.collect())
}

/// The rows of a batch in the data set: all, and some from the middle.
fn ranges(p: &Problem) -> [(usize, usize); 2] {
    let first = p.batch / 3;
    [(0, p.batch), (first, p.batch - 2 * first)]
}

/// The samples of [`ranges`], in their own order.
fn ordered_batches(p: &Problem) -> Expected {
    batches(p, |i| i)
}

/// The samples of [`ranges`], in the order of [`ORDER`].
fn shuffled_batches(p: &Problem) -> Expected {
    let (seed, epoch) = ORDER;
    batches(p, |i| permuted(i as u32, p.batch as u32, seed, epoch) as usize)
}

fn batches(p: &Problem, sample_of: impl Fn(usize) -> usize) -> Expected {
    let of_range = |(first, rows)| {
        let order: Vec<usize> = (first..first + rows).map(&sample_of).collect();
        let (pixels, labels) = samples(p, order.into_iter());
        [("out", pixels), ("labels_out", labels)]
    };
    ranges(p).into_iter().flat_map(of_range).collect()
}

fn shuffled_batch(device: &Device, p: &Problem) -> Result<Outputs> {
    let (seed, epoch) = ORDER;
    let samples = p.batch as u32;
    run_batches(device, p, |on, batch| {
        let Batch { config, out, labels_out, images, labels, features, first, rows } = batch;
        // SAFETY: the arrays have the problem's shapes, the rows lie in them, and the grid covers the rows.
        unsafe {
            batch::shuffled_batch::launch(
                on, config, out, labels_out, images, labels, samples, features, first, rows, seed, epoch,
            )
        }
    })
}

fn ordered_batch(device: &Device, p: &Problem) -> Result<Outputs> {
    run_batches(device, p, |on, batch| {
        let Batch { config, out, labels_out, images, labels, features, first, rows } = batch;
        // SAFETY: same as above.
        unsafe {
            batch::ordered_batch::launch(on, config, out, labels_out, images, labels, features, first, rows)
        }
    })
}

/// The arguments of the kernels that gather a batch.
struct Batch<'a> {
    config: LaunchConfig,
    out: OutputArg<'a, f32>,
    labels_out: OutputArg<'a, u32>,
    images: InputArg<'a, u8>,
    labels: InputArg<'a, u8>,
    features: u32,
    first: u32,
    rows: u32,
}

/// Runs a kernel on the batches of the oracle's ranges.
fn run_batches(
    device: &Device,
    p: &Problem,
    launch: impl Fn(&dyn Launcher, Batch<'_>) -> Result<(), LaunchError>,
) -> Result<Outputs> {
    let [_, features, _] = shape(p);
    let mut outputs = Vec::new();
    for (first, rows) in ranges(p) {
        let mut run = Run::new(p);
        let (images, labels) = (run.input(&p.images), run.input(&p.image_labels));
        let (out, labels_out) = (run.output(rows * p.inputs), run.output(rows));
        let (first, rows) = (first as u32, rows as u32);
        let results = run.on(device, |on, memory| {
            let (out, labels_out) = (memory.output(out), memory.output(labels_out));
            let (images, labels, config) = (memory.input(images), memory.input(labels), per_sample(rows));
            launch(on, Batch { config, out, labels_out, images, labels, features, first, rows })
        })?;
        outputs.extend([("out", wide(&results.of(out))), ("labels_out", wide(&results.of(labels_out)))]);
    }
    Ok(outputs)
}
