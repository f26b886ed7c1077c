//! Softmax, cross entropy, its gradient and the hit count in one pass over the logits.
//@ ptx: ex2.approx >= 1, bar == 0, .local == 0

use cuda_std::{GpuFloat as _, kernel, thread};

/// Loss and gradient of softmax and cross entropy, averaged over the batch, one thread per row.
///
/// Against the naive set: no probabilities and no one-hot targets in memory, and the loss is
/// `ln(sum(exp(x - max))) + max - x[label]`, which needs no clamp.
///
/// `d_logits = (softmax(logits) - one_hot(labels)) / rows`, `[rows, cols]`; `loss` and `correct` `[rows]` get the
/// row's loss, not averaged, and whether its largest logit (of equal ones the first) is the label's. Launched on
/// at least `rows` threads.
///
/// # Safety
/// `d_logits` holds `rows * cols` elements, `loss` and `correct` `rows`, which nobody else uses; `logits` holds
/// `rows * cols` elements, `labels` `rows`, each less than `cols`.
#[kernel]
pub unsafe fn softmax_cross_entropy(
    d_logits: *mut f32,
    loss: *mut f32,
    correct: *mut u32,
    logits: &[f32],
    labels: &[u32],
    rows: u32,
    cols: u32,
) {
    let row = thread::index_1d() as usize;
    let cols = cols as usize;
    if row < rows as usize {
        let x = &logits[row * cols..(row + 1) * cols];
        let label = labels[row] as usize;
        let (mut max, mut best) = (x[0], 0);
        for (col, &value) in x.iter().enumerate() {
            if value > max {
                (max, best) = (value, col);
            }
        }
        // SAFETY: the row lies in the shapes, and this thread alone writes it.
        unsafe {
            let d_row = d_logits.add(row * cols);
            let mut sum = 0.0;
            for (col, &value) in x.iter().enumerate() {
                let e = (value - max).exp();
                *d_row.add(col) = e;
                sum += e;
            }
            let scale = 1.0 / (sum * rows as f32);
            for col in 0..cols {
                let target = if col == label { 1.0 / rows as f32 } else { 0.0 };
                *d_row.add(col) = *d_row.add(col) * scale - target;
            }
            *loss.add(row) = sum.ln() + max - x[label];
            *correct.add(row) = u32::from(best == label);
        }
    }
}
