//! k3: neighbouring threads read neighbouring elements.
//!
//! Since k2 a thread takes every 256th element instead of a chunk: the 32 loads of a warp fall into one or two lines of 128
//! bytes, instead of up to 32 lines.
//! Costs: the row is still read three times, and there are still 20 barriers.
//! Requires: a block of 256 threads; any shape, any alignment.
//@ ptx: bar.sync >= 4, shfl == 0, ld.shared >= 2, .v4 == 0, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::{Arguments, Shapes};
use cuda_std::{GpuFloat as _, kernel, shared_array, thread};

const BLOCK: usize = 256;

/// `out = exp(inp - max) / sum(exp(inp - max))` along each row; both `[rows, cols]`.
///
/// Launched with `rows` blocks of 256 threads.
///
/// # Safety
/// The launch is as described; `out` holds `rows * cols` elements that no other code uses; `inp` holds at least as many.
#[kernel(args = Arguments, facts: Shapes = Shapes::block_per_row::<BLOCK>())]
pub unsafe fn softmax_k3_coalesced(out: *mut f32, inp: &[f32], rows: u32, cols: u32) {
    let partial_shared = shared_array![f32; BLOCK];
    let (row, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let cols = cols as usize;
    let x = &inp[..rows as usize * cols][row * cols..][..cols];
    let mine = (tid..cols).step_by(BLOCK);

    let mut max = f32::NEG_INFINITY;
    for col in mine.clone() {
        max = max.max(x[col]);
    }
    // SAFETY: all threads of the block execute this, and the array has an element for each.
    let max = unsafe { tree(partial_shared, tid, max, f32::max) };

    let mut sum = 0.0;
    for col in mine.clone() {
        sum += (x[col] - max).exp();
    }
    // SAFETY: all threads execute this, after the maxima have been read.
    let sum = unsafe { tree(partial_shared, tid, sum, |a, b| a + b) };

    for col in mine {
        // SAFETY: row and col lie in the shape of `out`, and only this thread writes the element.
        unsafe { *out.add(row * cols + col) = (x[col] - max).exp() / sum };
    }
}

/// Combines the values of all threads and returns the result to each. Each round combines the upper half with the lower.
///
/// # Safety
/// All threads of the block call this together; `shared` has `BLOCK` elements that no other code uses.
#[inline(always)]
unsafe fn tree(shared: *mut f32, tid: usize, value: f32, combine: impl Fn(f32, f32) -> f32) -> f32 {
    // SAFETY: the indices are below `BLOCK`, and a barrier lies between the accesses of different threads.
    unsafe {
        *shared.add(tid) = value;
        let mut half = BLOCK / 2;
        while half > 0 {
            thread::sync_threads_aligned();
            if tid < half {
                *shared.add(tid) = combine(*shared.add(tid), *shared.add(tid + half));
            }
            half /= 2;
        }
        thread::sync_threads_aligned();
        let total = *shared;
        // The next tree writes here, so all threads must have read.
        thread::sync_threads_aligned();
        total
    }
}
