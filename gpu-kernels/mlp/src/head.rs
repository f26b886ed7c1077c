//! The last layer, the loss, and the gradient of the layer's input in one pass; and the samples of the next step.
//!
//! Compared with [`super::fused_forward`], the cross entropy of softmax and [`super::fused_backward`]:
//! with so few classes a warp holds the sums of a row, and needs neither tiles nor another launch. The rows of a batch leave
//! most of a GPU idle, so other blocks of the launch gather the next batch meanwhile.
//!
//! Requires: at most [`MAX_CLASSES`] classes.
//@ ptx(head_warp): bar == 0, shfl.sync.bfly >= 50, .shared == 0
//@ ptx(head_warp, compute_90+): griddepcontrol.wait == 1, griddepcontrol.launch_dependents == 1

use cuda_std::warp::reduce_sum_width;
use cuda_std::{GpuFloat as _, KernelArgs, kernel, thread};

use super::batch::{copy_sample, permuted};
use super::loss::Targets;
use super::state::StepState;

#[cfg(not(target_arch = "nvptx64"))]
mod host;
mod serial;

#[cfg(not(target_arch = "nvptx64"))]
pub use host::{HeadLaunch, HeadShape};

/// The largest number of classes that the kernels take.
pub const MAX_CLASSES: usize = 16;

/// The last layer of a batch.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct HeadRows {
    /// `[samples]`, written for the samples of the step: the loss of each row in nats.
    pub loss: *mut f32,
    /// `[samples]`, written for the samples of the step: 1 if the first of the largest logits is the label's, otherwise 0.
    pub correct: *mut u32,
    /// `[rows, classes]`, written: the gradient of the logits, averaged over the batch; or null.
    pub d_logits: *mut f32,
    /// `[rows, inputs]`, written: the gradient of the layer's input, through the ReLU before it; or null.
    pub d_inp: *mut f32,
    /// `[rows, inputs]`.
    pub inp: *const f32,
    /// `[inputs, classes]`.
    pub weights: *const f32,
    /// `[classes]`.
    pub biases: *const f32,
    /// `[rows]`, each less than `classes`.
    pub labels: *const u32,
    /// The state of training.
    pub state: *const StepState,
    /// Rows of the batch.
    pub rows: u32,
    /// Features in.
    pub inputs: u32,
    /// Classes.
    pub classes: u32,
    /// The targets of a row, of `classes` classes.
    pub targets: Targets,
    /// Blocks for the rows; those after them gather the next batch.
    pub blocks: u32,
}

/// The batch of the next step.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct NextBatch {
    /// `[batch, features]`, written: the pixels in 0..=1.
    pub out: *mut f32,
    /// `[batch]`, written.
    pub labels_out: *mut u32,
    /// `[samples, features]`.
    pub images: *const u8,
    /// `[samples]`.
    pub labels: *const u8,
    /// Samples of the data set.
    pub samples: u32,
    /// Pixels of a sample.
    pub features: u32,
    /// Samples of a batch; the last batch may have fewer. 0 for no batch.
    pub batch: u32,
}

/// Computes the logits, losses, hits and gradients of a batch's rows, `LANES` lanes per row, and gathers the next batch,
/// `SAMPLE` threads per sample.
///
/// Launched with blocks of `BLOCK` threads: first `rows.blocks`, enough for the rows, then enough for the next batch.
///
/// # Safety
/// The launch is as described, and `classes` is at most [`MAX_CLASSES`]; the pointers are valid for the elements of their
/// shapes; no other code uses what is written.
#[kernel(
    max_threads = BLOCK,
    args = HeadLaunch,
    facts: HeadShape = HeadShape { block: BLOCK as u32, lanes: LANES, sample: SAMPLE as u32 },
    instances(
        head_warp = <128, 32, 16>;
        head_serial = <4, 1, 1>, cpu_only = true;
    ),
)]
pub unsafe fn network_head<const BLOCK: usize, const LANES: u32, const SAMPLE: usize>(
    rows: HeadRows,
    next: NextBatch,
) {
    super::wait_for_turn();
    let (block, tid) = (thread::block_idx_x(), thread::thread_idx_x() as usize);
    // SAFETY: the kernel's contract; all threads of a block take the same branch.
    unsafe {
        if block < rows.blocks {
            let row = block as usize * (BLOCK / LANES as usize) + tid / LANES as usize;
            rows.run::<LANES>(row, tid % LANES as usize);
        } else {
            let sample = (block - rows.blocks) as usize * (BLOCK / SAMPLE) + tid / SAMPLE;
            next.gather(*rows.state, rows.rows, sample, [tid % SAMPLE, SAMPLE]);
        }
    }
}

