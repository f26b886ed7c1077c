//! k8: the row is read once and stays in registers.
//!
//! Since k7 no thread reads its elements again: `LANES` lanes of a warp hold a short row, a warp one of up to 3072
//! elements, several warps a longer one, and only those exchange one (max, sum) a warp after one barrier.
//! Buys: one read and one write of the row, the bytes of a copy; no barrier and no idle lanes in short rows.
//! Requires: `cols` at most `4 * VECTORS` for each thread of a row; the kernel's block; any alignment.
//@ ptx: .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::{Arguments, Shapes};
use super::{exchange, vectors::Vectors};
use cuda_std::mem::f32x2;
use cuda_std::{GpuFloat as _, kernel, thread};

/// `out = exp(inp - max) / sum(exp(inp - max))` along each row; both `[rows, cols]`.
///
/// Launched on enough blocks for `rows`, `THREADS` threads each, which can hold `cols` elements.
///
/// # Safety
/// The launch is as described; `out` holds `rows * cols` elements that no other code uses; `inp` holds at least as many.
#[kernel(
    with(LANES = min(THREADS, 32), WARPS = max(THREADS / 32, 1)),
    args = Arguments,
    facts: Shapes = Shapes::resident::<THREADS, VECTORS>(),
    instances(
        softmax_k8_resident_8x4 = <8, 4>; //@ ptx: ld.global.nc.v4 == 4, bar.sync == 0, shfl.sync.bfly == 6, .shared == 0
        softmax_k8_resident_32x4 = <32, 4>; //@ ptx: ld.global.nc.v4 == 4, bar.sync == 0, shfl.sync.bfly == 10
        softmax_k8_resident_32x8 = <32, 8>; //@ ptx: ld.global.nc.v4 == 8, bar.sync == 0, shfl.sync.bfly == 10
        softmax_k8_resident_32x24 = <32, 24>; //@ ptx: ld.global.nc.v4 == 24, bar.sync == 0, shfl.sync.bfly == 10
        softmax_k8_resident_64x16 = <64, 16>; //@ ptx: ld.global.nc.v4 == 16, bar.sync == 1, shfl.sync.bfly == 12
        softmax_k8_resident_128x16 = <128, 16>; //@ ptx: ld.global.nc.v4 == 16, bar.sync == 1, shfl.sync.bfly == 14
        softmax_k8_resident_256x16 = <256, 16>; //@ ptx: ld.global.nc.v4 == 16, bar.sync == 1, shfl.sync.bfly == 16
        softmax_k8_resident_512x16 = <512, 16>; //@ ptx: ld.global.nc.v4 == 16, bar.sync == 1, shfl.sync.bfly == 18
    ),
)]
pub unsafe fn softmax_k8_resident<
    const THREADS: usize,
    const VECTORS: usize,
    const LANES: u32,
    const WARPS: u32,
>(
    #[shared(WARPS as usize)] shared: *mut f32x2,
    out: *mut f32,
    inp: &[f32],
    #[from(u32)] rows: usize,
    #[from(u32)] cols: usize,
) {
    let (row, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    // A block holds several short rows; after the last row threads come to the shuffles with an empty one.
    let (row, tid) = (row * Vectors::<THREADS>::ROWS_PER_BLOCK + tid / THREADS, tid % THREADS);
    let mine = Vectors::<THREADS>::new(inp, [rows, cols], row, tid);

    let edge = mine.edge();
    let x_reg = mine.load::<VECTORS>();
    // From the smallest number on: of -inf the difference to itself is NaN.
    let max = x_reg.as_flattened().iter().copied().fold(edge.max(f32::MIN), f32::max);
    // SAFETY: all threads of the block come here.
    let max = unsafe { exchange::lanes_max::<LANES>(max) };
    let sum = x_reg.as_flattened().iter().fold((edge - max).exp(), |sum, x| sum + (x - max).exp());
    // SAFETY: as above.
    let sum = unsafe { exchange::lanes_sum::<LANES>(sum) };
    // SAFETY: as above.
    let (max, sum) = unsafe { exchange::merge_warps::<WARPS>(shared, tid, (max, sum)) };

    let scale = 1.0 / sum;
    let exp = |x: f32| (x - max).exp();
    // SAFETY: `out` has the shape of `inp`, and this thread alone writes its part.
    unsafe {
        // In a row of one warp these are the exponentials of the sum, which are not computed again. In others the
        // maximum is new: that costs less than the barrier which would spare it.
        mine.store_all::<VECTORS>(out, |i| x_reg[i].map(|x| exp(x) * scale));
        mine.store_edge(out, exp(edge) * scale);
    }
}
