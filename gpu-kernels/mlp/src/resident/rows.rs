//! A block that owns a row of the batch.

use cuda_std::GpuFloat as _;
use cuda_std::half::{f16x2_to_f32, f32_to_f16x2};
use cuda_std::mem::{f32x2, f32x4};
use cuda_std::warp::{
    WarpReductionOp, reduce_sum_width, sync_warp, warp_reduce, warp_shuffle_xor, warp_vote_ballot,
};

use super::exchange::{Mail, column_of, shares_at};
use super::extents::{LOGITS, PITCH, QUADS};
use super::halves::{GRADIENTS, OUTPUTS, WEIGHTS, halves_of};
use super::{Block, ResidentNetwork, ResidentSteps};
use crate::batch::permuted;
use crate::head::MAX_CLASSES;
use crate::loss::Targets;

/// Blocks of weights whose sums a warp waits for at once.
const SUMS_AT_ONCE: usize = 5;

/// The contents of shared memory.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    /// `[MAX_CLASSES, PITCH]`: the last layer, its weights transposed, with the biases after each row.
    pub weights: *mut f32x4,
    /// `[2 * warps, QUADS]`: the sums of each half of a warp, or of each warp.
    sums: *mut f32x4,
    /// `[MAX_CLASSES]`: the gradients of the logits.
    logits: *mut f32,
}

/// What a lane needs of the last layer.
struct LastLayer {
    /// The weights of its quad of units, by class.
    weights: [[f32; 4]; MAX_CLASSES],
    /// Half of the weights of its class, by [`quad_of`].
    of_class: [[f32; 4]; QUADS / 2],
    /// The sums of `weights` times the targets, times `scale`.
    of_targets: [f32; 4],
    /// The weight of the row in the loss: 0 if it has no sample.
    scale: f32,
}

/// Returns quad number `i` of the units that a lane multiplies with the weights of its class: one half of the warp has the
/// first half of them, and the other half has the other, in an order in which the two do not have the same banks.
#[inline(always)]
const fn quad_of(lane: usize, i: usize) -> usize {
    let half = lane / MAX_CLASSES;
    half * (QUADS / 2) + (i ^ half)
}

