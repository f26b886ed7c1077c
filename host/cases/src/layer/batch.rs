//! Gathering the samples of a step.

use anyhow::Result;
use cuda_std::launch::{LaunchConfig, LaunchError};
use ferrowarp::device::{BufferView, BufferViewMut, Device};
use gpu_kernels::mlp::batch::{self, PIXEL_SCALE, permuted};
use gpu_kernels::mlp::grid::per_sample;

use super::run::Run;
use super::{Check, EXACT, Expected, Outputs, Problem, References, Runner, exact, shape};

/// Seed and epoch of the shuffled batch.
const ORDER: (u64, u32) = (0x0123_4567_89ab_cdef, 3);

/// The checks.
pub const CHECKS: &[Check] = &[
    Check {
        kernel: batch::shuffled_batch::META,
        roundings: EXACT,
        run: Runner::With(shuffled_batch),
        reference: shuffled_batches,
    },
    Check {
        kernel: batch::ordered_batch::META,
        roundings: EXACT,
        run: Runner::With(ordered_batch),
        reference: ordered_batches,
    },
];

/// The samples of a batch that `positions` names: pixels, then labels.
fn samples(p: &Problem, positions: impl Iterator<Item = usize> + Clone) -> (Vec<Expected>, Vec<Expected>) {
    let pixels = positions.clone().flat_map(|sample| &p.images[sample * p.inputs..(sample + 1) * p.inputs]);
    let labels = positions.map(|sample| exact(f64::from(p.image_labels[sample])));
    (pixels.map(|&pixel| exact(f64::from(f32::from(pixel) * PIXEL_SCALE))).collect(), labels.collect())
}

/// The rows of a batch in the data set: all, and some from the middle.
fn ranges(p: &Problem) -> [(usize, usize); 2] {
    let first = p.batch / 3;
    [(0, p.batch), (first, p.batch - 2 * first)]
}

/// The samples of [`ranges`], in their own order.
fn ordered_batches(p: &Problem) -> References {
    batches(p, |i| i)
}

/// The samples of [`ranges`], in the order of [`ORDER`].
fn shuffled_batches(p: &Problem) -> References {
    let (seed, epoch) = ORDER;
    batches(p, |i| permuted(i as u32, p.batch as u32, seed, epoch) as usize)
}

fn batches(p: &Problem, sample_of: impl Fn(usize) -> usize) -> References {
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
    run_batches(device, p, |config, Batch { out, labels_out, images, labels, features, first, rows }| {
        // SAFETY: the arrays have the problem's shapes, the rows lie in them, and the grid covers the rows.
        unsafe {
            batch::shuffled_batch::launch(
                device, config, out, labels_out, images, labels, samples, features, first, rows, seed, epoch,
            )
        }
    })
}

fn ordered_batch(device: &Device, p: &Problem) -> Result<Outputs> {
    run_batches(device, p, |config, Batch { out, labels_out, images, labels, features, first, rows }| {
        // SAFETY: as above.
        unsafe {
            batch::ordered_batch::launch(
                device, config, out, labels_out, images, labels, features, first, rows,
            )
        }
    })
}

/// What the kernels that gather a batch take.
struct Batch<'a> {
    out: BufferViewMut<'a, f32>,
    labels_out: BufferViewMut<'a, u32>,
    images: BufferView<'a, u8>,
    labels: BufferView<'a, u8>,
    features: u32,
    first: u32,
    rows: u32,
}

/// The batches of the oracle's ranges.
fn run_batches(
    device: &Device,
    p: &Problem,
    launch: impl Fn(LaunchConfig, Batch<'_>) -> Result<(), LaunchError>,
) -> Result<Outputs> {
    let run = Run::new(device, p);
    let (images, labels) = (run.input(&p.images)?, run.input(&p.image_labels)?);
    let mut outputs = Vec::new();
    for (first, rows) in ranges(p) {
        let (mut out, mut labels_out) = (run.output::<f32>(rows * p.inputs)?, run.output::<u32>(rows)?);
        let [_, features, _] = shape(p);
        let (out_view, labels_view) = (out.view()?, labels_out.view()?);
        let (first, rows) = (first as u32, rows as u32);
        let batch = Batch {
            out: out_view,
            labels_out: labels_view,
            images: images.view()?,
            labels: labels.view()?,
            features,
            first,
            rows,
        };
        launch(per_sample(rows), batch)?;
        outputs.extend([out.finish()?, labels_out.finish()?]);
    }
    Ok(outputs)
}
