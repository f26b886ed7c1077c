//! k8: the row is read once and stays in registers.
//!
//! Since k7 no thread reads its elements again: `LANES` lanes of a warp hold a short row, a warp one of up to 3072
//! elements, several warps a longer one, and only those exchange one (max, sum) a warp after one barrier.
//! Buys: one read and one write of the row, the bytes of a copy; no barrier and no idle lanes in short rows.
//! Requires: `cols` at most `4 * VECTORS` for each thread of a row; the kernel's block; any alignment.
//@ ptx(softmax_k8_resident_8x4): ld.global.nc.v4 == 4, bar.sync == 0, shfl.sync.bfly == 6, .shared == 0, .local == 0
//@ ptx(softmax_k8_resident_32x4): ld.global.nc.v4 == 4, bar.sync == 0, shfl.sync.bfly == 10, .local == 0
//@ ptx(softmax_k8_resident_32x8): ld.global.nc.v4 == 8, bar.sync == 0, shfl.sync.bfly == 10, .local == 0
//@ ptx(softmax_k8_resident_32x24): ld.global.nc.v4 == 24, bar.sync == 0, shfl.sync.bfly == 10, .local == 0
//@ ptx(softmax_k8_resident_64x16): ld.global.nc.v4 == 16, bar.sync == 1, shfl.sync.bfly == 12, .local == 0
//@ ptx(softmax_k8_resident_128x16): ld.global.nc.v4 == 16, bar.sync == 1, shfl.sync.bfly == 14, .local == 0
//@ ptx(softmax_k8_resident_256x16): ld.global.nc.v4 == 16, bar.sync == 1, shfl.sync.bfly == 16, .local == 0
//@ ptx(softmax_k8_resident_512x16): ld.global.nc.v4 == 16, bar.sync == 1, shfl.sync.bfly == 18, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::{Arguments, Shapes};
use cuda_std::mem::{f32x2, f32x4, load_global_nc, store_global};
use cuda_std::warp::{reduce_max_width, reduce_sum_width};
use cuda_std::{GpuFloat as _, hint, kernel, thread};

const NONE: f32 = f32::NEG_INFINITY;

/// `out = exp(inp - max) / sum(exp(inp - max))` along each row; both `[rows, cols]`.
///
/// Launched on blocks of `BLOCK` threads, of which `THREADS` hold a row, enough of them for `rows`.
///
/// # Safety
/// The launch is as said; the threads hold `cols` elements; `out` has `rows * cols` of its own; `inp` has as many.
#[kernel(
    with(LANES = min(THREADS, 32), WARPS = max(THREADS / 32, 1)),
    args = Arguments,
    facts: Shapes = Shapes::resident::<THREADS, VECTORS, BLOCK>(),
    instances(
        softmax_k8_resident_8x4 = <8, 4, 128>;
        softmax_k8_resident_32x4 = <32, 4, 128>;
        softmax_k8_resident_32x8 = <32, 8, 128>;
        softmax_k8_resident_32x24 = <32, 24, 128>;
        softmax_k8_resident_64x16 = <64, 16, 64>;
        softmax_k8_resident_128x16 = <128, 16, 128>;
        softmax_k8_resident_256x16 = <256, 16, 256>;
        softmax_k8_resident_512x16 = <512, 16, 512>;
    ),
)]
pub unsafe fn softmax_k8_resident<
    const THREADS: usize,
    const VECTORS: usize,
    const BLOCK: usize,
    const LANES: u32,
    const WARPS: u32,
>(
    #[shared(WARPS as usize)] shared: *mut f32x2,
    out: *mut f32,
    inp: &[f32],
    #[from(u32)] rows: usize,
    #[from(u32)] cols: usize,
) {
    let threads = (LANES * WARPS) as usize;
    let (block, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let (row, tid) = (block * (BLOCK / threads) + tid / threads, tid % threads);
    // After the last row the lanes come to the shuffles with an empty one.
    let (start, len) = if row < rows { (row * cols, cols) } else { (0, 0) };
    let x = &inp[start..start + len];
    let head = x.as_ptr().align_offset(16).min(len);
    let vectors = (len - head) / 4;
    let edge = if tid < head { tid } else { tid + 4 * vectors };

    let held = if hint::worth_doing(tid < vectors) { VECTORS } else { 0 };
    let load = |i: usize| {
        let v = tid + i * threads;
        if v >= vectors {
            return [NONE; 4];
        }
        // SAFETY: the vector lies in the row, which nobody writes, a whole number of vectors from a boundary.
        unsafe { load_global_nc(x.as_ptr().add(head + 4 * v).cast::<f32x4>()) }.to_array()
    };
    let x_reg: [[f32; 4]; VECTORS] = if held > 0 { core::array::from_fn(load) } else { [[NONE; 4]; VECTORS] };
    let edge_reg = x.get(edge).copied().unwrap_or(NONE);

    // From the smallest number on, so that lanes with nothing but -inf add 0 and not NaN.
    let mut max = edge_reg.max(f32::MIN);
    for i in 0..held {
        max = x_reg[i].into_iter().fold(max, f32::max);
    }
    // SAFETY: all threads of the block come here and to all that follows.
    let mut max = unsafe { reduce_max_width::<f32, LANES>(u32::MAX, max) };
    let mut sum = (edge_reg - max).exp();
    let mut y_reg = x_reg;
    for i in 0..held {
        y_reg[i] = x_reg[i].map(|x| (x - max).exp());
        sum = y_reg[i].into_iter().fold(sum, |sum, y| sum + y);
    }
    // SAFETY: as above.
    let mut sum = unsafe { reduce_sum_width::<f32, LANES>(u32::MAX, sum) };
    if WARPS > 1 {
        // SAFETY: as above; each warp has its own element, and reads after the barrier.
        unsafe {
            if tid % 32 == 0 {
                *shared.add(tid / 32) = f32x2::new(max, sum);
            }
            thread::sync_threads_aligned();
            let f32x2 { x: max_warp, y: sum_warp } = *shared.add(tid % WARPS as usize);
            max = reduce_max_width::<f32, WARPS>(u32::MAX, max_warp);
            sum = reduce_sum_width::<f32, WARPS>(u32::MAX, sum_warp * (max_warp - max).exp());
        }
        // Against the row's maximum once more: that costs less than the barrier which would spare it.
        for i in 0..held {
            y_reg[i] = x_reg[i].map(|x| (x - max).exp());
        }
    }

    let scale = 1.0 / sum;
    // SAFETY: the row lies in the shape of `out`, vectors and edge lie in the row, and this thread alone writes them;
    // the vectors are aligned if they are equally far from a boundary in both rows.
    unsafe {
        let y = out.add(start);
        let is_aligned = y.add(head).cast::<f32x4>().is_aligned();
        for i in 0..held {
            let (v, values) = (tid + i * threads, y_reg[i].map(|y| y * scale));
            if v < vectors && is_aligned {
                store_global(y.add(head + 4 * v).cast(), f32x4::from(values));
            } else if v < vectors {
                (0..4).for_each(|j| *y.add(head + 4 * v + j) = values[j]);
            }
        }
        if edge < len {
            *y.add(edge) = (edge_reg - max).exp() * scale;
        }
    }
}
