//! Matrix multiplication for a CPU: one thread computes a tile of the result, without waiting for any other.
//!
//! For each `DEPTH` terms the thread copies its part of A and B into panels, in the order in which the innermost loop reads
//! them. That loop holds `ROWS` x `COLS` accumulators in vector registers. The copy also converts to `f32`, transposes, and
//! pads with zeros, so one loop serves all types, layouts and edges. The panels of B stay in L2, and a panel of A in L1.

use cuda_std::half::{bf16, f16};
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::{kernel, thread};

use super::super::args::{A_TRANSPOSED, AVX512, B_TRANSPOSED, MatmulArgs, OUT_F32};
use super::super::epilogue::activate;
use common_kernels::element::Number;

mod multiply;

use multiply::multiply;

/// Rows of the accumulators in registers.
const ROWS: usize = 12;
/// Columns of the accumulators in registers: a vector of AVX-512, or two of AVX2.
const COLS: usize = 16;
/// Terms that a panel holds.
const DEPTH: usize = 144;
/// Panels whose sums are added up before they are added to the totals: a long chain of additions loses bits.
const GROUP: usize = 64;
/// Rows of a thread's tile.
pub const TILE_ROWS: usize = 8 * ROWS;
/// Columns of a thread's tile.
pub const TILE_COLS: usize = 8 * COLS;

/// Bytes of dynamic shared memory of a thread.
pub const SHARED_BYTES: usize = size_of::<Panels>();

/// The copies and the accumulators of a thread.
#[repr(C)]
#[derive(Clone, Copy)]
struct Panels {
    a: [[[f32; ROWS]; DEPTH]; TILE_ROWS / ROWS],
    b: [[[f32; COLS]; DEPTH]; TILE_COLS / COLS],
    /// Of a group of panels, then of all groups.
    sums: [[[[f32; COLS]; ROWS]; TILE_COLS / COLS]; TILE_ROWS / ROWS],
    totals: [[[[f32; COLS]; ROWS]; TILE_COLS / COLS]; TILE_ROWS / ROWS],
}

/// Multiplies the arguments' matrices; `a` and `b` are stored as the flags state. `splits` is not read.
///
/// Launched with blocks of one thread and [`SHARED_BYTES`] of dynamic shared memory: one block per [`TILE_ROWS`] rows along
/// x, per [`TILE_COLS`] columns along y, and per matrix of the batch along z.
///
/// # Safety
/// The launch is as described. The matrices match their shapes, pitches and batches, and no other code uses `out`.
#[kernel(
    max_threads = 1,
    cpu_only,
    args,
    instances(
        matmul_f32_serial = <f32>;
        matmul_f16_serial = <f16>;
        matmul_bf16_serial = <bf16>;
    ),
)]
pub unsafe fn matmul_serial<T: Number>(args: MatmulArgs<T>) {
    let panels = dynamic_shared_mem::<Panels>();
    let row = thread::block_idx_x() as usize * TILE_ROWS;
    let col = thread::block_idx_y() as usize * TILE_COLS;
    let batch = u64::from(thread::block_idx_z());
    let (rows, cols) = (TILE_ROWS.min(args.m as usize - row), TILE_COLS.min(args.n as usize - col));
    let (panel_rows, panel_cols) = (rows.div_ceil(ROWS), cols.div_ceil(COLS));
    let strides =
        |pitch: u64, transposed: bool| if transposed { [1, pitch as usize] } else { [pitch as usize, 1] };
    let a_strides = strides(args.a_pitch, args.has(A_TRANSPOSED));
    let b_strides = strides(args.b_pitch, args.has(B_TRANSPOSED));
    // SAFETY: the panels are the thread's own, and the matrices have the first row and column.
    let (a, b) = unsafe {
        let a = args.a.add((batch * args.a_batch) as usize + row * a_strides[0]);
        let b = args.b.add((batch * args.b_batch) as usize + col * b_strides[1]);
        for i in 0..panel_rows {
            for j in 0..panel_cols {
                (&raw mut (*panels).sums[i][j]).write([[0.0; COLS]; ROWS]);
                (&raw mut (*panels).totals[i][j]).write([[0.0; COLS]; ROWS]);
            }
        }
        (a, b)
    };
    // SAFETY: the panels are the thread's own, and every element below lies in its matrix.
    unsafe {
        for k in (0..args.k as usize).step_by(DEPTH) {
            let depth = DEPTH.min(args.k as usize - k);
            for i in 0..panel_rows {
                let (from, left) = (a.add(i * ROWS * a_strides[0] + k * a_strides[1]), rows - i * ROWS);
                copy_panel(&raw mut (*panels).a[i], from, [a_strides[1], a_strides[0]], [depth, left]);
            }
            for j in 0..panel_cols {
                let (from, left) = (b.add(k * b_strides[0] + j * COLS * b_strides[1]), cols - j * COLS);
                copy_panel(&raw mut (*panels).b[j], from, b_strides, [depth, left]);
            }
            for j in 0..panel_cols {
                for i in 0..panel_rows {
                    let sums = &mut (*panels).sums[i][j];
                    let (a, b) = (&(&(*panels).a[i])[..depth], &(&(*panels).b[j])[..depth]);
                    multiply(sums, a, b, args.has(AVX512));
                }
            }
            // Also after the last panel, so that the totals are the results.
            if (k / DEPTH + 1).is_multiple_of(GROUP) || k + DEPTH >= args.k as usize {
                for i in 0..panel_rows {
                    for j in 0..panel_cols {
                        let (totals, sums) = (&mut (*panels).totals[i][j], &mut (*panels).sums[i][j]);
                        for (total, sum) in totals.as_flattened_mut().iter_mut().zip(sums.as_flattened_mut())
                        {
                            *total += core::mem::take(sum);
                        }
                    }
                }
            }
        }
        for r in 0..rows {
            for j in 0..panel_cols {
                let sums = &(*panels).totals[r / ROWS][j][r % ROWS];
                store(&args, batch, row + r, col + j * COLS, &sums[..COLS.min(cols - j * COLS)]);
            }
        }
    }
}

