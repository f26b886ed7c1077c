//! Softmax, cross entropy and hits.

use mlp_kernels::grid::{per_element, per_row};
use mlp_kernels::loss::{self, Targets};

use super::{area, need};
use crate::model::error::ModelError;
use ferrowarp_device::device::{Buffer, BufferViewMut, Device};

/// Computes `out = softmax(inp)` along rows, one thread per output.
pub(in crate::model) fn softmax(
    on: &Device,
    out: &mut Buffer<f32>,
    inp: &Buffer<f32>,
    rows: u32,
    cols: u32,
) -> Result<(), ModelError> {
    let len = area(rows, cols);
    need(&[("length of the probabilities", out.len(), len), ("length of the logits", inp.len(), len)])?;
    // SAFETY: the buffers hold their shapes, as just checked, and the grid covers them.
    unsafe { loss::softmax_naive::launch(on, per_element(rows, cols), out, inp, rows, cols)? };
    Ok(())
}

/// Computes `targets = one_hot(labels)`, except for the share that `of` spreads over all classes.
pub(in crate::model) fn one_hot(
    on: &Device,
    targets: &mut Buffer<f32>,
    labels: &Buffer<u32>,
    rows: u32,
    cols: u32,
    of: Targets,
) -> Result<(), ModelError> {
    need(&[
        ("length of the targets", targets.len(), area(rows, cols)),
        ("length of the labels", labels.len(), rows.into()),
    ])?;
    // SAFETY: the buffers hold their shapes, as just checked, and the grid covers them.
    unsafe { loss::one_hot::launch(on, per_element(rows, cols), targets, labels, rows, cols, of)? };
    Ok(())
}

/// Computes the loss of each row.
pub(in crate::model) fn cross_entropy_loss(
    on: &Device,
    out: BufferViewMut<'_, f32>,
    probs: &Buffer<f32>,
    targets: &Buffer<f32>,
    rows: u32,
    cols: u32,
) -> Result<(), ModelError> {
    let len = area(rows, cols);
    need(&[
        ("length of the losses", out.len(), rows.into()),
        ("length of the probabilities", probs.len(), len),
        ("length of the targets", targets.len(), len),
    ])?;
    // SAFETY: the buffers hold their shapes, as just checked, and the grid covers the rows.
    unsafe { loss::cross_entropy_loss::launch(on, per_row(rows), out, probs, targets, rows, cols)? };
    Ok(())
}

/// Computes `d_logits = probs - targets`.
pub(in crate::model) fn cross_entropy_backward(
    on: &Device,
    d_logits: &mut Buffer<f32>,
    probs: &Buffer<f32>,
    targets: &Buffer<f32>,
    rows: u32,
    cols: u32,
) -> Result<(), ModelError> {
    let len = area(rows, cols);
    need(&[
        ("length of the gradient", d_logits.len(), len),
        ("length of the probabilities", probs.len(), len),
        ("length of the targets", targets.len(), len),
    ])?;
    let config = per_element(rows, cols);
    // SAFETY: the buffers hold their shapes, as just checked, and the grid covers them.
    unsafe { loss::cross_entropy_backward::launch(on, config, d_logits, probs, targets, rows, cols)? };
    Ok(())
}

/// Writes 1 for each row if its largest score belongs to its label, otherwise 0.
pub(in crate::model) fn count_correct(
    on: &Device,
    out: BufferViewMut<'_, u32>,
    scores: &Buffer<f32>,
    labels: &Buffer<u32>,
    rows: u32,
    cols: u32,
) -> Result<(), ModelError> {
    need(&[
        ("length of the hits", out.len(), rows.into()),
        ("length of the scores", scores.len(), area(rows, cols)),
        ("length of the labels", labels.len(), rows.into()),
    ])?;
    // SAFETY: the buffers hold their shapes, as just checked, and the grid covers the rows.
    unsafe { loss::count_correct::launch(on, per_row(rows), out, scores, labels, rows, cols)? };
    Ok(())
}
