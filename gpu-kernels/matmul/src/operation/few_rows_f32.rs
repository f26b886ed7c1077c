//! Multiplications with few rows of `f32`, without tensor cores (compute capability 9.0, `compute_90a`).
//!
//! Up to 8 rows, the FP32 units keep up with the memory, and the sums are those of `f32`. Stages and splits are those of
//! [`super::few_rows`]. A lane has four columns of B and up to four rows of A, because 16 bytes of A that all lanes read take as
//! long as 16 bytes of B for each. The warps share a stage's terms, and beyond four rows also the rows.
//!
//! The instances are the tuning table: rows of A, and stages.
//@ ptx(matmul_f32_kk_8x128c, compute_90a): fma.rn.f32 >= 32, .local == 0
//@ ptx(matmul_f32_kn_8x128c, compute_90a): fma.rn.f32 >= 32, .local == 0

use cuda_std::GpuFloat as _;
use cuda_std::mem::{f32x4, load_shared, store_shared};
use cuda_std::wgmma::Panel;
use cuda_std::{kernel, thread};

use super::super::args::MatmulArgs;
use super::super::epilogue::unrolled;
#[cfg(not(target_arch = "nvptx64"))]
use super::FewRowsShape;
use super::few_rows::{Part, THREADS, shared_bytes};
use super::warpgroup_work::{ROWS as COLS, terms};
use common_kernels::element::Output;

/// Terms of a chunk, which a warp takes at a time.
const CHUNK: u32 = 4;
/// Chunks of a stage.
const CHUNKS: u32 = terms(4) as u32 / CHUNK;
/// Stages whose terms are added up on their own before their sums are added to the others: a long chain of additions loses bits.
const RUN: u32 = 8;
/// Warps that multiply.
const WARPS: u32 = THREADS / 32 - 1;

/// Multiplies the arguments' matrices. Launched like [`matmul_few_rows`](fn@super::few_rows::matmul_few_rows).
///
/// # Safety
/// Same as for `matmul_few_rows`.
#[kernel(
    max_threads = 288,
    min_blocks = 2,
    arch = "90a",
    args,
    facts: FewRowsShape = FewRowsShape::new(A_ROWS, B_K, 4, shared_bytes(A_ROWS, STAGES, WARPS as usize)).without_tensor_cores(),
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
    // SAFETY: all threads of the block execute this, with the kernel's arguments. The last warp copies, and the others, all of
    // whose threads multiply the same rows, use each stage.
    unsafe {
        let part = Part::<STAGES>::new::<T>(&args, A_ROWS);
        if thread::thread_idx_x() / 32 == WARPS {
            part.copy_stages::<T, B_K>(&args);
        } else {
            match part.rows(&args) {
                1 => multiply::<B_K, 1, WARPS, STAGES>(&part),
                2 => multiply::<B_K, 2, WARPS, STAGES>(&part),
                3 | 4 => multiply::<B_K, 4, WARPS, STAGES>(&part),
                _ => multiply::<B_K, 4, { WARPS / 2 }, STAGES>(&part),
            }
        }
        part.add_up::<T>(&args);
    }
}

/// Writes the sums of the part: `ROWS` rows for each `SHARERS` warps, which share the terms.
///
/// # Safety
/// All warps but the copying one call this.
#[inline(always)]
unsafe fn multiply<const B_K: usize, const ROWS: usize, const SHARERS: u32, const STAGES: usize>(
    part: &Part<STAGES>,
) {
    let (warp, lane) = (thread::thread_idx_x() / 32, thread::thread_idx_x() % 32);
    let (first_row, sharer) = (warp / SHARERS * ROWS as u32, warp % SHARERS);
    let (mut sums, mut of_run) = ([[0.0f32; 4]; ROWS], [[0.0f32; 4]; ROWS]);
    let (mut ring, mut k) = (part.ring, part.terms[0]);
    while k < part.terms[1] {
        ring.wait_full();
        let (a, b) = (part.a(ring.stage()).cast::<Panel<f32, 8>>(), part.b(ring.stage()));
        unrolled!(i, CHUNKS / SHARERS, {
            let chunk = sharer + SHARERS * i as u32;
            // Four terms of a column, or four columns of a term, in panels of 32 columns.
            let four = |i: u32| {
                let at = match B_K {
                    1 => Panel::chunk(b.cast::<Panel<f32, COLS>>(), lane + 32 * i, chunk),
                    _ => {
                        let panel = b.cast::<Panel<f32, { terms(4) }>>().wrapping_add(lane as usize / 8);
                        Panel::chunk(panel, CHUNK * chunk + i, lane % 8)
                    }
                };
                // SAFETY: the stage is full, and has the columns and the terms.
                unsafe { load_shared::<f32x4>(at.cast()).to_array() }
            };
            let b = [four(0), four(1), four(2), four(3)];
            unrolled!(row, ROWS, {
                // SAFETY: the stage is full, and has the row and the terms.
                let a: f32x4 = unsafe { load_shared(Panel::chunk(a, first_row + row as u32, chunk).cast()) };
                let a = a.to_array();
                for col in 0..4 {
                    for term in 0..4 {
                        let b = if B_K == 1 { b[col][term] } else { b[term][col] };
                        of_run[row % ROWS][col] = a[term].mul_add(b, of_run[row % ROWS][col]);
                    }
                }
            });
        });
        ring.release_and_advance();
        k += const { terms(4) as u32 };
        if (k - part.terms[0]).is_multiple_of(RUN * terms(4) as u32) || k >= part.terms[1] {
            unrolled!(row, ROWS, {
                for col in 0..4 {
                    sums[row % ROWS][col] += of_run[row % ROWS][col];
                    of_run[row % ROWS][col] = 0.0;
                }
            });
        }
    }
    // SAFETY: all the warps execute this. Their sums replace the stages after all are done with them. One thread writes each sum
    // before the barrier, and one replaces that of the first warp by the total.
    unsafe {
        thread::sync_named_aligned(1, 32 * WARPS);
        unrolled!(row, ROWS, {
            for col in 0..4 {
                let c = if B_K == 1 { lane as usize + 32 * col } else { 4 * lane as usize + col };
                *part.sum(sharer, first_row as usize + row, c) = sums[row % ROWS][col];
            }
        });
        thread::sync_named_aligned(1, 32 * WARPS);
        if warp < ROWS as u32 * (WARPS / SHARERS) {
            let at = |of: u32| part.sum(of, warp as usize, 4 * lane as usize).cast::<f32x4>();
            let mut total = [0.0f32; 4];
            for of in 0..SHARERS {
                let four = load_shared::<f32x4>(at(of)).to_array();
                for i in 0..4 {
                    total[i] += four[i];
                }
            }
            store_shared(at(0), f32x4::from(total));
        }
    }
}
