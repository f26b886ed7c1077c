//! Copies of a matrix: the baseline for kernels that read and write one.
//@ ptx(copy_x1): ld.global.nc.v4 == 1, st.global.v4 == 1, bar.sync == 0, .local == 0
//@ ptx(copy_x4): ld.global.nc.v4 == 4, st.global.v4 == 4, bar.sync == 0, .local == 0

use cuda_std::mem::{f32x4, load_global_nc, store_global};
use cuda_std::{kernel, thread};

const THREADS: usize = 256;

/// `out = inp`, both `[rows, cols]`: one vector per thread.
///
/// Launched with the grid of [`grid`]`::<1>`.
///
/// # Safety
/// The launch is as described; `out` holds `rows * cols` elements that no other code uses; `inp` holds at least as many.
#[kernel(max_threads = 256, min_blocks = 8)]
pub unsafe fn copy_x1(out: *mut f32, inp: &[f32], rows: u32, cols: u32) {
    // SAFETY: the kernel's contract.
    unsafe { copy::<1>(out, &inp[..rows as usize * cols as usize]) }
}

/// `out = inp`, both `[rows, cols]`: four vectors per thread, all read before the first is written.
///
/// Launched with the grid of [`grid`]`::<4>`.
///
/// # Safety
/// Same as for [`copy_x1`](fn@copy_x1).
#[kernel(max_threads = 256, min_blocks = 8)]
pub unsafe fn copy_x4(out: *mut f32, inp: &[f32], rows: u32, cols: u32) {
    // SAFETY: the kernel's contract.
    unsafe { copy::<4>(out, &inp[..rows as usize * cols as usize]) }
}

/// Returns the launch that copies `len` elements, `VECTORS` vectors per thread.
#[cfg(not(target_arch = "nvptx64"))]
pub fn grid<const VECTORS: usize>(len: usize) -> cuda_std::launch::LaunchConfig {
    cuda_std::launch::LaunchConfig::cover(len.div_ceil(4 * VECTORS), THREADS as u32)
}

/// Copies the block's vectors. The elements after the last vector are copied one by one, and so is a matrix that is not
/// aligned to 16 bytes.
///
/// # Safety
/// The launch is [`grid`]'s; `out` holds as many elements as `inp`, and no other code uses them.
#[inline(always)]
unsafe fn copy<const VECTORS: usize>(out: *mut f32, inp: &[f32]) {
    let (block, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let is_aligned = (out.addr() | inp.as_ptr().addr()).is_multiple_of(16);
    let vectors = if is_aligned { inp.len() / 4 } else { 0 };
    let first = block * (THREADS * VECTORS) + tid;
    let x_reg: [f32x4; VECTORS] = core::array::from_fn(|i| {
        let v = first + i * THREADS;
        if v < vectors {
            // SAFETY: the vector lies in the matrix, which is aligned to 16 bytes and which no code writes.
            unsafe { load_global_nc(inp.as_ptr().cast::<f32x4>().add(v)) }
        } else {
            f32x4::new(0.0, 0.0, 0.0, 0.0)
        }
    });
    for i in 0..VECTORS {
        let v = first + i * THREADS;
        if v < vectors {
            // SAFETY: the vector lies in the matrix, which is aligned to 16 bytes, and only this thread writes it.
            unsafe { store_global(out.cast::<f32x4>().add(v), x_reg[i]) };
        }
    }
    let mut i = 4 * vectors + block * THREADS + tid;
    while i < inp.len() {
        // SAFETY: `i` lies in the matrix, and only this thread writes the element.
        unsafe { *out.add(i) = inp[i] };
        i += thread::grid_dim_x() as usize * THREADS;
    }
}
