//! A block that owns a row of the batch.

use core::sync::atomic::Ordering;

use cuda_std::GpuFloat as _;
use cuda_std::grid::{self, Watchdog};
use cuda_std::mem::f32x4;
use cuda_std::warp::reduce_sum;

use super::exchange::Mail;
use super::extents::{LOGITS, MAX_ROWS, QUADS};
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

/// What lies in shared memory.
#[derive(Clone, Copy)]
struct Shared {
    /// `[QUADS]`: the second layer's output, then 1, then zeros.
    units: *mut f32x4,
    /// `[MAX_CLASSES, QUADS]`: the last layer, its weights transposed, with the biases after each row.
    weights: *mut f32x4,
    /// `[warps, QUADS]`.
    sums: *mut f32x4,
    /// `[MAX_CLASSES]`.
    logits: *mut f32,
    /// `[MAX_ROWS, QUADS]`: `units` of all rows.
    all_units: *mut f32x4,
    /// `[MAX_ROWS, LOGITS]`: the gradients at their logits.
    all_gradients: *mut f32x4,
}

impl<const WARPS: usize> Block<WARPS> {
    /// The steps of row `row`, and those of the last layer.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    pub(super) unsafe fn train_row(&self, network: &ResidentNetwork, steps: &ResidentSteps, row: usize) {
        let e = self.extents;
        // SAFETY: as for the blocks of weights.
        unsafe {
            let units = self.shared;
            let weights = units.add(QUADS);
            let sums = weights.add(MAX_CLASSES * QUADS);
            let logits = sums.add(WARPS * QUADS);
            let all_units = logits.add(LOGITS);
            let all_gradients = all_units.add(MAX_ROWS * QUADS);
            let shared = Shared { units, weights, sums, logits: logits.cast(), all_units, all_gradients };
            for i in self.each(MAX_CLASSES * 4 * QUADS) {
                // Another block writes them when it ends, by such stores.
                let load = |weight: *mut f32| grid::wait_until(weight.cast(), Ordering::Relaxed, |_| true);
                let weight = self.last_layer(network, i).map_or(0, load);
                *weights.cast::<f32>().add(i) = f32::from_bits(weight);
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
                let mut gradients = [0.0; MAX_CLASSES];
                if let Some(label) = label {
                    let judged = self.loss(&shared, label, 1.0 / rows as f32);
                    gradients = judged.gradients;
                    if self.tid == 0 {
                        *steps.loss.add(place) = judged.loss;
                        *steps.correct.add(place) = judged.correct.into();
                    }
                }
                self.send_row(&shared, &mail, row, &gradients);
                self.receive_rows(&shared, &mail);
                self.sync();
                self.move_last_layer(&shared, steps.lr);
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
        let (warp, lane) = self.place();
        for class in (warp..self.extents.classes).step_by(WARPS) {
            // SAFETY: the lane's quad; the class is the same for all lanes of the warp.
            unsafe {
                let (x, w) = (
                    (*shared.units.add(lane)).to_array(),
                    (*shared.weights.add(class * QUADS + lane)).to_array(),
                );
                let sum = x[0].mul_add(w[0], x[1] * w[1]) + x[2].mul_add(w[2], x[3] * w[3]);
                let logit = reduce_sum(sum);
                if lane == 0 {
                    *shared.logits.add(class) = logit;
                }
            }
        }
    }

    /// What comes of the logits for this label.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn loss(&self, shared: &Shared, label: usize, scale: f32) -> Judged {
        let classes = self.extents.classes;
        let (mut logits, mut max) = ([0.0; MAX_CLASSES], f32::MIN);
        for c in 0..MAX_CLASSES {
            if c < classes {
                // SAFETY: a class.
                logits[c] = unsafe { *shared.logits.add(c) };
                max = if logits[c] > max { logits[c] } else { max };
            }
        }
        let (mut exps, mut sum, mut logit, mut first) = ([0.0; MAX_CLASSES], 0.0, 0.0, usize::MAX);
        for c in 0..MAX_CLASSES {
            if c < classes {
                exps[c] = (logits[c] - max).exp();
                sum += exps[c];
                logit = if c == label { logits[c] } else { logit };
                first = if logits[c] == max && first == usize::MAX { c } else { first };
            }
        }
        let (loss, factor) = (sum.ln() - (logit - max), scale / sum);
        Judged {
            loss,
            correct: first == label && !loss.is_nan(),
            gradients: core::array::from_fn(|c| {
                let one_hot = if c == label { scale } else { 0.0 };
                exps[c].mul_add(factor, -one_hot)
            }),
        }
    }

    /// Sends the gradient at the second layer's sums to the blocks of weights, and to those of rows what they need.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn send_row(&self, shared: &Shared, mail: &Mail, row: usize, gradients: &[f32; MAX_CLASSES]) {
        let (e, (warp, lane)) = (self.extents, self.place());
        if warp != 0 || lane >= e.quads().max(LOGITS) {
            return;
        }
        // SAFETY: the lane's quad.
        unsafe {
            let to_rows = mail.rows.add(row * (e.quads() + LOGITS));
            if lane < e.quads() {
                let units = (*shared.units.add(lane)).to_array();
                let mut sums = [0.0f32; 4];
                for c in 0..MAX_CLASSES {
                    let weights = (*shared.weights.add(c * QUADS + lane)).to_array();
                    sums = core::array::from_fn(|j| gradients[c].mul_add(weights[j], sums[j]));
                }
                let is_active = |j: usize| units[j] > 0.0 && 4 * lane + j < e.hidden2;
                let sums = core::array::from_fn(|j| if is_active(j) { sums[j] } else { 0.0 });
                mail.send(mail.gradients.add(row * e.quads() + lane), sums);
                mail.send(to_rows.add(lane), units);
            }
            // By choices between registers: an index that the lane says would need local memory.
            let mut own = [0.0; 4];
            for quad in 0..LOGITS {
                for j in 0..4 {
                    own[j] = if lane == quad { gradients[4 * quad + j] } else { own[j] };
                }
            }
            if lane < LOGITS {
                mail.send(to_rows.add(e.quads() + lane), own);
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
                    receive(lane, shared.all_units, QUADS);
                }
                if lane < LOGITS {
                    receive(e.quads() + lane, shared.all_gradients, LOGITS);
                }
            }
        }
    }

    /// The step of the last layer, the same bits in every block.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn move_last_layer(&self, shared: &Shared, lr: f32) {
        let (e, (warp, lane)) = (self.extents, self.place());
        if lane >= e.quads() {
            return;
        }
        for class in (warp..e.classes).step_by(WARPS) {
            // SAFETY: the lane's quad, and the class of each row.
            unsafe {
                let mut sums = [0.0f32; 4];
                for row in 0..e.batch {
                    let gradient = *shared.all_gradients.cast::<f32>().add(row * MAX_CLASSES + class);
                    let units = (*shared.all_units.add(row * QUADS + lane)).to_array();
                    sums = core::array::from_fn(|j| gradient.mul_add(units[j], sums[j]));
                }
                let weights = shared.weights.add(class * QUADS + lane);
                let old = (*weights).to_array();
                *weights = core::array::from_fn(|j| old[j] - lr * sums[j]).into();
            }
        }
    }
}

/// What comes of a row.
struct Judged {
    loss: f32,
    correct: bool,
    gradients: [f32; MAX_CLASSES],
}
