//! k6: block size and unroll factor as const parameters, chosen by width.
//!
//! Since k5 a thread issues `UNROLL` loads before it uses the first. Narrow rows get small blocks. The widest get large
//! ones; few of these run at once, so L1 holds their rows. Only there does the sum go backwards.
//! Buys: `UNROLL` times the bytes in flight, and fewer idle threads; bytes and barriers are those of k5.
//! Requires: a block of the kernel's threads; any shape, any alignment.
//@ ptx: .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::{Arguments, Shapes};
use super::{exchange, vectors::Vectors};
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
        softmax_k6_unrolled_64x2 = <64, 2>, widest = 768; //@ ptx: ld.global.nc.v4 >= 9, bar.sync == 2, shfl.sync.bfly == 12
        softmax_k6_unrolled_64x4 = <64, 4>, widest = 1536; //@ ptx: ld.global.nc.v4 >= 15, bar.sync == 2, shfl.sync.bfly == 12
        softmax_k6_unrolled_128x4 = <128, 4>, widest = 3072; //@ ptx: ld.global.nc.v4 >= 15, bar.sync == 2, shfl.sync.bfly == 14
        softmax_k6_unrolled_256x4 = <256, 4>, widest = 6144; //@ ptx: ld.global.nc.v4 >= 15, bar.sync == 2, shfl.sync.bfly == 16
        softmax_k6_unrolled_256x8 = <256, 8>, widest = 7936; //@ ptx: ld.global.nc.v4 >= 27, bar.sync == 2, shfl.sync.bfly == 16
        softmax_k6_unrolled_512x8 = <512, 8>, widest = 16_384; //@ ptx: ld.global.nc.v4 >= 27, bar.sync == 2, shfl.sync.bfly == 18
        softmax_k6_unrolled_1024x8 = <1024, 8>, widest = usize::MAX; //@ ptx: ld.global.nc.v4 >= 27, bar.sync == 2, shfl.sync.bfly == 20
    ),
)]
pub unsafe fn softmax_k6_unrolled<const THREADS: usize, const UNROLL: usize, const WARPS: u32>(
    #[shared(2 * WARPS as usize)] shared: *mut f32,
    out: *mut f32,
    inp: &[f32],
    #[from(u32)] rows: usize,
    #[from(u32)] cols: usize,
) {
    let (row, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let mine = Vectors::<THREADS>::new(inp, [rows, cols], row, tid);

    let mut max = mine.edge();
    mine.for_each::<UNROLL>(|_, x| max = x.into_iter().fold(max, f32::max));
    // SAFETY: all threads of the block execute this.
    let max = unsafe { exchange::block_max::<WARPS>(shared, tid, max) };

    let exp = |x: f32| (x - max).exp();
    let mut sum = exp(mine.edge());
    let add = |_, x: [f32; 4]| sum = x.into_iter().fold(sum, |sum, x| sum + exp(x));
    if THREADS == 1024 {
        mine.for_each_back::<UNROLL>(add);
    } else {
        mine.for_each::<UNROLL>(add);
    }
    // SAFETY: all threads execute this; the sums have their own elements, so no thread waits for the reads of the maxima.
    let sum = unsafe { exchange::block_sum::<WARPS>(shared.add(WARPS as usize), tid, sum) };

    let scale = 1.0 / sum;
    // SAFETY: `out` has the shape of `inp`, and only this thread writes its part.
    unsafe {
        mine.for_each::<UNROLL>(|place, x| mine.store(out, place, x.map(|x| exp(x) * scale)));
        mine.store_edge(out, exp(mine.edge()) * scale);
    }
}
