//! k6: block size and unroll factor as const parameters, chosen by width.
//!
//! Since k5 a thread issues `UNROLL` loads before it uses the first, and narrow rows get small blocks. The sum goes
//! backwards only where eight vectors a thread do not stay in L1: it takes registers.
//! Buys: `UNROLL` times the bytes in flight, and fewer idle threads; bytes and barriers are k5's.
//! Requires: a block of the kernel's threads; any shape, any alignment.
//@ ptx(softmax_k6_unrolled_64x2): ld.global.nc.v4 >= 9, bar.sync == 2, shfl.sync.bfly == 12, .local == 0
//@ ptx(softmax_k6_unrolled_128x4): ld.global.nc.v4 >= 15, bar.sync == 2, shfl.sync.bfly == 14, .local == 0
//@ ptx(softmax_k6_unrolled_256x4): ld.global.nc.v4 >= 15, bar.sync == 2, shfl.sync.bfly == 16, .local == 0
//@ ptx(softmax_k6_unrolled_256x8): ld.global.nc.v4 >= 27, bar.sync == 2, shfl.sync.bfly == 16, .local == 0
//@ ptx(softmax_k6_unrolled_512x8): ld.global.nc.v4 >= 27, bar.sync == 2, shfl.sync.bfly == 18, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::{Arguments, Shapes};
use cuda_std::mem::{f32x4, store_global};
use cuda_std::warp::{reduce_max, reduce_max_width, reduce_sum, reduce_sum_width};
use cuda_std::{GpuFloat as _, kernel, thread};

mod share;
use share::Share;

/// `out = exp(inp - max) / sum(exp(inp - max))` along each row; both `[rows, cols]`.
///
/// Launched on `rows` blocks of `BLOCK` threads.
///
/// # Safety
/// The launch is as said; `out` holds `rows * cols` elements that nobody else uses; `inp` holds at least as many.
#[kernel(
    with(WARPS = BLOCK / 32),
    args = Arguments,
    facts: Shapes = Shapes { widest, ..Shapes::block_per_row::<BLOCK>() },
    instances(
        softmax_k6_unrolled_64x2 = <64, 2>, widest = 1536;
        softmax_k6_unrolled_128x4 = <128, 4>, widest = 3072;
        softmax_k6_unrolled_256x4 = <256, 4>, widest = 6144;
        softmax_k6_unrolled_256x8 = <256, 8>, widest = 8192;
        softmax_k6_unrolled_512x8 = <512, 8>, widest = usize::MAX;
    ),
)]
pub unsafe fn softmax_k6_unrolled<const BLOCK: usize, const UNROLL: usize, const WARPS: u32>(
    #[shared(2 * WARPS as usize)] shared: *mut f32,
    out: *mut f32,
    inp: &[f32],
    #[from(u32)] rows: usize,
    #[from(u32)] cols: usize,
) {
    let (row, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let x = &inp[..rows * cols][row * cols..][..cols];
    let mine = Share::<BLOCK, UNROLL>::new(x, tid);
    // SAFETY: all threads of the block call it together; each warp has its own element, and reads after the barrier.
    let exchange = |shared: *mut f32, of_warp: f32| unsafe {
        if tid % 32 == 0 {
            *shared.add(tid / 32) = of_warp;
        }
        thread::sync_threads_aligned();
        *shared.add(tid % WARPS as usize)
    };

    let (mut max, mut edge_max) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    mine.for_each(|(_, x)| max = x.into_iter().fold(max, f32::max), |_, x| edge_max = x);
    // SAFETY: all threads of the block come here.
    let max = unsafe {
        let of_warp = reduce_max(max.max(edge_max));
        reduce_max_width::<f32, WARPS>(u32::MAX, exchange(shared, of_warp))
    };

    let (mut sum, mut edge_sum) = (0.0, 0.0);
    let exp = |x: f32| (x - max).exp();
    let mut add = |(_, x): (usize, [f32; 4])| sum = x.map(exp).into_iter().fold(sum, |a, b| a + b);
    // Backwards takes registers, of which rows that L1 holds whole make better use.
    if UNROLL == 8 {
        mine.for_each_back(&mut add, |_, x| edge_sum = exp(x));
    } else {
        mine.for_each(&mut add, |_, x| edge_sum = exp(x));
    }
    // SAFETY: as above; the sums have elements of their own, so that nobody waits for the reads of the maxima.
    let sum = unsafe {
        let of_warp = reduce_sum(sum + edge_sum);
        reduce_sum_width::<f32, WARPS>(u32::MAX, exchange(shared.add(WARPS as usize), of_warp))
    };
    let scale = 1.0 / sum;
    // SAFETY: the row lies in the shape of `out`, the places lie in the row, and this thread alone writes them; the
    // vectors are aligned if they are equally far from a boundary in both rows.
    unsafe {
        let y = out.add(row * cols);
        let is_aligned = y.add(mine.head).cast::<f32x4>().is_aligned();
        let store = |(col, x): (usize, [f32; 4])| {
            let values = x.map(|x| exp(x) * scale);
            if is_aligned {
                store_global(y.add(col).cast(), f32x4::from(values));
            } else {
                (0..4).for_each(|i| *y.add(col + i) = values[i]);
            }
        };
        mine.for_each(store, |col, x| *y.add(col) = exp(x) * scale);
    }
}
