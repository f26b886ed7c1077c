//! k8: the row is read once and stays in registers.
//!
//! Since k7 no thread reads its elements again. `LANES` lanes of a warp hold a short row, a warp one of up to 3072 elements,
//! and several warps a longer one. Only in longer rows do warps exchange one (max, sum) each, after one barrier.
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
/// Launched with enough blocks for `rows`, of `THREADS` threads each, which can hold `cols` elements.
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
    // A block holds several short rows. Threads after the last row take part in the shuffles with an empty row.
    let (row, tid) = (row * Vectors::<THREADS>::ROWS_PER_BLOCK + tid / THREADS, tid % THREADS);
    let mine = Vectors::<THREADS>::new(inp, [rows, cols], row, tid);

    let edge = mine.edge();
    let x_reg = mine.load::<VECTORS>();
    // Starts from the smallest number: -inf minus -inf is NaN.
    let max = x_reg.as_flattened().iter().copied().fold(edge.max(f32::MIN), f32::max);
    // SAFETY: all threads of the block execute this.
    let max = unsafe { exchange::lanes_max::<LANES>(max) };
    let sum = x_reg.as_flattened().iter().fold((edge - max).exp(), |sum, x| sum + (x - max).exp());
    // SAFETY: all lanes execute this.
    let sum = unsafe { exchange::lanes_sum::<LANES>(sum) };
    // SAFETY: all threads execute this.
    let (max, sum) = unsafe { exchange::merge_warps::<WARPS>(shared, tid, (max, sum)) };

    let scale = 1.0 / sum;
    let exp = |x: f32| (x - max).exp();
    // SAFETY: `out` has the shape of `inp`, and only this thread writes its part.
    unsafe {
        // In a row of one warp these are the exponentials of the sum, and are not computed again. In other rows the maximum
        // has changed; computing them again costs less than the barrier that would avoid it.
        mine.store_all::<VECTORS>(out, |i| x_reg[i].map(|x| exp(x) * scale));
        mine.store_edge(out, exp(edge) * scale);
    }
}