impl HeadRows {
    /// Computes one row; this is its lane `lane`. Lanes without a row compute the last row too, and write nothing.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    unsafe fn run<const LANES: u32>(&self, row: usize, lane: usize) {
        let (rows, inputs, classes) = (self.rows as usize, self.inputs as usize, self.classes as usize);
        let is_row = row < rows;
        let row = row.min(rows - 1);
        // SAFETY: the row has features.
        let inp = unsafe { self.inp.add(row * inputs) };
        // SAFETY: each feature has a weight for each class. All lanes of the row execute this.
        let mut logits = unsafe {
            match LANES {
                1 => serial::sums(inp, self.weights, [inputs, classes]),
                _ => self.sums_of_lane::<LANES>(inp, lane),
            }
        };
        let mut max = f32::MIN;
        for c in 0..MAX_CLASSES {
            if c < classes {
                // SAFETY: each class has a bias. All lanes of the row execute this.
                logits[c] = unsafe { sum_of_lanes::<LANES>(logits[c]) + *self.biases.add(c) };
                max = if logits[c] > max { logits[c] } else { max };
            }
        }
        // SAFETY: the row has a label.
        let label = unsafe { *self.labels.add(row) } as usize;
        let targets = self.targets;
        let (mut exps, mut sum, mut logit, mut first) = ([0.0; MAX_CLASSES], 0.0, 0.0, usize::MAX);
        let mut all = 0.0;
        for c in 0..MAX_CLASSES {
            if c < classes {
                let less = logits[c] - max;
                exps[c] = less.exp();
                sum += exps[c];
                all += less;
                logit = if c == label { less } else { logit };
                first = if logits[c] == max && first == usize::MAX { c } else { first };
            }
        }
        let loss = sum.ln() - targets.weighted(logit, all);
        // SAFETY: the row has results, which only its first lane writes.
        unsafe {
            let at = (*self.state).first as usize + row;
            if is_row && lane == 0 {
                *self.loss.add(at) = loss;
                *self.correct.add(at) = u32::from(first == label && !loss.is_nan());
            }
        }
        if self.d_logits.is_null() || !is_row {
            return;
        }
        let scale = 1.0 / self.rows as f32;
        let factor = scale / sum;
        // 0 after the last class, where the exponentials are 0.
        let d_logits: [f32; MAX_CLASSES] = core::array::from_fn(|c| {
            let target = if c < classes { scale * targets.of(c == label) } else { 0.0 };
            exps[c].mul_add(factor, -target)
        });
        // SAFETY: row, features and classes lie in the shapes, and each lane writes its own features and classes.
        unsafe {
            for c in 0..MAX_CLASSES {
                if c < classes && c % LANES as usize == lane {
                    *self.d_logits.add(row * classes + c) = d_logits[c];
                }
            }
            if self.d_inp.is_null() {
                return;
            }
            let d_inp = self.d_inp.add(row * inputs);
            if LANES == 1 {
                serial::input_gradients(d_inp, inp, self.weights, [inputs, classes], &d_logits);
                return;
            }
            for k in (lane..inputs).step_by(LANES as usize) {
                let sum = sum_of_products(&d_logits, &self.weights_of(k));
                *d_inp.add(k) = if *inp.add(k) > 0.0 { sum } else { 0.0 };
            }
        }
    }

    /// Returns a lane's share of the sums of a row's features times their weights.
    ///
    /// # Safety
    /// Same as for the kernel; `inp` is a row.
    #[inline(always)]
    unsafe fn sums_of_lane<const LANES: u32>(&self, inp: *const f32, lane: usize) -> [f32; MAX_CLASSES] {
        let mut sums = [0.0; MAX_CLASSES];
        for k in (lane..self.inputs as usize).step_by(LANES as usize) {
            // SAFETY: the feature lies in the row.
            let (x, weights) = unsafe { (*inp.add(k), self.weights_of(k)) };
            (0..MAX_CLASSES).for_each(|c| sums[c] = x.mul_add(weights[c], sums[c]));
        }
        sums
    }

    /// Returns the weights of feature `k`, 0 after the last class.
    ///
    /// # Safety
    /// Same as for the kernel; the feature exists.
    #[inline(always)]
    unsafe fn weights_of(&self, k: usize) -> [f32; MAX_CLASSES] {
        let classes = self.classes as usize;
        let weights = self.weights.wrapping_add(k * classes);
        // SAFETY: feature and class lie in the shape.
        core::array::from_fn(|c| if c < classes { unsafe { *weights.add(c) } } else { 0.0 })
    }
}

/// Returns the dot product, added as a tree, so that no addition waits for many others.
#[inline(always)]
fn sum_of_products(a: &[f32; MAX_CLASSES], b: &[f32; MAX_CLASSES]) -> f32 {
    let eight: [f32; 8] = core::array::from_fn(|c| a[c].mul_add(b[c], a[c + 8] * b[c + 8]));
    let four: [f32; 4] = core::array::from_fn(|c| eight[c] + eight[c + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

/// Returns the sum over the lanes of a row.
///
/// # Safety
/// All lanes of the warp call this, unless a row has only one.
#[inline(always)]
unsafe fn sum_of_lanes<const LANES: u32>(x: f32) -> f32 {
    if LANES == 1 {
        return x;
    }
    // SAFETY: all lanes execute this.
    unsafe { reduce_sum_width::<f32, LANES>(u32::MAX, x) }
}

impl NextBatch {
    /// Copies a thread's share of sample `row` of the next batch; `rows` is the size of this batch.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn gather(&self, state: StepState, rows: u32, row: usize, threads: [usize; 2]) {
        let StepState { first, epoch, seed, .. } = state;
        let first = first + rows;
        let rows = self.batch.min(self.samples.saturating_sub(first)) as usize;
        if row < rows {
            let sample = permuted(first + row as u32, self.samples, seed, epoch) as usize;
            let (out, from) = ((self.out, self.labels_out), (self.images, self.labels));
            // SAFETY: the row lies in the batch and the sample in the data set.
            unsafe { copy_sample(out, from, self.features as usize, [row, sample], threads) };
        }
    }
}
