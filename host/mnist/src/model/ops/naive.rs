//! The kernels with one operation each and one thread per output.

use mlp_kernels::grid::{per_element, per_row};
use mlp_kernels::loss::{self, Targets};
use mlp_kernels::{activation, linear, sgd};

use super::{Layer, Shape, area, need};
use crate::BatchSize;
use crate::model::epoch::EpochSpec;
use crate::model::error::ModelError;
use ferrowarp_device::device::{Buffer, BufferViewMut, Device};

/// Defines a safe function for each kernel. It checks that every buffer holds the product of the numbers after its name.
macro_rules! launches {
    ($(
        $(#[$doc:meta])*
        $name:ident = $kernel:ty, $grid:ident($($across:ident),+),
        [$($buffer:ident: $ty:ty = $what:literal[$($len:ident)+]),+], [$($number:ident: $of:ty),+];
    )+) => {$(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, reason = "those of the kernel")]
        pub(in crate::model) fn $name(
            on: &Device,
            $($buffer: $ty,)+
            $($number: $of),+
        ) -> Result<(), ModelError> {
            need(&[$((
                concat!("length of the ", $what),
                $buffer.len(),
                [$(u64::from($len)),+].into_iter().product(),
            )),+])?;
            // SAFETY: the buffers hold their shapes, as just checked, and the grid covers the outputs.
            unsafe { <$kernel>::launch(on, $grid($($across),+), $($buffer,)+ $($number),+)? };
            Ok(())
        }
    )+};
}

launches! {
    /// Computes `out = inp * weights + biases`.
    linear_forward = linear::linear_forward, per_element(rows, outputs), [
        out: &mut Buffer<f32> = "outputs"[rows outputs],
        inp: &Buffer<f32> = "inputs"[rows inputs],
        weights: &Buffer<f32> = "weights"[inputs outputs],
        biases: &Buffer<f32> = "biases"[outputs]
    ], [rows: u32, inputs: u32, outputs: u32];

    /// Computes `d_inp = d_out * weights^T`.
    linear_backward_input = linear::linear_backward_input, per_element(rows, inputs), [
        d_inp: &mut Buffer<f32> = "input gradient"[rows inputs],
        d_out: &Buffer<f32> = "output gradient"[rows outputs],
        weights: &Buffer<f32> = "weights"[inputs outputs]
    ], [rows: u32, inputs: u32, outputs: u32];

    /// Computes `out = max(inp, 0)`.
    relu_forward = activation::relu_forward, per_element(rows, cols), [
        out: &mut Buffer<f32> = "outputs"[rows cols],
        inp: &Buffer<f32> = "inputs"[rows cols]
    ], [rows: u32, cols: u32];

    /// Computes `d_inp = d_out` where the activation is positive.
    relu_backward = activation::relu_backward, per_element(rows, cols), [
        d_inp: &mut Buffer<f32> = "input gradient"[rows cols],
        d_out: &Buffer<f32> = "output gradient"[rows cols],
        activations: &Buffer<f32> = "activations"[rows cols]
    ], [rows: u32, cols: u32];

    /// Computes `out = softmax(inp)` along rows.
    softmax = loss::softmax_naive, per_element(rows, cols), [
        out: &mut Buffer<f32> = "probabilities"[rows cols],
        inp: &Buffer<f32> = "logits"[rows cols]
    ], [rows: u32, cols: u32];

    /// Computes `targets = one_hot(labels)`, except for the share that `of` spreads over all classes.
    one_hot = loss::one_hot, per_element(rows, cols), [
        targets: &mut Buffer<f32> = "targets"[rows cols],
        labels: &Buffer<u32> = "labels"[rows]
    ], [rows: u32, cols: u32, of: Targets];

    /// Computes the loss of each row.
    cross_entropy_loss = loss::cross_entropy_loss, per_row(rows), [
        out: BufferViewMut<'_, f32> = "losses"[rows],
        probs: &Buffer<f32> = "probabilities"[rows cols],
        targets: &Buffer<f32> = "targets"[rows cols]
    ], [rows: u32, cols: u32];

    /// Computes `d_logits = probs - targets`.
    cross_entropy_backward = loss::cross_entropy_backward, per_element(rows, cols), [
        d_logits: &mut Buffer<f32> = "gradient"[rows cols],
        probs: &Buffer<f32> = "probabilities"[rows cols],
        targets: &Buffer<f32> = "targets"[rows cols]
    ], [rows: u32, cols: u32];

    /// Writes 1 for each row if its largest score belongs to its label, otherwise 0.
    count_correct = loss::count_correct, per_row(rows), [
        out: BufferViewMut<'_, u32> = "hits"[rows],
        scores: &Buffer<f32> = "scores"[rows cols],
        labels: &Buffer<u32> = "labels"[rows]
    ], [rows: u32, cols: u32];
}

/// Learning rate and momentum of a step.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct Sgd {
    pub lr: f32,
    pub momentum: f32,
}

impl Sgd {
    /// The values for the epoch's batch that begins with sample `first`.
    pub fn of(spec: &EpochSpec, batch_size: BatchSize, first: u32) -> Self {
        let step = batch_size.steps(first as usize) as usize;
        Self { lr: spec.rates.at(step), momentum: spec.momentum }
    }
}

/// Runs an SGD step of a layer, one thread per weight. It averages `d_out`, which is summed over the batch.
pub(in crate::model) fn update_layer(
    on: &Device,
    layer: &mut Layer,
    activations: &Buffer<f32>,
    d_out: &Buffer<f32>,
    Shape { rows, inputs, outputs }: Shape,
    Sgd { lr, momentum }: Sgd,
) -> Result<(), ModelError> {
    layer.need(inputs, outputs, momentum)?;
    need(&[
        ("length of the activations", activations.len(), area(rows, inputs)),
        ("length of the output gradient", d_out.len(), area(rows, outputs)),
    ])?;
    let config = per_element(inputs, outputs);
    let Layer { weights: w, biases: b, weight_velocity: wv, bias_velocity: bv, .. } = layer;
    // SAFETY: the buffers hold their shapes, as just checked, and the grid covers the weights.
    unsafe {
        sgd::update_layer::launch(
            on,
            config,
            w,
            b,
            wv,
            bv,
            activations,
            d_out,
            rows,
            inputs,
            outputs,
            lr,
            momentum,
        )?;
    }
    Ok(())
}
