//! k7: maximum and sum in one pass (Milakov and Gimelshein 2018).
//!
//! Since k6 each thread keeps a running maximum with its sum, and scales the sum when the maximum grows. One exchange merges
//! the pairs of all warps.
//! Buys: two reads of the row instead of three, and 1 barrier, for five exponentials per vector instead of four.
//! Requires: a block of the kernel's threads; any shape, any alignment.
//@ ptx: .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::{Arguments, Shapes};
use super::{exchange, vectors::Vectors};
use cuda_std::mem::f32x2;
use cuda_std::{GpuFloat as _, kernel, thread};

/// `out = exp(inp - max) / sum(exp(inp - max))` along each row; both `[rows, cols]`.
///
/// Launched with `rows` blocks of `THREADS` threads.
///
/// # Safety
/// The launch is as described; `out` holds `rows * cols` elements that no other code uses; `inp` holds at least as many.
#[kernel(
    with(WARPS = THREADS / 32),
    args = Arguments,
    facts: Shapes = Shapes { widest, ..Shapes::block_per_row::<THREADS>() },
    instances(
        softmax_k7_online_64x4 = <64, 4>, widest = 1536; //@ ptx: ld.global.nc.v4 >= 10, bar.sync == 1, shfl.sync.bfly == 12
        softmax_k7_online_128x4 = <128, 4>, widest = 3072; //@ ptx: ld.global.nc.v4 >= 10, bar.sync == 1, shfl.sync.bfly == 14
        softmax_k7_online_256x8 = <256, 8>, widest = 6144; //@ ptx: ld.global.nc.v4 >= 18, bar.sync == 1, shfl.sync.bfly == 16
        softmax_k7_online_512x4 = <512, 4>, widest = usize::MAX; //@ ptx: ld.global.nc.v4 >= 10, bar.sync == 1, shfl.sync.bfly == 18
    ),
)]
pub unsafe fn softmax_k7_online<const THREADS: usize, const UNROLL: usize, const WARPS: u32>(
    #[shared(WARPS as usize)] shared: *mut f32x2,
    out: *mut f32,
    inp: &[f32],
    #[from(u32)] rows: usize,
    #[from(u32)] cols: usize,
) {
    let (row, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let mine = Vectors::<THREADS>::new(inp, [rows, cols], row, tid);

    let edge = mine.edge();
    // Starts from the smallest number: -inf minus -inf is NaN.
    let mut max = edge.max(f32::MIN);
    let mut sum = (edge - max).exp();
    mine.for_each::<UNROLL>(|_, x| {
        let larger = x.into_iter().fold(max, f32::max);
        sum = x.into_iter().fold(sum * (max - larger).exp(), |sum, x| sum + (x - larger).exp());
        max = larger;
    });
    // SAFETY: all threads of the block execute this.
    let (max, sum) = unsafe { exchange::merge_block::<WARPS>(shared, tid, (max, sum)) };

    let scale = 1.0 / sum;
    let exp = |x: f32| (x - max).exp();
    // SAFETY: `out` has the shape of `inp`, and only this thread writes its part.
    unsafe {
        mine.for_each::<UNROLL>(|place, x| mine.store(out, place, x.map(|x| exp(x) * scale)));
        mine.store_edge(out, exp(edge) * scale);
    }
}
