//! k5: 16 bytes a load and a store.
//!
//! Since k4 each thread moves four elements at once: a quarter of the loads and stores, and four times the bytes in
//! flight for as many instructions. The sum goes through the row backwards: it begins with what the maximum read last,
//! and the outputs begin with what the sum read last, which the caches still hold.
//! Costs: up to three elements before the first 16-byte boundary of a row and up to three after the last go one by
//! one, one a thread; the row is still read three times.
//! Requires: a block of 256 threads; any shape, any alignment. Where a row of `out` is aligned otherwise than its
//! row of `inp`, as happens in views, the stores are of 4 bytes.
//@ ptx: ld.global.nc.v4 >= 3, st.global.v4 >= 1, bar.sync == 2, shfl.sync.bfly == 16, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::{Arguments, Shapes};
use cuda_std::hint::opaque;
use cuda_std::mem::{f32x4, load_global_nc, store_global};
use cuda_std::warp::{reduce_max, reduce_max_width, reduce_sum, reduce_sum_width};
use cuda_std::{GpuFloat as _, kernel, shared_array, thread};

const WARPS: usize = 8;
const BLOCK: usize = 32 * WARPS;

/// `out = exp(inp - max) / sum(exp(inp - max))` along each row; both `[rows, cols]`.
///
/// Launched on `rows` blocks of 256 threads.
///
/// # Safety
/// The launch is as said; `out` holds `rows * cols` elements that nobody else uses; `inp` holds at least as many.
#[kernel(max_threads = 256, min_blocks = 8, args = Arguments, facts: Shapes = Shapes::block_per_row::<BLOCK>())]
pub unsafe fn softmax_k5_vec4(out: *mut f32, inp: &[f32], rows: u32, cols: u32) {
    let (max_shared, sum_shared) = (shared_array![f32; WARPS], shared_array![f32; WARPS]);
    let (row, tid_u32) = (thread::block_idx_x() as usize, thread::thread_idx_x());
    let (lane, warp) = ((tid_u32 % 32) as usize, (tid_u32 / 32) as usize);
    let x = &inp[..rows as usize * cols as usize][row * cols as usize..][..cols as usize];

    // The row is `head` elements, then `vectors` aligned vectors, then a tail. Of head and tail, at most six
    // elements, each thread takes the one of its own number: after the head the vectors are skipped.
    let head = (x.as_ptr().align_offset(16) as u32).min(cols);
    let (tid, vectors, cols) = (tid_u32 as usize, ((cols - head) / 4) as usize, cols as usize);
    let edge = if tid_u32 < head { tid } else { tid + 4 * vectors };

    let vector = x.as_ptr().wrapping_add(head as usize).cast::<f32x4>();
    // SAFETY: the row lies in `inp`, which nobody writes; the vectors lie in the row, from a 16-byte boundary on.
    let load = |v: usize| unsafe { load_global_nc(vector.add(v)) }.to_array();

    let mut max = f32::NEG_INFINITY;
    for v in (tid..vectors).step_by(BLOCK) {
        max = load(v).into_iter().fold(max, f32::max);
    }
    if edge < cols {
        max = max.max(x[edge]);
    }
    // SAFETY: all threads of the block come here; each warp writes its own element before the barrier.
    let max = unsafe {
        let of_warp = reduce_max(max);
        if lane == 0 {
            *max_shared.add(warp) = of_warp;
        }
        thread::sync_threads_aligned();
        reduce_max_width::<f32, { WARPS as u32 }>(u32::MAX, *max_shared.add(lane % WARPS))
    };

    // Backwards. The loops with exponentials stay rolled: several at once take more registers than leave room for eight blocks on
    // a multiprocessor.
    let (mut sum, mut left) = (0.0, vectors.saturating_sub(tid).div_ceil(BLOCK));
    while left > 0 {
        left = opaque(left - 1);
        sum = load(tid + BLOCK * left).into_iter().fold(sum, |sum, x| sum + (x - max).exp());
    }
    if edge < cols {
        sum += (x[edge] - max).exp();
    }
    // SAFETY: as above; the sums have an array of their own, so that nobody waits for the reads of the maxima.
    let sum = unsafe {
        let of_warp = reduce_sum(sum);
        if lane == 0 {
            *sum_shared.add(warp) = of_warp;
        }
        thread::sync_threads_aligned();
        reduce_sum_width::<f32, { WARPS as u32 }>(u32::MAX, *sum_shared.add(lane % WARPS))
    };

    let scale = 1.0 / sum;
    // SAFETY: the row lies in the shape of `out`, the vectors and the edge lie in the row, and this thread alone
    // writes them. The vectors are aligned if they are equally far from a boundary in both rows.
    unsafe {
        let y = out.add(row * cols);
        let is_aligned = y.add(head as usize).cast::<f32x4>().is_aligned();
        let mut v = tid;
        while v < vectors {
            let (to, values) = (y.add(head as usize).add(4 * v), load(v).map(|x| (x - max).exp() * scale));
            if is_aligned {
                store_global(to.cast(), f32x4::from(values));
            } else {
                (0..4).for_each(|i| *to.add(i) = values[i]);
            }
            v = opaque(v + BLOCK);
        }
        if edge < cols {
            *y.add(edge) = (x[edge] - max).exp() * scale;
        }
    }
}
