//! Multiplications with few rows of `f32`, without tensor cores (compute capability 9.0, `compute_90a`).
//!
//! Up to 8 rows, the FP32 units keep up with the memory, and the sums are those of `f32`. Tiles of 16 rows were slower than
//! two tiles of 8. Stages and splits are those of [`super::few_rows`]. A thread has a column of B and all rows of A. Each of
//! the two warpgroups takes half of a stage's terms. A warp's threads need the same numbers of A, and read four at once.
//!
//! The instances are the tuning table: rows of A, and stages.
//@ ptx(matmul_f32_kk_8x128c, compute_90a): fma.rn.f32 >= 32, .local == 0
//@ ptx(matmul_f32_kn_8x128c, compute_90a): fma.rn.f32 >= 32, .local == 0

use cuda_std::GpuFloat as _;
use cuda_std::hint::opaque;
use cuda_std::mem::{f32x4, load_shared};
use cuda_std::wgmma::Panel;
use cuda_std::{kernel, thread};

use super::super::args::MatmulArgs;
#[cfg(not(target_arch = "nvptx64"))]
use super::FewRowsShape;
use super::few_rows::{Part, shared_bytes};
use super::warpgroup_work::ROWS;
use common_kernels::element::Output;
use common_kernels::ring::WARPGROUP;

/// Terms of a stage.
const TERMS: usize = 32;
/// Terms of a stage that a warpgroup takes.
const HALF: usize = TERMS / 2;
/// Terms that are added up on their own before their sums are added to the others: a long chain of additions loses bits.
const RUN: u32 = 4 * TERMS as u32;

/// Multiplies the arguments' matrices. Launched like [`matmul_few_rows`](fn@super::few_rows::matmul_few_rows).
///
/// # Safety
/// Same as for `matmul_few_rows`.
#[kernel(
    max_threads = 288,
    min_blocks = 1,
    arch = "90a",
    args,
    facts: FewRowsShape = FewRowsShape::new(A_ROWS, B_K, 4, shared_bytes(A_ROWS, STAGES, 2)).without_tensor_cores(),
    instances(
        T = f32 {
            matmul_f32_kk_8x128c = <1, 8, 6>;
            matmul_f32_kn_8x128c = <0, 8, 6>;
        }
    ),
)]
pub unsafe fn matmul_few_rows_f32<
    T: Output<4>,
    const B_K: usize,
    const A_ROWS: usize,
    const STAGES: usize,
>(
    args: MatmulArgs<T>,
) {
    let tid = thread::thread_idx_x();
    let half = tid / WARPGROUP;
    // SAFETY: all threads of the block execute this.
    let part = unsafe { Part::<STAGES>::new::<T>(&args, A_ROWS) };
    let (mut sums, mut of_run) = ([0.0f32; A_ROWS], [0.0f32; A_ROWS]);
    if half == 2 {
        // SAFETY: this is the last warp, and the warps of both halves use each stage.
        unsafe { part.copy_stages::<T, B_K>(&args) };
    } else {
        let col = tid % WARPGROUP;
        let mut ring = part.ring;
        let mut k = part.terms[0];
        while k < part.terms[1] {
            ring.wait_full();
            let (a, b) = (part.a(ring.stage()).cast::<Panel<f32, A_ROWS>>(), part.b(ring.stage()));
            // Unrolled, the loop would need too many registers.
            let (mut first, end) = (half as usize * HALF, opaque((half as usize + 1) * HALF));
            while first < end {
                let chunk = first as u32 / 4;
                // SAFETY: the stage is full, and has the column and the terms.
                let b: [f32; 4] = unsafe {
                    if B_K == 1 {
                        let four = Panel::chunk(b.cast::<Panel<f32, ROWS>>(), col, chunk);
                        load_shared::<f32x4>(four.cast()).to_array()
                    } else {
                        // Panels of 32 columns, one after the other, with a row per term.
                        let panel = b.cast::<Panel<f32, TERMS>>().add(col as usize / 32);
                        let at = |i: u32| *Panel::element(panel, first as u32 + i, col % 32);
                        [at(0), at(1), at(2), at(3)]
                    }
                };
                let mut row = 0;
                while row < A_ROWS {
                    // SAFETY: the stage is full, and has the row and the terms.
                    let a: f32x4 = unsafe { load_shared(Panel::chunk(a, row as u32, chunk).cast()) };
                    let a = a.to_array();
                    let mut i = 0;
                    while i < 4 {
                        of_run[row] = a[i].mul_add(b[i], of_run[row]);
                        i += 1;
                    }
                    row += 1;
                }
                first += 4;
            }
            ring.release_and_advance();
            k += TERMS as u32;
            if (k - part.terms[0]).is_multiple_of(RUN) || k >= part.terms[1] {
                let mut row = 0;
                while row < A_ROWS {
                    sums[row] += of_run[row];
                    of_run[row] = 0.0;
                    row += 1;
                }
            }
        }
    }
    // SAFETY: all threads execute this. The sums replace the stages after all threads are done with them, and each belongs to
    // one thread.
    unsafe {
        thread::sync_threads_aligned();
        if half < 2 {
            let mut row = 0;
            while row < A_ROWS {
                *part.sum(half, row, (tid % WARPGROUP) as usize) = sums[row];
                row += 1;
            }
        }
        part.add_up::<T>(&args, 2);
    }
}
