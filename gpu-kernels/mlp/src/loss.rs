//! Softmax and cross entropy, one thread per output element.
//@ ptx: bar == 0, .local == 0, .shared == 0

use cuda_std::{GpuFloat as _, kernel, thread};

/// The smallest probability whose logarithm the loss uses.
pub const MIN_PROBABILITY: f32 = 1e-12;

/// The targets of a row: 1 at its label and 0 elsewhere, with a share spread evenly over all classes. Computed on the host,
/// to keep a division out of the kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Targets {
    /// The target of the label.
    label: f32,
    /// The target of any other class.
    other: f32,
}

impl Targets {
    /// Creates the targets with the share `smoothing`, from 0 to below 1, for `classes` classes.
    pub const fn new(smoothing: f32, classes: u32) -> Self {
        let other = smoothing / classes as f32;
        Self { label: 1.0 - smoothing + other, other }
    }

    /// Returns the target of a class.
    #[inline(always)]
    pub(super) fn of(&self, is_label: bool) -> f32 {
        if is_label { self.label } else { self.other }
    }

    /// Returns whether classes other than the label have a target.
    #[inline(always)]
    pub(super) fn are_spread(&self) -> bool {
        self.other != 0.0
    }

    /// Returns the sum over the classes of target times logit, from the label's logit and the sum of all logits.
    #[inline(always)]
    pub(super) fn weighted(&self, of_label: f32, sum: f32) -> f32 {
        // Without a share the other classes do not count, even if their sum is infinite.
        if self.are_spread() {
            (self.label - self.other).mul_add(of_label, self.other * sum)
        } else {
            of_label
        }
    }
}

/// Computes `out = exp(inp - max) / sum(exp(inp - max))` along each row; both `[rows, cols]`.
///
/// Every thread walks its whole row for the maximum and the sum. Launched with a grid of at least `cols` x `rows` threads.
///
/// # Safety
/// `out` holds `rows * cols` elements that no other code uses; `inp` holds at least as many.
#[kernel]
pub unsafe fn softmax_naive(out: *mut f32, inp: &[f32], rows: u32, cols: u32) {
    let (col, row) = (thread::index_2d().x as usize, thread::index_2d().y as usize);
    let cols = cols as usize;
    if row < rows as usize && col < cols {
        let logits = &inp[row * cols..(row + 1) * cols];
        let mut max = logits[0];
        for &x in logits {
            max = if x > max { x } else { max };
        }
        let mut sum = 0.0;
        for &x in logits {
            sum += (x - max).exp();
        }
        // SAFETY: row and col lie in the shape of `out`, and only this thread writes the element.
        unsafe { *out.add(row * cols + col) = (logits[col] - max).exp() / sum };
    }
}

/// Computes `out[row] = -sum(targets * ln(max(probs, 1e-12)))`: `[rows]` from two `[rows, cols]`.
///
/// The probability is clamped, so that an "impossible" class costs 27.6 and not infinity. Launched with at least `rows`
/// threads.
///
/// # Safety
/// `out` holds `rows` elements that no other code uses; `probs` and `targets` hold at least `rows * cols`.
#[kernel]
pub unsafe fn cross_entropy_loss(out: *mut f32, probs: &[f32], targets: &[f32], rows: u32, cols: u32) {
    let row = thread::index_1d() as usize;
    let cols = cols as usize;
    if row < rows as usize {
        let mut loss = 0.0;
        for i in row * cols..(row + 1) * cols {
            let p = probs[i];
            let clamped = if p < MIN_PROBABILITY { MIN_PROBABILITY } else { p };
            loss -= targets[i] * clamped.ln();
        }
        // SAFETY: `row` lies in the shape of `out`, and only this thread writes the element.
        unsafe { *out.add(row) = loss };
    }
}

/// Computes `d_logits = probs - targets`, all `[rows, cols]`: the gradient of softmax and cross entropy together.
///
/// Launched with a grid of at least `cols` x `rows` threads.
///
/// # Safety
/// `d_logits` holds `rows * cols` elements that no other code uses; `probs` and `targets` hold at least as many.
#[kernel]
pub unsafe fn cross_entropy_backward(
    d_logits: *mut f32,
    probs: &[f32],
    targets: &[f32],
    rows: u32,
    cols: u32,
) {
    let (col, row) = (thread::index_2d().x as usize, thread::index_2d().y as usize);
    if row < rows as usize && col < cols as usize {
        let i = row * cols as usize + col;
        // SAFETY: `i` lies in the shape of `d_logits`, and only this thread writes the element.
        unsafe { *d_logits.add(i) = probs[i] - targets[i] };
    }
}

/// Writes the targets `of`: 1 in the column of the row's label and 0 elsewhere, except for the share; `[rows, cols]` from
/// `[rows]`.
///
/// Launched with a grid of at least `cols` x `rows` threads.
///
/// # Safety
/// `targets` holds `rows * cols` elements that no other code uses; `labels` holds at least `rows`.
#[kernel]
pub unsafe fn one_hot(targets: *mut f32, labels: &[u32], rows: u32, cols: u32, of: Targets) {
    let (col, row) = super::col_and_row();
    if row < rows as usize && col < cols as usize {
        let target = of.of(labels[row] as usize == col);
        // SAFETY: row and col lie in the shape of `targets`, and only this thread writes the element.
        unsafe { *targets.add(row * cols as usize + col) = target };
    }
}

/// Sets `out[row]` to 1 if the row's largest score, the first of equal ones, is in the column of its label, otherwise to 0.
///
/// `scores` is `[rows, cols]`: logits or probabilities. Launched with at least `rows` threads.
///
/// # Safety
/// `out` holds `rows` elements that no other code uses; `scores` holds at least `rows * cols`, `labels` `rows`.
#[kernel]
pub unsafe fn count_correct(out: *mut u32, scores: &[f32], labels: &[u32], rows: u32, cols: u32) {
    let row = thread::index_1d() as usize;
    let cols = cols as usize;
    if row < rows as usize {
        let scores = &scores[row * cols..(row + 1) * cols];
        let mut best = 0;
        for col in 1..cols {
            if scores[col] > scores[best] {
                best = col;
            }
        }
        // SAFETY: `row` lies in the shape of `out`, and only this thread writes the element.
        unsafe { *out.add(row) = u32::from(best == labels[row] as usize) };
    }
}
