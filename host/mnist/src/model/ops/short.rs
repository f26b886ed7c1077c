//! A step of a small batch in three launches.

use cuda_std::launch::RawBuffer;
use mlp_kernels::operand::Operands;
use mlp_kernels::short::first::{self, FirstArgsHost, short_first};
use mlp_kernels::short::rows::{self, RowsLaunch, short_rows};
use mlp_kernels::short::updates::{self, short_updates};

use super::fused::{Move, NextBatch, next_batch};
use super::{Layer, Queue, area, need};
use crate::BatchSize;
use crate::model::activations::Activations;
use crate::model::dataset::DeviceDataset;
use crate::model::error::{ModelError, to_u32};
use crate::model::precision::Precision;
use crate::model::results::Scores;
use ferrowarp_device::device::{Buffer, Device};

/// The extents and the memory of such steps, for networks that can take them.
#[derive(Debug)]
pub(in crate::model) struct Short {
    extents: mlp_kernels::short::Extents,
    /// Partial sums of the first layer.
    sums: Buffer<f32>,
}

impl Short {
    /// Prepares steps for these layers and this batch size; `None` if the kernels do not support them.
    pub fn new(
        on: &Device,
        layers: &[Layer],
        (precision, batch_size): (Precision, BatchSize),
    ) -> Result<Option<Self>, ModelError> {
        let [one, two, three] = layers else { return Ok(None) };
        let extents = mlp_kernels::short::Extents {
            features: one.inputs,
            hidden1: one.outputs,
            hidden2: two.outputs,
            classes: three.outputs,
            batch: batch_size.get(),
        };
        if precision.operands() != Operands::F32 || !extents.fits() {
            return Ok(None);
        }
        Ok(Some(Self { extents, sums: on.alloc_zeroed(extents.sums())? }))
    }

    /// Trains on the batch of `rows` samples in `state.inputs`, and gathers the next `next` samples.
    pub fn step(
        &mut self,
        on: Queue<'_>,
        layers: &mut [Layer],
        state: &mut Activations,
        (data, next): (&DeviceDataset, u32),
        (scores, rates, momentum): (Scores<'_>, &Buffer<f32>, f32),
        rows: u32,
    ) -> Result<(), ModelError> {
        let [one, two, three] = layers else { return Ok(()) };
        let mlp_kernels::short::Extents { features, hidden1, hidden2, classes, batch } = self.extents;
        let shares = to_u32("number of shares of a sum", self.extents.shares())?;
        let [features, hidden1, hidden2, classes] = [
            to_u32("number of inputs", features)?,
            to_u32("number of units", hidden1)?,
            to_u32("number of units", hidden2)?,
            to_u32("number of classes", classes)?,
        ];
        let Activations { inputs, labels, outputs, gradients, ahead, targets, .. } = state;
        let ([units1, units2, ..], [d_hidden1, d_hidden2, d_logits]) = (&mut outputs[..], &mut gradients[..])
        else {
            return Ok(());
        };
        need(&[
            ("size of the batch", batch, rows.into()),
            ("length of the losses", scores.loss.len(), rows.into()),
            ("length of the hits", scores.correct.len(), rows.into()),
            ("length of the inputs", inputs.len(), area(rows, features)),
            ("length of the labels", labels.len(), rows.into()),
            ("length of the shares of the sums", self.sums.len(), u64::from(shares) * area(rows, hidden1)),
            ("length of the first layer's weights", one.weights.len(), area(features, hidden1)),
            ("length of the first layer's biases", one.biases.len(), hidden1.into()),
            ("length of the second layer's weights", two.weights.len(), area(hidden1, hidden2)),
            ("length of the second layer's biases", two.biases.len(), hidden2.into()),
            ("length of the last layer's weights", three.weights.len(), area(hidden2, classes)),
            ("length of the last layer's biases", three.biases.len(), classes.into()),
            ("length of the first layer's units", units1.len(), area(rows, hidden1)),
            ("length of the second layer's units", units2.len(), area(rows, hidden2)),
            ("length of the first layer's gradient", d_hidden1.len(), area(rows, hidden1)),
            ("length of the second layer's gradient", d_hidden2.len(), area(rows, hidden2)),
            ("length of the logits' gradient", d_logits.len(), area(rows, classes)),
        ])?;
        let args = FirstArgsHost {
            sums: &mut self.sums,
            inp: &*inputs,
            weights: &one.weights,
            rows,
            inputs: features,
            outputs: hidden1,
        };
        // SAFETY: the buffers hold their shapes, as just checked; the kernel defines the grid.
        unsafe { short_first::launch(&on, first::config(features, hidden1), args)? };
        let of_rows = RowsLaunch {
            loss: RawBuffer::written(scores.loss),
            correct: RawBuffer::written(scores.correct),
            d_logits: RawBuffer::written(&mut *d_logits),
            d_hidden2: RawBuffer::written(&mut *d_hidden2),
            d_hidden1: RawBuffer::written(&mut *d_hidden1),
            units2: RawBuffer::written(&mut *units2),
            units1: RawBuffer::written(&mut *units1),
            sums: RawBuffer::read(&self.sums),
            biases1: RawBuffer::read(&one.biases),
            weights2: RawBuffer::read(&two.weights),
            biases2: RawBuffer::read(&two.biases),
            weights3: RawBuffer::read(&three.weights),
            biases3: RawBuffer::read(&three.biases),
            labels: RawBuffer::read(&*labels),
            state: ahead.state.read(),
            rows,
            shares,
            hidden1,
            hidden2,
            classes,
            targets: *targets,
        };
        let after = next_batch(NextBatch {
            out: &mut ahead.inputs,
            labels_out: &mut ahead.labels,
            data,
            rows: next,
        })?;
        // SAFETY: the buffers hold their shapes and are borrowed for the call. Later uses of them are queued after this or
        // wait for the device. The extents fit, and the kernel defines the grid.
        unsafe { short_rows::launch(&on, rows::config(rows, next), of_rows, after)? };
        let moves = [
            Move { layer: one, activations: inputs, d_out: d_hidden1 },
            Move { layer: two, activations: units1, d_out: d_hidden2 },
            Move { layer: three, activations: units2, d_out: d_logits },
        ];
        let [one, two, three] = moves.map(|of| {
            let tiles = to_u32("number of inputs", of.layer.inputs).and_then(|inputs| {
                Ok(updates::tiles(inputs, to_u32("number of outputs", of.layer.outputs)?))
            })?;
            of.launch(rows, momentum, tiles)
        });
        let (one, two, three) = (one?, two?, three?);
        let config = updates::config(one.blocks + two.blocks + three.blocks);
        let (turn, rates) = (ahead.turn(), RawBuffer::read(rates));
        let state = ahead.state.written();
        // SAFETY: as above; there is a block for each tile.
        unsafe { short_updates::launch(&on, config, one, two, three, state, rates, turn, rows)? };
        Ok(())
    }
}
