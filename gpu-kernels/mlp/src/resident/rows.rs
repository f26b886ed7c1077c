//! A block that owns a row of the batch.

use cuda_std::GpuFloat as _;
use cuda_std::grid::Watchdog;
use cuda_std::half::{f16x2_to_f32, f32_to_f16x2};
use cuda_std::mem::{f32x2, f32x4, u32x4};
use cuda_std::warp::{reduce_max_width, reduce_sum_width, sync_warp, warp_shuffle_xor, warp_vote_ballot};

use super::exchange::{Mail, column_of};
use super::extents::{HALF_PITCH, LOGITS, LOGITS_PITCH, MAX_ROWS, PITCH, QUADS};
use super::halves::{GRADIENTS, OUTPUTS};
use super::{Block, ResidentNetwork, ResidentSteps};
use crate::batch::permuted;
use crate::head::MAX_CLASSES;

/// Longer than the slowest device needs, and shorter than the operating system's watchdog.
const SUMS_OF_WEIGHTS: Watchdog = Watchdog::new("the sums of the blocks with weights", 1_500_000_000);

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
    /// Halves of `[MAX_ROWS, HALF_PITCH]` times eight units of the second layer, then 1, then zeros, of all rows, times
    /// [`OUTPUTS`].
    units: *mut u32x4,
    /// Halves of `[MAX_ROWS, LOGITS_PITCH]` times eight gradients of the logits of all rows, times [`GRADIENTS`].
    gradients: *mut u32x4,
}

impl Shared {
    /// Returns one half of the units of all rows.
    #[inline(always)]
    pub fn units(&self, half: usize) -> *mut u32x4 {
        self.units.wrapping_add(half * MAX_ROWS * HALF_PITCH)
    }

    /// Returns one half of the gradients of the logits of all rows.
    #[inline(always)]
    pub fn gradients(&self, half: usize) -> *mut u32x4 {
        self.gradients.wrapping_add(half * MAX_ROWS * LOGITS_PITCH)
    }
}

