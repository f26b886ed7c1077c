//! k1: one thread per output element.
//!
//! The ladder starts here: every thread walks its whole row for the maximum and again for the sum.
//! Costs: a row of `cols` elements is read `2 * cols + 1` times, by threads that share nothing.
//! Requires: nothing; any shape, any alignment, any block.
//@ ptx: bar == 0, shfl == 0, .shared == 0, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::{Arguments, Shapes};
use cuda_std::{GpuFloat as _, kernel, thread};

const BLOCK: usize = 256;

/// `out = exp(inp - max) / sum(exp(inp - max))` along each row; both `[rows, cols]`.
///
/// Launched with at least `rows * cols` threads along x, in blocks of 256.
///
/// # Safety
/// `out` holds `rows * cols` elements that no other code uses; `inp` holds at least as many.
#[kernel(args = Arguments, facts: Shapes = Shapes::thread_per_element::<BLOCK>())]
pub unsafe fn softmax_k1_naive(out: *mut f32, inp: &[f32], rows: u32, cols: u32) {
    let cols = cols as usize;
    let i = thread::block_idx_x() as usize * BLOCK + thread::thread_idx_x() as usize;
    if i < rows as usize * cols {
        let (row, col) = (i / cols, i % cols);
        let x = &inp[row * cols..(row + 1) * cols];
        let mut max = f32::NEG_INFINITY;
        for &value in x {
            max = max.max(value);
        }
        let mut sum = 0.0;
        for &value in x {
            sum += (value - max).exp();
        }
        // SAFETY: `i` lies in the shape of `out`, and only this thread writes the element.
        unsafe { *out.add(i) = (x[col] - max).exp() / sum };
    }
}
