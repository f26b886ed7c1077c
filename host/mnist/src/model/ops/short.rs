//! A step of a small batch in three launches.

use cuda_std::launch::RawBuffer;
use mlp_kernels::operand::Operands;
use mlp_kernels::resident::Extents;
use mlp_kernels::short::first::{self, FirstArgsHost, short_first};
use mlp_kernels::short::rows::{self, RowsLaunch, short_rows};
use mlp_kernels::short::updates::{self, short_updates};

use super::fused::{Move, Next, NextBatch, next_batch};
use super::{Layer, Queue, Shape, area, need};
use crate::model::activations::Activations;
use crate::model::error::{ModelError, to_u32};
use crate::model::precision::Setup;
use crate::model::results::Scores;
use ferrowarp_device::device::{Buffer, Device};

/// The extents and the memory of such steps, for networks that can take them.
#[derive(Debug)]
pub(in crate::model) struct Short {
    extents: Extents,
    /// Partial sums of the first layer.
    sums: Buffer<f32>,
}

/// A step with the batch in the activations.
pub(in crate::model) struct Step<'a> {
    /// The number of samples.
    pub rows: u32,
    pub scores: Scores<'a>,
    /// The learning rates of all steps of the epoch, and one more.
    pub rates: &'a Buffer<f32>,
    pub momentum: f32,
    pub next: Next<'a>,
}

impl Short {
    /// Prepares steps for these layers; `None` if the kernels do not support them.
    pub fn new(on: &Device, layers: &[Layer], setup: Setup) -> Result<Option<Self>, ModelError> {
        let [one, two, three] = layers else { return Ok(None) };
        let extents = Extents {
            features: one.inputs,
            hidden1: one.outputs,
            hidden2: two.outputs,
            classes: three.outputs,
            batch: setup.batch_size.get(),
        };
        if setup.precision.operands() != Operands::F32 || !extents.fits_short() {
            return Ok(None);
        }
        Ok(Some(Self { extents, sums: on.alloc_zeroed(extents.share_sums())? }))
    }

    /// Trains on the batch in `state.inputs`, and gathers the next one.
    pub fn step(
        &mut self,
        on: Queue<'_>,
        layers: &mut [Layer],
        state: &mut Activations,
        step: Step<'_>,
    ) -> Result<(), ModelError> {
        let [one, two, three] = layers else { return Ok(()) };
        let shapes = self.check([one, two, three], state, &step)?;
        let (rows, momentum, rates) = (step.rows, step.momentum, step.rates);
        let args = FirstArgsHost {
            sums: &mut self.sums,
            inp: &state.inputs,
            weights: &one.weights,
            rows,
            inputs: shapes[0].inputs,
            outputs: shapes[0].outputs,
        };
        // SAFETY: the buffers hold their shapes, as just checked; the kernel defines the grid.
        unsafe { short_first::launch(&on, first::config(shapes[0].inputs, shapes[0].outputs), args)? };
        self.rows(on, [one, two, three], shapes, state, step)?;

        let Activations { inputs, outputs, gradients, ahead, .. } = state;
        let activations = [&*inputs, &outputs[0], &outputs[1]];
        let mut updates = Vec::with_capacity(shapes.len());
        for (l, layer) in [one, two, three].into_iter().enumerate() {
            let tiles = updates::tiles(shapes[l].inputs, shapes[l].outputs);
            let of = Move { layer, activations: activations[l], d_out: &gradients[l] };
            updates.push(of.launch(rows, momentum, tiles)?);
        }
        let Ok([one, two, three]) = <[_; 3]>::try_from(updates) else { return Ok(()) };
        let config = updates::config(one.blocks + two.blocks + three.blocks);
        let (turn, rates, state) = (ahead.turn(), RawBuffer::read(rates), ahead.state.written());
        // SAFETY: the buffers hold their shapes and are borrowed for the call. Later uses of them are queued after this or
        // wait for the device. There is a block for each tile.
        unsafe { short_updates::launch(&on, config, one, two, three, state, rates, turn, rows)? };
        Ok(())
    }

    /// Checks that the buffers hold their shapes, and returns those of the layers.
    fn check(
        &self,
        layers: [&Layer; 3],
        state: &Activations,
        step: &Step<'_>,
    ) -> Result<[Shape; 3], ModelError> {
        let Extents { features, hidden1, hidden2, classes, batch } = self.extents;
        let rows = step.rows;
        let shapes = [
            Shape::new(rows, features, hidden1)?,
            Shape::new(rows, hidden1, hidden2)?,
            Shape::new(rows, hidden2, classes)?,
        ];
        need(&[
            ("size of the batch", batch, rows.into()),
            ("length of the losses", step.scores.loss.len(), rows.into()),
            ("length of the hits", step.scores.correct.len(), rows.into()),
            ("length of the inputs", state.inputs.len(), area(rows, shapes[0].inputs)),
            ("length of the labels", state.labels.len(), rows.into()),
            (
                "length of the shares of the sums",
                self.sums.len(),
                self.extents.shares() as u64 * area(rows, shapes[0].outputs),
            ),
        ])?;
        for (l, (layer, Shape { inputs, outputs, .. })) in layers.into_iter().zip(shapes).enumerate() {
            layer.need(inputs, outputs, step.momentum)?;
            need(&[
                ("length of a layer's units", state.outputs[l].len(), area(rows, outputs)),
                ("length of a layer's gradient", state.gradients[l].len(), area(rows, outputs)),
            ])?;
        }
        Ok(shapes)
    }

    /// Launches the part of the step that belongs to single rows.
    fn rows(
        &self,
        on: Queue<'_>,
        [one, two, three]: [&Layer; 3],
        [first, _, last]: [Shape; 3],
        state: &mut Activations,
        Step { rows, scores, next, .. }: Step<'_>,
    ) -> Result<(), ModelError> {
        let Activations { labels, outputs, gradients, ahead, targets, .. } = state;
        let ([units1, units2, ..], [d_hidden1, d_hidden2, d_logits]) = (&mut outputs[..], &mut gradients[..])
        else {
            return Ok(());
        };
        let of_rows = RowsLaunch {
            loss: RawBuffer::written(scores.loss),
            correct: RawBuffer::written(scores.correct),
            d_logits: RawBuffer::written(d_logits),
            d_hidden2: RawBuffer::written(d_hidden2),
            d_hidden1: RawBuffer::written(d_hidden1),
            units2: RawBuffer::written(units2),
            units1: RawBuffer::written(units1),
            sums: RawBuffer::read(&self.sums),
            biases1: RawBuffer::read(&one.biases),
            weights2: RawBuffer::read(&two.weights),
            biases2: RawBuffer::read(&two.biases),
            weights3: RawBuffer::read(&three.weights),
            biases3: RawBuffer::read(&three.biases),
            labels: RawBuffer::read(&*labels),
            state: ahead.state.read(),
            rows,
            shares: to_u32("number of shares of a sum", self.extents.shares())?,
            hidden1: first.outputs,
            hidden2: last.inputs,
            classes: last.outputs,
            targets: *targets,
        };
        let Next { data, rows: next } = next;
        let (out, labels_out) = (&mut ahead.inputs, &mut ahead.labels);
        let after = next_batch(NextBatch { out, labels_out, data, rows: next })?;
        // SAFETY: the caller has checked the shapes, and the buffers are borrowed for the call. Later uses of them are queued
        // after this or wait for the device. The extents fit, and the kernel defines the grid.
        unsafe { short_rows::launch(&on, rows::config(rows, next), of_rows, after)? };
        Ok(())
    }
}