impl<const WARPS: usize> Block<WARPS> {
    /// Computes the steps of row `row`.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn train_row<const HALVES: usize>(
        &self,
        network: &ResidentNetwork,
        steps: &ResidentSteps,
        row: usize,
    ) {
        let e = self.extents;
        // SAFETY: as for the blocks of weights.
        unsafe {
            let weights = self.shared;
            let sums = weights.add(MAX_CLASSES * PITCH);
            let logits = sums.add(2 * WARPS * QUADS);
            let shared = Shared { weights, sums, logits: logits.cast() };
            self.load_last_layer(&shared, network);
            let mut mail = Mail::of(steps.mail, &e, steps.round);
            for step in 0..steps.steps as usize {
                if step > 0 {
                    self.receive_last_layer(&shared, &mail);
                    mail = Mail::of(steps.mail, &e, steps.round.wrapping_add(step as u32));
                }
                let (first, rows) = steps.samples_of(step);
                let place = first as usize + row;
                let label = (row < rows).then(|| {
                    let sample = permuted(place as u32, steps.samples, steps.seed, steps.epoch);
                    usize::from(*steps.labels.add(sample as usize))
                });
                self.sync();
                // Before the sums arrive.
                let last = self.last_layer_of_lane(&shared, &steps.targets, label, 1.0 / rows as f32);
                self.receive_sums::<HALVES>(&shared, &mail, row);
                self.sync();
                if self.place().0 == 0 {
                    let label = label.map(|label| (label, place));
                    self.answer::<HALVES>(&shared, &last, &mail, steps, (row, label));
                }
                // Warps that poll for the next words would slow this row down.
                self.sync();
            }
        }
    }

    /// Waits for the shares of the row's sums, and adds them in the order of the warps' blocks. A half-warp receives a share
    /// of halves.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    unsafe fn receive_sums<const HALVES: usize>(&self, shared: &Shared, mail: &Mail, row: usize) {
        let (e, (warp, lane)) = (self.extents, self.place());
        let (parts, part, quad) = (2 / HALVES, lane / (16 * HALVES), lane % (16 * HALVES));
        let (blocks, quads) = (e.weight_blocks() as u32, e.share_quads(HALVES) as u32);
        let part = warp * parts + part;
        let mut sums = [[0.0; 2]; 4];
        // SAFETY: the lane's quad of existing blocks.
        unsafe {
            if (quad as u32) < quads {
                let first_quad = shares_at(&e, HALVES, row, 0) as u32 + (quad / 4 * 32 + quad % 4) as u32;
                for first in (part as u32..blocks).step_by(parts * WARPS * SUMS_AT_ONCE) {
                    let of: [u32; SUMS_AT_ONCE] =
                        core::array::from_fn(|i| first + (i * parts * WARPS) as u32);
                    let from = of.map(|block| {
                        let quad = first_quad + block.min(blocks - 1) * 8 * quads;
                        mail.sums.wrapping_add(quad as usize).cast_const()
                    });
                    let shares = mail.receive_words("the sums of the blocks with weights", from);
                    for i in 0..SUMS_AT_ONCE {
                        let [a, b, c, d] = shares[i];
                        let share = match HALVES {
                            2 => [[a, b], [c, d], [0; 2], [0; 2]].map(|pair| pair.map(f32::from_bits)),
                            _ => [a, b, c, d].map(f16x2_to_f32),
                        };
                        let is_one = of[i] < blocks;
                        for j in 0..4 / HALVES {
                            sums[j] =
                                core::array::from_fn(|k| sums[j][k] + if is_one { share[j][k] } else { 0.0 });
                        }
                    }
                }
            }
            for pair in 0..4 / HALVES {
                let col = column_of::<HALVES>(quad, pair);
                *shared.sums.add(part * QUADS).cast::<f32x2>().add(col / 2) = sums[pair].into();
            }
        }
    }

    /// Computes and sends the answer of the row's block to the sums: the gradient of the second layer's sums for the blocks
    /// of weights, and what those of rows need; and writes the loss. The label is that of the row's sample, with its
    /// position in the epoch; without one the gradients are zeros.
    ///
    /// One warp does all of it, a quad of units per lane, so it waits for no other warp from the sums to the answer.
    ///
    /// # Safety
    /// Same as for the kernel; the first warp calls this.
    #[inline(always)]
    unsafe fn answer<const HALVES: usize>(
        &self,
        shared: &Shared,
        last: &LastLayer,
        mail: &Mail,
        steps: &ResidentSteps,
        (row, label): (usize, Option<(usize, usize)>),
    ) {
        let (e, (_, lane)) = (self.extents, self.place());
        let (class, targets) = (lane % MAX_CLASSES, &steps.targets);
        let is_class = class < e.classes;
        let (units, logit, max);
        // SAFETY: the warp's numbers in shared memory, written before the warp's barriers and read after them; all lanes of
        // the warp call these and the largest logit.
        unsafe {
            units = self.activate_row::<HALVES>(shared);
            // Each lane has read its own quad of the sums.
            *shared.sums.add(lane) = units.into();
            sync_warp(u32::MAX);
            let mut sums = [0.0f32; 4];
            for i in 0..QUADS / 2 {
                let units = (*shared.sums.add(quad_of(lane, i))).to_array();
                sums = core::array::from_fn(|j| units[j].mul_add(last.of_class[i][j], sums[j]));
            }
            let of_lane = (sums[0] + sums[1]) + (sums[2] + sums[3]);
            let of_class = of_lane + warp_shuffle_xor(u32::MAX, of_lane, MAX_CLASSES as u32, 32).0;
            logit = if is_class { of_class } else { f32::NEG_INFINITY };
            // As integers, numbers without sign are in order, and negative ones in the reverse order.
            let in_order = |bits: i32| bits ^ (bits >> 31 & i32::MAX);
            let largest = warp_reduce(u32::MAX, in_order(logit.to_bits() as i32), WarpReductionOp::Max);
            max = f32::from_bits(in_order(largest) as u32);
            if lane < MAX_CLASSES {
                *shared.logits.add(class) = if is_class { (logit - max).exp() } else { 0.0 };
            }
            sync_warp(u32::MAX);
        }
        let sum;
        // SAFETY: the warp has written the exponentials. Each lane sends its own quads.
        unsafe {
            let exps = shared.logits.cast::<f32x4>();
            let of_classes: [[f32; 4]; LOGITS] = core::array::from_fn(|quad| (*exps.add(quad)).to_array());
            let of_quads = of_classes.map(|[a, b, c, d]| (a + b) + (c + d));
            sum = (of_quads[0] + of_quads[1]) + (of_quads[2] + of_quads[3]);
            let factor = last.scale / sum;
            let mut sums = [0.0f32; 4];
            for c in 0..MAX_CLASSES {
                sums =
                    core::array::from_fn(|j| of_classes[c / 4][c % 4].mul_add(last.weights[c][j], sums[j]));
            }
            let sums: [f32; 4] = core::array::from_fn(|j| factor.mul_add(sums[j], -last.of_targets[j]));
            let is_active = |j: usize| units[j] > 0.0 && 4 * lane + j < e.hidden2;
            // In a last quad of halves without a second pair, that pair is zeros.
            if lane < e.gradient_quads(HALVES) * (2 / HALVES) {
                let sums: [f32; 4] = core::array::from_fn(|j| if is_active(j) { sums[j] } else { 0.0 });
                let to = mail.gradients.add(row * e.gradient_quads(HALVES));
                send::<HALVES>(mail, to, lane, sums, GRADIENTS);
            }
            let to_rows = mail.rows.add(row * e.row_quads(HALVES));
            if lane < e.gradient_quads(HALVES) * (2 / HALVES) {
                send::<HALVES>(mail, to_rows, lane, units, OUTPUTS);
            }
            if lane < LOGITS {
                let (to, exps) = (to_rows.add(e.gradient_quads(HALVES)), (*exps.add(lane)).to_array());
                let gradients = core::array::from_fn(|j| {
                    let class = 4 * lane + j;
                    let target = targets.of(label.is_some_and(|(label, _)| class == label));
                    let gradient = exps[j].mul_add(factor, -last.scale * target);
                    if class < e.classes { gradient } else { 0.0 }
                });
                send::<HALVES>(mail, to, lane, gradients, GRADIENTS);
            }
        }
        // What no other block waits for comes last.
        // SAFETY: all lanes of the warp call the vote and the sum, and one writes the row's results.
        unsafe {
            let first = warp_vote_ballot(u32::MAX, logit == max).trailing_zeros() as usize;
            let mut all = 0.0;
            if targets.are_spread() {
                let less = if is_class { logit - max } else { 0.0 };
                all = reduce_sum_width::<f32, { MAX_CLASSES as u32 }>(u32::MAX, less);
            }
            if let Some((label, place)) = label
                && lane == label
            {
                let loss = sum.ln() - targets.weighted(logit - max, all);
                *steps.loss.add(place) = loss;
                *steps.correct.add(place) = (first == label && !loss.is_nan()).into();
            }
        }
    }

    /// Loads what a lane needs of the last layer to answer for a row with this label.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    unsafe fn last_layer_of_lane(
        &self,
        shared: &Shared,
        targets: &Targets,
        label: Option<usize>,
        scale: f32,
    ) -> LastLayer {
        let (_, lane) = self.place();
        let scale = if label.is_some() { scale } else { 0.0 };
        let (mut weights, mut of_targets) = ([[0.0; 4]; MAX_CLASSES], [0.0f32; 4]);
        // SAFETY: quads of the layer in shared memory.
        unsafe {
            for class in 0..MAX_CLASSES {
                weights[class] = (*shared.weights.add(class * PITCH + lane)).to_array();
                let target = scale * targets.of(label == Some(class));
                of_targets = core::array::from_fn(|j| target.mul_add(weights[class][j], of_targets[j]));
            }
            let of_class = shared.weights.add(lane % MAX_CLASSES * PITCH);
            let of_class = core::array::from_fn(|i| (*of_class.add(quad_of(lane, i))).to_array());
            LastLayer { weights, of_class, of_targets, scale }
        }
    }

    /// Returns the lane's quad of the second layer's output, from the sums of all warps.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    unsafe fn activate_row<const HALVES: usize>(&self, shared: &Shared) -> [f32; 4] {
        let (hidden2, (_, lane)) = (self.extents.hidden2, self.place());
        let mut sums = [0.0; 4];
        for part in 0..WARPS * 2 / HALVES {
            // SAFETY: the lane's quad of the sums of each part of a warp.
            let of_part: [f32; 4] = unsafe { (*shared.sums.add(part * QUADS + lane)).to_array() };
            sums = core::array::from_fn(|j| sums[j] + of_part[j]);
        }
        let unscale = if HALVES == 2 { 1.0 / (WEIGHTS * OUTPUTS) } else { 1.0 };
        core::array::from_fn(|j| {
            let sum: f32 = sums[j] * unscale;
            match 4 * lane + j {
                unit if unit < hidden2 => {
                    if sum <= 0.0 {
                        0.0
                    } else {
                        sum
                    }
                }
                unit => f32::from(u8::from(unit == hidden2)),
            }
        })
    }
}

/// Sends four numbers, multiplied by `scale`, as number `i` of an array: as pairs of halves, or as single halves.
///
/// # Safety
/// They lie in this mail, and only this thread writes them.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn send<const HALVES: usize>(mail: &Mail, to: *mut [u32; 4], i: usize, numbers: [f32; 4], scale: f32) {
    // SAFETY: the numbers lie in this mail, and only this thread sends them.
    unsafe {
        let numbers @ [a, b, c, d] = numbers.map(|number| number * scale);
        if HALVES == 2 {
            mail.send_words(to.add(i), halves_of(numbers));
        } else {
            mail.send_pair(to.cast::<[u32; 2]>().add(i), [[a, b], [c, d]].map(f32_to_f16x2));
        }
    }
}
