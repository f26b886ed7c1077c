//! k5: 16 bytes per load and store.
//!
//! Since k4 each thread moves four elements at once: a quarter of the loads and stores, and four times the bytes in flight
//! for the same number of instructions. The sum goes backwards: it begins with what the maximum read last. The outputs begin
//! with what the sum read last. The caches still hold both.
//! Costs: up to six elements of a row are handled one by one, one per thread; the row is still read three times.
//! Requires: a block of the kernel's threads; any shape, any alignment.
//@ ptx: ld.global.nc.v4 >= 3, st.global.v4 >= 1, bar.sync == 2, shfl.sync.bfly == 16, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::{Arguments, Shapes};
use super::{
    exchange,
    vectors::{ROLLED, Vectors},
};
use cuda_std::{GpuFloat as _, kernel, shared_array, thread};

const WARPS: u32 = 8;
const THREADS: usize = 256;

/// `out = exp(inp - max) / sum(exp(inp - max))` along each row; both `[rows, cols]`.
///
/// Launched with `rows` blocks of `THREADS` threads.
///
/// # Safety
/// The launch is as described; `out` holds `rows * cols` elements that no other code uses; `inp` holds at least as many.
#[kernel(max_threads = 256, min_blocks = 8, args = Arguments, facts: Shapes = Shapes::block_per_row::<THREADS>())]
pub unsafe fn softmax_k5_vec4(out: *mut f32, inp: &[f32], rows: u32, cols: u32) {
    let shared = shared_array![f32; 2 * WARPS as usize];
    let (rows, cols) = (rows as usize, cols as usize);
    let (row, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let mine = Vectors::<THREADS>::new(inp, [rows, cols], row, tid);

    let mut max = mine.edge();
    // The compiler unrolls this loop. Those with exponentials stay rolled, so that the registers suffice for eight blocks.
    mine.for_each::<1>(|_, x| max = x.into_iter().fold(max, f32::max));
    // SAFETY: all threads of the block execute this.
    let max = unsafe { exchange::block_max::<WARPS>(shared, tid, max) };

    let exp = |x: f32| (x - max).exp();
    let mut sum = exp(mine.edge());
    mine.for_each_back::<ROLLED>(|_, x| sum = x.into_iter().fold(sum, |sum, x| sum + exp(x)));
    // SAFETY: all threads execute this; the sums have their own elements, so no thread waits for the reads of the maxima.
    let sum = unsafe { exchange::block_sum::<WARPS>(shared.add(WARPS as usize), tid, sum) };

    let scale = 1.0 / sum;
    // SAFETY: `out` has the shape of `inp`, and only this thread writes its part.
    unsafe {
        mine.for_each::<ROLLED>(|place, x| mine.store(out, place, x.map(|x| exp(x) * scale)));
        mine.store_edge(out, exp(mine.edge()) * scale);
    }
}
