//! A thread's own array: in registers, if every index is known at compile time.
//!
//! Registers have no addresses: an instruction names them. An array whose index is only known at run time needs addresses,
//! and so lies in local memory: a part of global memory for each thread, cached in L1. The kernels keep the last 32 elements
//! of a column in such an array, and store the difference of each element to the one 32 rows above it.
//!
//! * `run_time`: a ring; the newest element replaces the oldest at `row % 32`. One load from local memory and one store to
//!   it per element. (An array of 8 would stay in registers even so: ptxas turns every access into eight comparisons and
//!   moves.)
//! * `shifted`: each element moves one slot on, so all indices are known; 31 moves.
//! * `unrolled`: 32 rows per iteration, so `row % 32` is known in each of them. Nothing moves.
//!
//! Requires: blocks of 256 threads; any shape.
//@ ptx(register_arrays_run_time): .local >= 2
//@ ptx(register_arrays_shifted): .local == 0
//@ ptx(register_arrays_unrolled): .local == 0
//@ allow-local(register_arrays_run_time): an array that is indexed at run time is what the lesson is about

use cuda_std::hint::opaque;
use cuda_std::{kernel, thread};

lesson! {
    buffers(out: f32, inp: f32)
    values(rows: u32, cols: u32)
    facts(Grid)
    "run_time" = register_arrays_run_time[0]: "a ring with an index known at run time";
    "shifted" = register_arrays_shifted[0]: "every element moves a slot on";
    "unrolled" = register_arrays_unrolled[0]: "a turn for the whole ring";
}

/// Rows from an element to the one that is subtracted from it.
const LAST: usize = 32;

/// Computes `out[row][col]`: `inp[row][col]` less `inp[row - 32][col]`, or less 0 without such a row; both `[rows, cols]`.
///
/// Launched with at least `cols` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; both hold `rows * cols` elements, and no other code uses the elements of `out`.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn register_arrays_run_time(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (col, rows, cols) = (thread::index_1d() as usize, rows as usize, cols as usize);
    if col < cols {
        let mut last = [0.0; LAST];
        let mut row = 0;
        while row < rows {
            let i = row * cols + col;
            // SAFETY: row and column lie in both matrices, and only this thread writes the element.
            unsafe {
                let x = *inp.add(i);
                *out.add(i) = x - last[row % LAST];
                last[row % LAST] = x;
            }
            // The compiler must not unroll the loop, or it would know the index.
            row = opaque(row + 1);
        }
    }
}

/// Like [`register_arrays_run_time`](fn@register_arrays_run_time), but every element moves a slot on.
///
/// # Safety
/// Same as for [`register_arrays_run_time`](fn@register_arrays_run_time).
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn register_arrays_shifted(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (col, rows, cols) = (thread::index_1d() as usize, rows as usize, cols as usize);
    if col < cols {
        let mut last = [0.0; LAST];
        let mut row = 0;
        while row < rows {
            let i = row * cols + col;
            // SAFETY: row and column lie in both matrices, and only this thread writes the element.
            unsafe {
                let x = *inp.add(i);
                *out.add(i) = x - last[0];
                for slot in 1..LAST {
                    last[slot - 1] = last[slot];
                }
                last[LAST - 1] = x;
            }
            row = opaque(row + 1);
        }
    }
}

/// Like [`register_arrays_run_time`](fn@register_arrays_run_time), but an iteration of the loop goes once around the ring.
///
/// # Safety
/// Same as for [`register_arrays_run_time`](fn@register_arrays_run_time).
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn register_arrays_unrolled(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (col, rows, cols) = (thread::index_1d() as usize, rows as usize, cols as usize);
    if col < cols {
        let mut last = [0.0; LAST];
        let mut first = 0;
        while first < rows {
            for slot in 0..LAST {
                let i = (first + slot) * cols + col;
                if first + slot < rows {
                    // SAFETY: row and column lie in both matrices, and only this thread writes the element.
                    unsafe {
                        let x = *inp.add(i);
                        *out.add(i) = x - last[slot];
                        last[slot] = x;
                    }
                }
            }
            first = opaque(first + LAST);
        }
    }
}
