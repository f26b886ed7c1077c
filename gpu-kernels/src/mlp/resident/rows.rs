//! A block that owns a row of the batch.

use core::sync::atomic::Ordering;

use cuda_std::GpuFloat as _;
use cuda_std::grid::{self, Watchdog};
use cuda_std::mem::{f32x2, f32x4};
use cuda_std::warp::{reduce_max_width, reduce_sum_width, sync_warp, warp_vote_ballot};

use super::exchange::Mail;
use super::extents::{LOGITS, LOGITS_PITCH, MAX_ROWS, PITCH, QUADS};
use super::products::{columns, group_of};
use super::{Block, ResidentNetwork, ResidentSteps};
use crate::mlp::batch::permuted;
use crate::mlp::head::MAX_CLASSES;

/// Longer than the slowest device needs, and short of a watchdog of the operating system.
const SUMS_OF_WEIGHTS: Watchdog = Watchdog::new("the sums of the blocks with weights", 1_500_000_000);

/// As above.
const OTHER_ROWS: Watchdog = Watchdog::new("the units and gradients of the batch's rows", 1_500_000_000);

/// Blocks of weights whose sums a warp waits for at once.
const SUMS_AT_ONCE: usize = 5;

/// Rows that a warp waits for at once.
const ROWS_AT_ONCE: usize = 8;

/// Lanes that add the products of a class.
const LANES: usize = 16;

/// Quads of the last layer's rows of which a warp has half of the products, and classes.
const PART: [usize; 2] = [8, 8];

/// What lies in shared memory.
#[derive(Clone, Copy)]
struct Shared {
    /// `[QUADS]`: the second layer's output, then 1, then zeros.
    units: *mut f32x4,
    /// `[MAX_CLASSES, QUADS]`: the last layer, its weights transposed, with the biases after each row.
    weights: *mut f32x4,
    /// `[warps, QUADS]`.
    sums: *mut f32x4,
    /// `[MAX_CLASSES]`: the logits, later the gradients at them.
    logits: *mut f32,
    /// `[MAX_ROWS, PITCH]`: `units` of all rows.
    all_units: *mut f32x4,
    /// `[MAX_ROWS, LOGITS_PITCH]`: the gradients at their logits.
    all_gradients: *mut f32x4,
}

