//! The kernels.

#![no_std]

// For `sqrt`, `exp` and other methods of floats, add `use cuda_std::GpuFloat as _;`.
use cuda_std::{kernel, thread, warp};

/// `sums[row]` becomes the sum of that row of `inp`, which is `[rows, cols]`. A block of `THREADS` threads sums a row.
///
/// `row_sums_256` is for a GPU; `row_sums_64` has blocks that Miri runs in seconds.
///
/// # Safety
/// There is a block of `THREADS` threads for each row; `sums` has one element per row, and `inp` has `rows * cols` elements.
#[kernel(
    max_threads = THREADS,
    instances(
        row_sums_64 = <64, 2>;
        row_sums_256 = <256, 8>;
    ),
)]
pub unsafe fn row_sums<const THREADS: usize, const WARPS: usize>(
    #[shared(WARPS)] partial: *mut f32,
    sums: *mut f32,
    inp: &[f32],
    cols: u32,
) {
    let (row, cols) = (thread::block_idx_x() as usize, cols as usize);
    let thread = thread::thread_idx_x() as usize;
    let row_of_inp = &inp[row * cols..][..cols];
    let mut sum = 0.0;
    let mut col = thread;
    while col < cols {
        sum += row_of_inp[col];
        col += THREADS;
    }
    // SAFETY: no thread has returned. Each warp writes its own element, and thread 0 reads after the barrier.
    unsafe {
        let of_warp = warp::reduce_sum(sum);
        if thread.is_multiple_of(32) {
            *partial.add(thread / 32) = of_warp;
        }
        thread::sync_threads_aligned();
        if thread == 0 {
            let mut sum = 0.0;
            for warp in 0..WARPS {
                sum += *partial.add(warp);
            }
            *sums.add(row) = sum;
        }
    }
}
