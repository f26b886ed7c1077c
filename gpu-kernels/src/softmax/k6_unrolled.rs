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
use cuda_std::launch::LaunchConfig;
use cuda_std::mem::{f32x4, store_global};
use cuda_std::warp::{reduce_max, reduce_max_width, reduce_sum, reduce_sum_width};
use cuda_std::{GpuFloat as _, kernel, shared_array, thread};

mod share;
use share::Share;

/// Softmax of one row.
///
/// # Safety
/// As for the kernels; `shared` has `2 * WARPS` elements of the block's own.
#[inline(always)]
unsafe fn softmax<const BLOCK: usize, const WARPS: u32, const UNROLL: usize>(
    shared: *mut f32,
    out: *mut f32,
    inp: &[f32],
    [rows, cols]: [usize; 2],
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

block_per_row! { softmax<BLOCK, WARPS, UNROLL>, shared 2 f32;
    softmax_k6_unrolled_64x2 64 2 2, 1536;
    softmax_k6_unrolled_128x4 128 4 4, 3072;
    softmax_k6_unrolled_256x4 256 8 4, 6144;
    softmax_k6_unrolled_256x8 256 8 8, 8192;
    softmax_k6_unrolled_512x8 512 16 8, usize::MAX;
}
