//! How to run the kernels whose parameters no other kernel shares.

use anyhow::{Context as _, Result};
use ferrowarp::device::Device;
use gpu_kernels::mlp::{batch, linear};
use gpu_kernels::softmax::Variant;

use super::checks::{Outputs, References, per_element, per_sample, shape};
use super::problem::Problem;
use super::reference::{Expected, ORDER};
use super::run::Run;

pub fn batch_outputs((pixels, labels): (Vec<Expected>, Vec<Expected>)) -> References {
    vec![("out", pixels), ("labels_out", labels)]
}

pub fn shuffled_batch(device: &Device, p: &Problem) -> Result<Outputs> {
    let run = Run::new(device, p);
    let (images, labels) = (run.input(&p.images)?, run.input(&p.image_labels)?);
    let (mut out, mut labels_out) = (run.output::<f32>(p.images.len())?, run.output::<u32>(p.batch)?);
    let [rows, features, _] = shape(p);
    let (config, (seed, epoch)) = (per_sample(p.batch), ORDER);
    let (images, labels) = (images.view()?, labels.view()?);
    // SAFETY: the arrays have the problem's shapes, and the grid covers the rows.
    unsafe {
        batch::shuffled_batch::launch(
            device,
            config,
            out.view()?,
            labels_out.view()?,
            images,
            labels,
            rows,
            features,
            0,
            rows,
            seed,
            epoch,
        )
    }?;
    Ok(vec![out.finish()?, labels_out.finish()?])
}

pub fn ordered_batch(device: &Device, p: &Problem) -> Result<Outputs> {
    let run = Run::new(device, p);
    let (images, labels) = (run.input(&p.images)?, run.input(&p.image_labels)?);
    let (mut out, mut labels_out) = (run.output::<f32>(p.images.len())?, run.output::<u32>(p.batch)?);
    let [rows, features, _] = shape(p);
    let (config, images, labels) = (per_sample(p.batch), images.view()?, labels.view()?);
    // SAFETY: the arrays have the problem's shapes, and the grid covers the rows.
    unsafe {
        batch::ordered_batch::launch(
            device,
            config,
            out.view()?,
            labels_out.view()?,
            images,
            labels,
            features,
            0,
            rows,
        )
    }?;
    Ok(vec![out.finish()?, labels_out.finish()?])
}

pub fn linear_backward_input(device: &Device, p: &Problem) -> Result<Outputs> {
    let run = Run::new(device, p);
    let (d_out, weights) = (run.input(&p.d_out)?, run.input(&p.weights)?);
    let mut d_inp = run.output::<f32>(p.batch * p.inputs)?;
    let (config, [batch, inputs, outputs]) = (per_element(p.batch, p.inputs), shape(p));
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
