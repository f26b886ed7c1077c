//! Stores the terms of a sum next to each other: as a copy of an `f32` operand, or split into a TF32 number and the remainder.
//@ ptx(matmul_split_f32, compute_90+): bar.sync == 1, .local == 0, cvt.rna.tf32.f32 >= 1

use cuda_std::{KernelArgs, kernel, shared_array, thread};

use super::super::args::begin;

use super::super::operand::big_and_small;

/// Rows and columns of a block's tile.
pub const SIDE: u32 = 32;
/// Rows that the threads copy at a time.
const ROWS: u32 = 8;
/// Elements of the tile in shared memory.
const TILE: usize = (SIDE * (SIDE + 1)) as usize;

/// A matrix or a batch of them, and the destination of its parts.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct SplitArgs {
    /// `[batch, parts, rows, pitch]`: for each matrix the numbers, or the big parts of its numbers, then the small ones.
    pub out: *mut f32,
    /// `[rows, terms]` for each matrix, or its transpose.
    pub inp: *const f32,
    /// Elements from one row of `out` to the next.
    pub out_pitch: u64,
    /// Elements from a stored row of `inp` to the next.
    pub inp_pitch: u64,
    /// Elements from a matrix of `inp` to the next.
    pub inp_batch: u64,
    /// Rows of A, or columns of B.
    pub rows: u32,
    /// Terms of a sum.
    pub terms: u32,
    /// 1 if `inp` is stored as `[terms, rows]`, otherwise 0.
    pub is_transposed: u32,
}

/// Writes each number, or with `PARTS` of 2 both parts of it.
///
/// Launched with blocks of 32 x 8 threads: one block per [`SIDE`] terms along x, per [`SIDE`] rows along y, and per matrix
/// along z.
///
/// # Safety
/// The launch is as described, and the matrices match the arguments. No other code uses `out`.
#[kernel(
    max_threads = 256,
    min_arch = 90,
    args,
    instances(
        matmul_split_f32 = <2>;
        matmul_transpose_f32 = <1>;
    ),
)]
pub unsafe fn matmul_split<const PARTS: usize>(args: SplitArgs) {
    // A row has one element of padding, so that the columns lie in different banks.
    let tile = shared_array![f32; TILE];
    begin();
    let [x, y] = [thread::thread_idx_x(), thread::thread_idx_y()];
    let (k0, row0, batch) =
        (thread::block_idx_x() * SIDE, thread::block_idx_y() * SIDE, u64::from(thread::block_idx_z()));
    let is_transposed = args.is_transposed != 0;
    let place = |r: u32, c: u32| (r * (SIDE + 1) + c) as usize;
    // SAFETY: the elements lie in the matrices. One thread writes each element of the tile before all threads synchronise.
    unsafe {
        let inp = args.inp.wrapping_add((batch * args.inp_batch) as usize);
        let mut i = y;
        while i < SIDE {
            let [r, c] = if is_transposed { [k0 + i, row0 + x] } else { [row0 + i, k0 + x] };
            let [rows, cols] = if is_transposed { [args.terms, args.rows] } else { [args.rows, args.terms] };
            let is_inside = r < rows && c < cols;
            let at = (u64::from(r) * args.inp_pitch) as usize + c as usize;
            *tile.add(place(i, x)) = if is_inside { *inp.add(at) } else { 0.0 };
            i += ROWS;
        }
        thread::sync_threads_aligned();
        let mut i = y;
        while i < SIDE {
            let (r, k) = (row0 + i, k0 + x);
            let number = *tile.add(if is_transposed { place(x, i) } else { place(i, x) });
            if r < args.rows && k < args.terms {
                let matrix = u64::from(args.rows) * args.out_pitch;
                let at = PARTS as u64 * batch * matrix + u64::from(r) * args.out_pitch + u64::from(k);
                if PARTS == 2 {
                    let [big, small] = big_and_small(number.to_bits()).map(f32::from_bits);
                    *args.out.add(at as usize) = big;
                    *args.out.add((at + matrix) as usize) = small;
                } else {
                    *args.out.add(at as usize) = number;
                }
            }
            i += ROWS;
        }
    }
}
