//! How to run the kernels whose parameters no other kernel shares.

use anyhow::{Context as _, Result};
use cuda_std::launch::{LaunchConfig, LaunchError};
use ferrowarp::device::{BufferView, BufferViewMut, Device};
use gpu_kernels::mlp::grid::{per_element, per_sample};
use gpu_kernels::mlp::{batch, linear};
use gpu_kernels::softmax::Variant;

use super::oracle::{self, ORDER};
use super::run::Run;
use super::{Outputs, Problem, shape};

pub fn shuffled_batch(device: &Device, p: &Problem) -> Result<Outputs> {
    let (seed, epoch) = ORDER;
    let samples = p.batch as u32;
    batches(device, p, |config, Batch { out, labels_out, images, labels, features, first, rows }| {
        // SAFETY: the arrays have the problem's shapes, the rows lie in them, and the grid covers the rows.
        unsafe {
            batch::shuffled_batch::launch(
                device, config, out, labels_out, images, labels, samples, features, first, rows, seed, epoch,
            )
        }
    })
}

pub fn ordered_batch(device: &Device, p: &Problem) -> Result<Outputs> {
    batches(device, p, |config, Batch { out, labels_out, images, labels, features, first, rows }| {
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
fn batches(
    device: &Device,
    p: &Problem,
    launch: impl Fn(LaunchConfig, Batch<'_>) -> Result<(), LaunchError>,
) -> Result<Outputs> {
    let run = Run::new(device, p);
    let (images, labels) = (run.input(&p.images)?, run.input(&p.image_labels)?);
    let mut outputs = Vec::new();
    for (first, rows) in oracle::ranges(p) {
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

pub fn linear_backward_input(device: &Device, p: &Problem) -> Result<Outputs> {
    let run = Run::new(device, p);
    let (d_out, weights) = (run.input(&p.d_out)?, run.input(&p.weights)?);
    let mut d_inp = run.output::<f32>(p.batch * p.inputs)?;
    let [batch, inputs, outputs] = shape(p);
    let config = per_element(batch, inputs);
    let (d_out, weights) = (d_out.view()?, weights.view()?);
    // SAFETY: the arrays have the problem's shapes, and the grid covers the output.
    unsafe {
        linear::linear_backward_input::launch(
            device,
            config,
            d_inp.view()?,
            d_out,
            weights,
            batch,
            inputs,
            outputs,
        )
    }?;
    Ok(vec![d_inp.finish()?])
}

pub fn softmax(device: &Device, p: &Problem, variant: &'static Variant) -> Result<Outputs> {
    let kernel = variant.prepare(p.batch, p.outputs).context("the kernel refuses the shape")?;
    let run = Run::new(device, p);
    let (inp, mut out) = (run.input(&p.logits)?, run.output::<f32>(p.batch * p.outputs)?);
    let mut workspace = run.output::<f32>(kernel.workspace_len())?;
    // SAFETY: the arrays are three, and have the lengths that the kernel was prepared for.
    unsafe { kernel.launch(device, out.view()?, inp.view()?, workspace.view()?) }?;
    // It holds nothing to compare, but is written whole, and not outside.
    workspace.finish()?;
    Ok(vec![out.finish()?])
}