impl<const WARPS: usize> Block<WARPS> {
    /// Computes the steps of row `row`, and those of the last layer.
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
            let units = logits.add(LOGITS);
            let gradients = units.add(2 * MAX_ROWS * HALF_PITCH);
            let [units, gradients] = [units, gradients].map(|quads| quads.cast::<u32x4>());
            let shared = Shared { weights, sums, logits: logits.cast(), units, gradients };
            self.begin_last_layer(&shared, network);
            // Nothing is received for rows and columns past the end, so they stay zero.
            for i in self.each(2 * MAX_ROWS * (HALF_PITCH + LOGITS_PITCH)) {
                *units.add(i) = u32x4::default();
            }
            self.sync();
            let rates = steps.rates();
            for step in 0..steps.steps as usize {
                // Long before it is needed.
                let lr = *rates.add(step);
                let mail = Mail::of(steps.mail, &e, steps.round.wrapping_add(step as u32));
                let (first, rows) = steps.samples_of(step);
                let place = first as usize + row;
                let label = (row < rows).then(|| {
                    let sample = permuted(place as u32, steps.samples, steps.seed, steps.epoch);
                    usize::from(*steps.labels.add(sample as usize))
                });
                self.receive_sums::<HALVES>(&shared, &mail, row);
                self.sync();
                if self.place().0 == 0 {
                    let label = label.map(|label| (label, place));
                    self.answer::<HALVES>(&shared, &mail, steps, (row, label, 1.0 / rows as f32));
                }
                // Warps that poll for the other rows' answers would slow this row down.
                self.sync();
                self.receive_rows::<HALVES>(&shared, &mail);
                self.sync();
                self.move_last_layer::<HALVES>(&shared, lr);
                self.sync();
            }
            if row == 0 {
                self.finish_last_layer(&shared, network);
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
                let first_quad = row as u32 * blocks * quads + quad as u32;
                for first in (part as u32..blocks).step_by(parts * WARPS * SUMS_AT_ONCE) {
                    let of: [u32; SUMS_AT_ONCE] =
                        core::array::from_fn(|i| first + (i * parts * WARPS) as u32);
                    let from = of.map(|block| {
                        let quad = first_quad + block.min(blocks - 1) * quads;
                        mail.sums.wrapping_add(quad as usize).cast_const()
                    });
                    let shares = mail.receive_words(SUMS_OF_WEIGHTS, from);
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
        mail: &Mail,
        steps: &ResidentSteps,
        (row, label, scale): (usize, Option<(usize, usize)>, f32),
    ) {
        let (e, (_, lane)) = (self.extents, self.place());
        let (units, logit, max, sum, class, is_class, targets);
        let weights: [[f32; 4]; MAX_CLASSES];
        // SAFETY: the lane's quad, and its class; all lanes of the warp call the sums.
        unsafe {
            units = self.activate_row::<HALVES>(shared);
            weights = core::array::from_fn(|class| (*shared.weights.add(class * PITCH + lane)).to_array());
            let products = core::array::from_fn(|class| {
                let w = weights[class];
                units[0].mul_add(w[0], units[1] * w[1]) + units[2].mul_add(w[2], units[3] * w[3])
            });
            class = lane % MAX_CLASSES;
            let of_class = sum_by_class(lane, products);
            is_class = class < e.classes;
            logit = if is_class { of_class } else { f32::NEG_INFINITY };
            max = reduce_max_width::<f32, { MAX_CLASSES as u32 }>(u32::MAX, logit);
            let exp = if is_class { (logit - max).exp() } else { 0.0 };
            sum = reduce_sum_width::<f32, { MAX_CLASSES as u32 }>(u32::MAX, exp);
            targets = &steps.targets;
            let gradient = match label {
                Some((label, _)) => exp.mul_add(scale / sum, -scale * targets.of(class == label)),
                None => 0.0,
            };
            if lane < MAX_CLASSES {
                *shared.logits.add(class) = if is_class { gradient } else { 0.0 };
            }
            sync_warp(u32::MAX);
        }
        // SAFETY: the warp has written the gradients of the logits. Each lane sends its own quads.
        unsafe {
            let logits = shared.logits.cast::<f32x4>();
            let gradients: [[f32; 4]; LOGITS] = core::array::from_fn(|quad| (*logits.add(quad)).to_array());
            let mut sums = [0.0f32; 4];
            for c in 0..MAX_CLASSES {
                sums = core::array::from_fn(|j| gradients[c / 4][c % 4].mul_add(weights[c][j], sums[j]));
            }
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
                let to = to_rows.add(e.gradient_quads(HALVES));
                send::<HALVES>(mail, to, lane, (*logits.add(lane)).to_array(), GRADIENTS);
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
        core::array::from_fn(|j| {
            let sum: f32 = sums[j];
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

/// Returns the sum over all lanes of their numbers for the class `lane % MAX_CLASSES`.
///
/// In each pair of lanes, one continues with half of the classes and one with the other half, so that there is one shuffle
/// per class.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
unsafe fn sum_by_class(lane: usize, mut numbers: [f32; MAX_CLASSES]) -> f32 {
    /// Halves the `2 * N` numbers to the `N` of the lane's half of the classes.
    ///
    /// # Safety
    /// All lanes of the warp call this.
    #[inline(always)]
    unsafe fn halve<const N: usize>(lane: usize, numbers: &mut [f32; MAX_CLASSES]) {
        let is_upper = lane & N != 0;
        for i in 0..N {
            let [lower, upper] = [numbers[i], numbers[i + N]];
            let (own, others) = if is_upper { (upper, lower) } else { (lower, upper) };
            // SAFETY: all lanes execute this.
            numbers[i] = own + unsafe { warp_shuffle_xor(u32::MAX, others, N as u32, 32) }.0;
        }
    }
    const { assert!(MAX_CLASSES == 16) };
    // SAFETY: all lanes execute this.
    unsafe {
        halve::<8>(lane, &mut numbers);
        halve::<4>(lane, &mut numbers);
        halve::<2>(lane, &mut numbers);
        halve::<1>(lane, &mut numbers);
        numbers[0] + warp_shuffle_xor(u32::MAX, numbers[0], 16, 32).0
    }
}

/// Sends four numbers as number `i` of an array, or with single halves as halves, multiplied by `scale`.
///
/// # Safety
/// They lie in this mail, and only this thread writes them.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn send<const HALVES: usize>(mail: &Mail, to: *mut [u32; 4], i: usize, numbers: [f32; 4], scale: f32) {
    // SAFETY: the numbers lie in this mail, and only this thread sends them.
    unsafe {
        if HALVES == 2 {
            mail.send(to.add(i), numbers);
        } else {
            let [a, b, c, d] = numbers.map(|number| number * scale);
            mail.send_pair(to.cast::<[u32; 2]>().add(i), [[a, b], [c, d]].map(f32_to_f16x2));
        }
    }
}