impl<const WARPS: usize> Block<WARPS> {
    /// The steps of row `row`, and those of the last layer.
    ///
    /// # Safety
    /// As for the kernel.
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
            let units = self.shared;
            let weights = units.add(QUADS);
            let sums = weights.add(MAX_CLASSES * QUADS);
            let logits = sums.add(WARPS * QUADS);
            let all_units = logits.add(LOGITS);
            let all_gradients = all_units.add(MAX_ROWS * PITCH);
            let shared = Shared { units, weights, sums, logits: logits.cast(), all_units, all_gradients };
            for i in self.each(MAX_CLASSES * 4 * QUADS) {
                // Another block writes them when it ends, by such stores.
                let load = |weight: *mut f32| grid::wait_until(weight.cast(), Ordering::Relaxed, |_| true);
                let weight = self.last_layer(network, i).map_or(0, load);
                *weights.cast::<f32>().add(i) = f32::from_bits(weight);
            }
            // Of rows that there are not nothing is received.
            for i in self.each(MAX_ROWS * (PITCH + LOGITS_PITCH)) {
                *all_units.add(i) = f32x4::default();
            }
            self.sync();
            for step in 0..steps.steps as usize {
                let mail = Mail::of(steps.mail, &e, steps.round.wrapping_add(step as u32));
                let (first, rows) = steps.samples_of(step);
                let place = first as usize + row;
                let label = (row < rows).then(|| {
                    let sample = permuted(place as u32, steps.samples, steps.seed, steps.epoch);
                    usize::from(*steps.labels.add(sample as usize))
                });
                self.receive_sums(&shared, &mail, row);
                self.sync();
                self.activate_row(&shared);
                self.sync();
                self.judge(&shared);
                self.sync();
                if self.place().0 == 0 {
                    self.loss(&shared, steps, label.map(|label| (label, place)), 1.0 / rows as f32);
                    self.send_row(&shared, &mail, row);
                }
                self.receive_rows(&shared, &mail);
                self.sync();
                self.move_last_layer::<HALVES>(&shared, steps.lr);
                self.sync();
            }
            if row == 0 {
                for i in self.each(MAX_CLASSES * 4 * QUADS) {
                    if let Some(weight) = self.last_layer(network, i) {
                        grid::store_relaxed(weight.cast(), (*weights.cast::<f32>().add(i)).to_bits());
                    }
                }
            }
        }
    }

    /// Where element `i` of the last layer as it lies in shared memory lies in global memory.
    #[inline(always)]
    fn last_layer(&self, network: &ResidentNetwork, i: usize) -> Option<*mut f32> {
        let (e, class, unit) = (self.extents, i / (4 * QUADS), i % (4 * QUADS));
        let is_bias = unit == e.hidden2;
        let (weights, at) = if is_bias { (network.biases3, 0) } else { (network.weights3, unit * e.classes) };
        (class < e.classes && unit <= e.hidden2).then(|| weights.wrapping_add(at + class))
    }

    /// Waits for the shares of the row's sums, and adds them in the order of the warps' blocks.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn receive_sums(&self, shared: &Shared, mail: &Mail, row: usize) {
        let (e, (warp, lane)) = (self.extents, self.place());
        let (blocks, mut sums) = (e.weight_blocks(), [0.0; 4]);
        // SAFETY: the lane's quad of blocks that there are.
        unsafe {
            if lane < e.quads() {
                let from = mail.sums.add(row * blocks * e.quads() + lane);
                for first in (warp..blocks).step_by(WARPS * SUMS_AT_ONCE) {
                    let of: [usize; SUMS_AT_ONCE] = core::array::from_fn(|i| first + i * WARPS);
                    let shares = mail.receive(
                        SUMS_OF_WEIGHTS,
                        of.map(|block| from.add(block.min(blocks - 1) * e.quads()).cast_const()),
                    );
                    for i in 0..SUMS_AT_ONCE {
                        let share = if of[i] < blocks { shares[i].to_array() } else { [0.0; 4] };
                        sums = core::array::from_fn(|j| sums[j] + share[j]);
                    }
                }
            }
            *shared.sums.add(warp * QUADS + lane) = sums.into();
        }
    }

    /// The second layer's output.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn activate_row(&self, shared: &Shared) {
        let hidden2 = self.extents.hidden2;
        for i in self.each(4 * QUADS) {
            // SAFETY: a unit of each warp's sums.
            unsafe {
                let sums = shared.sums.cast::<f32>();
                let sum = (0..WARPS).fold(0.0, |sum: f32, warp| sum + *sums.add(warp * 4 * QUADS + i));
                let unit = if sum <= 0.0 { 0.0 } else { sum };
                *shared.units.cast::<f32>().add(i) = match i < hidden2 {
                    true => unit,
                    false => (i == hidden2).into(),
                };
            }
        }
    }

    /// The logits.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn judge(&self, shared: &Shared) {
        for class in (self.tid / LANES..MAX_CLASSES).step_by(Self::THREADS / LANES) {
            let lane = self.tid % LANES;
            // SAFETY: the lane's two quads; the lanes of a warp have as many classes as each other.
            unsafe {
                let quads = |of: *mut f32x4| [lane, lane + LANES].map(|quad| (*of.add(quad)).to_array());
                let (x, w) = (quads(shared.units), quads(shared.weights.add(class * QUADS)));
                let of_quad = |i: usize| {
                    let (x, w): ([f32; 4], [f32; 4]) = (x[i], w[i]);
                    x[0].mul_add(w[0], x[1] * w[1]) + x[2].mul_add(w[2], x[3] * w[3])
                };
                let logit = reduce_sum_width::<f32, { LANES as u32 }>(u32::MAX, of_quad(0) + of_quad(1));
                if lane == 0 {
                    *shared.logits.add(class) = logit;
                }
            }
        }
    }

    /// What comes of the logits for the label and the place in the epoch: the loss, and in place of the logits the gradients at
    /// them; zeros where there is no sample. A class is a lane's.
    ///
    /// # Safety
    /// As for the kernel; the first warp comes here.
    #[inline(always)]
    unsafe fn loss(
        &self,
        shared: &Shared,
        steps: &ResidentSteps,
        sample: Option<(usize, usize)>,
        scale: f32,
    ) {
        let (_, lane) = self.place();
        let class = lane % MAX_CLASSES;
        let is_class = class < self.extents.classes;
        // SAFETY: a class; all lanes come to the sums.
        unsafe {
            let logit = if is_class { *shared.logits.add(class) } else { f32::NEG_INFINITY };
            let max = reduce_max_width::<f32, { MAX_CLASSES as u32 }>(u32::MAX, logit);
            let exp = if is_class { (logit - max).exp() } else { 0.0 };
            let sum = reduce_sum_width::<f32, { MAX_CLASSES as u32 }>(u32::MAX, exp);
            let first = warp_vote_ballot(u32::MAX, logit == max).trailing_zeros() as usize;
            let mut gradient = 0.0;
            if let Some((label, place)) = sample {
                let one_hot = if class == label { scale } else { 0.0 };
                gradient = exp.mul_add(scale / sum, -one_hot);
                if lane == label {
                    let loss = sum.ln() - (logit - max);
                    *steps.loss.add(place) = loss;
                    *steps.correct.add(place) = (first == label && !loss.is_nan()).into();
                }
            }
            sync_warp(u32::MAX);
            if lane < MAX_CLASSES {
                *shared.logits.add(class) = if is_class { gradient } else { 0.0 };
            }
            sync_warp(u32::MAX);
        }
    }

    /// Sends the gradient at the second layer's sums to the blocks of weights, and to those of rows what they need.
    ///
    /// # Safety
    /// As for the kernel; the first warp comes here.
    #[inline(always)]
    unsafe fn send_row(&self, shared: &Shared, mail: &Mail, row: usize) {
        let (e, (_, lane)) = (self.extents, self.place());
        // SAFETY: the lane's quad.
        unsafe {
            let logits = shared.logits.cast::<f32x4>();
            let to_rows = mail.rows.add(row * (e.quads() + LOGITS));
            if lane < e.quads() {
                let units = (*shared.units.add(lane)).to_array();
                let gradients: [[f32; 4]; LOGITS] =
                    core::array::from_fn(|quad| (*logits.add(quad)).to_array());
                let mut sums = [0.0f32; 4];
                for c in 0..MAX_CLASSES {
                    let weights = (*shared.weights.add(c * QUADS + lane)).to_array();
                    sums = core::array::from_fn(|j| gradients[c / 4][c % 4].mul_add(weights[j], sums[j]));
                }
                let is_active = |j: usize| units[j] > 0.0 && 4 * lane + j < e.hidden2;
                let sums = core::array::from_fn(|j| if is_active(j) { sums[j] } else { 0.0 });
                mail.send(mail.gradients.add(row * e.quads() + lane), sums);
                mail.send(to_rows.add(lane), units);
            }
            if lane < LOGITS {
                mail.send(to_rows.add(e.quads() + lane), (*logits.add(lane)).to_array());
            }
        }
    }

    /// Waits for what all rows send.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn receive_rows(&self, shared: &Shared, mail: &Mail) {
        let (e, (warp, lane)) = (self.extents, self.place());
        for first in (warp..e.batch).step_by(WARPS * ROWS_AT_ONCE) {
            let rows: [usize; ROWS_AT_ONCE] = core::array::from_fn(|i| first + i * WARPS);
            // SAFETY: the lane's quad of rows that there are, each received by one warp.
            unsafe {
                let receive = |quad: usize, to: *mut f32x4, pitch: usize| {
                    let from = |row: usize| mail.rows.add(row.min(e.batch - 1) * (e.quads() + LOGITS) + quad);
                    let quads = mail.receive(OTHER_ROWS, rows.map(|row| from(row).cast_const()));
                    for i in 0..ROWS_AT_ONCE {
                        if rows[i] < e.batch {
                            *to.add(rows[i] * pitch + lane) = quads[i];
                        }
                    }
                };
                if lane < e.quads() {
                    receive(lane, shared.all_units, PITCH);
                }
                if lane < LOGITS {
                    receive(e.quads() + lane, shared.all_gradients, LOGITS_PITCH);
                }
            }
        }
    }

    /// The step of the last layer, the same bits in every block.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn move_last_layer<const HALVES: usize>(&self, shared: &Shared, lr: f32) {
        let (warp, lane) = self.place();
        let (group, place) = group_of(lane);
        let [quads, classes] = PART;
        for job in (warp..2 * QUADS / quads * (MAX_CLASSES / classes)).step_by(WARPS) {
            let (part, pair) = (job / 2, job % 2);
            let (quad, class) = (part * quads % QUADS, part * quads / QUADS * classes);
            // SAFETY: all rows, and the lane's pair of two classes. All lanes of the warp have the same jobs.
            unsafe {
                let gradients = shared.all_gradients.cast::<f32>().add(class + group);
                let gradient = |row: usize| *gradients.add(row * 4 * LOGITS_PITCH);
                let gradients = columns::<HALVES>(lane, shared.all_units, (quad, pair), gradient);
                for i in 0..gradients.len() {
                    let weights = shared.weights.add((class + 2 * place + i) * QUADS + quad + group);
                    let weights = weights.cast::<f32x2>().add(pair);
                    let old = (*weights).to_array();
                    *weights = core::array::from_fn(|j| old[j] - lr * gradients[i][j]).into();
                }
            }
        }
    }
}