/// Copies `[depth, left]` elements with these strides, at most `WIDTH` of each term, and pads with zeros.
///
/// # Safety
/// The elements are valid, and the panel is writable.
#[inline(always)]
unsafe fn copy_panel<T: Number, const WIDTH: usize>(
    panel: *mut [[f32; WIDTH]; DEPTH],
    from: *const T,
    strides: [usize; 2],
    [depth, left]: [usize; 2],
) {
    // SAFETY: the matrix has the elements; terms and columns lie in the panel.
    unsafe {
        for k in 0..depth {
            let to = (&raw mut (*panel)[k]).cast::<f32>();
            let from = from.add(k * strides[0]);
            if left >= WIDTH && strides[1] == 1 {
                for i in 0..WIDTH {
                    to.add(i).write((*from.add(i)).to_f32());
                }
            } else if left >= WIDTH {
                for i in 0..WIDTH {
                    to.add(i).write((*from.add(i * strides[1])).to_f32());
                }
            } else {
                for i in 0..WIDTH {
                    to.add(i).write(if i < left { (*from.add(i * strides[1])).to_f32() } else { 0.0 });
                }
            }
        }
    }
}

/// Writes the results of neighbours in a row.
///
/// # Safety
/// The results lie in the matrix, and no other code uses them.
#[inline(always)]
unsafe fn store<T: Number>(args: &MatmulArgs<T>, batch: u64, row: usize, col: usize, sums: &[f32]) {
    let at = (batch * args.out_batch) as usize + row * args.out_pitch as usize + col;
    let residual_at = (batch * args.residual_batch) as usize + row * args.residual_pitch as usize + col;
    for (i, &sum) in sums.iter().enumerate() {
        let mut x = args.alpha * sum;
        // SAFETY: the element lies in each of the matrices.
        unsafe {
            if !args.bias.is_null() {
                x += (*args.bias.add(col + i)).to_f32();
            }
            if !args.residual.is_null() {
                x += match args.has(OUT_F32) {
                    true => *args.residual.cast::<f32>().add(residual_at + i),
                    false => (*args.residual.cast::<T>().add(residual_at + i)).to_f32(),
                };
            }
            let [x, ..] = activate([x; 4], args.flags);
            match args.has(OUT_F32) {
                true => *args.out.cast::<f32>().add(at + i) = x,
                false => *args.out.cast::<T>().add(at + i) = T::from_f32(x),
            }
        }
    }
}
