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
//! * `run_time_8`, `unrolled_8`: the same with eight elements loaded before the first is stored, so that latency counts less.
//!
//! Requires: blocks of 256 threads; any shape.
//@ ptx(register_arrays_run_time): .local >= 2
//@ ptx(register_arrays_shifted): .local == 0
//@ ptx(register_arrays_unrolled): .local == 0
//@ ptx(register_arrays_run_time_8): .local >= 2
//@ ptx(register_arrays_unrolled_8): .local == 0
//@ allow-local(register_arrays_run_time): an array that is indexed at run time is what the lesson is about
//@ allow-local(register_arrays_run_time_8): an array that is indexed at run time is what the lesson is about

use cuda_std::hint::opaque;
use cuda_std::{kernel, thread};

lesson! {
    buffers(out: f32, inp: f32)
    values(rows: u32, cols: u32)
    facts(Grid)
    "run_time" = ring_at_run_time[0]: "a ring with an index known at run time";
    "shifted" = register_arrays_shifted[0]: "every element moves a slot on";
    "unrolled" = ring_unrolled[0]: "a turn for the whole ring";
    "run_time_8" = ring_at_run_time[1]: "as run_time, eight loads in flight";
    "unrolled_8" = ring_unrolled[1]: "as unrolled, eight loads in flight";
}

/// Rows from an element to the one that is subtracted from it.
const LAST: usize = 32;

/// Returns element `col` of rows `first` to `first + AHEAD`, or 0 for a row that does not exist.
///
/// # Safety
/// `inp` is `[rows, cols]`, and `col` is below `cols`.
#[inline(always)]
unsafe fn load<const AHEAD: usize>(
    inp: *const f32,
    first: usize,
    col: usize,
    [rows, cols]: [usize; 2],
) -> [f32; AHEAD] {
    core::array::from_fn(|k| {
        // SAFETY: row and column lie in the matrix.
        if first + k < rows { unsafe { *inp.add((first + k) * cols + col) } } else { 0.0 }
    })
}

/// Computes `out[row][col]`: `inp[row][col]` less `inp[row - 32][col]`, or less 0 without such a row; both `[rows, cols]`. A thread
/// loads `AHEAD` elements before it stores the first.
///
/// Launched with at least `cols` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; both hold `rows * cols` elements, and no other code uses the elements of `out`.
#[kernel(
    max_threads = 256,
    args = Arguments,
    facts: Grid = Grid::threads::<256, 1>(),
    instances(
        register_arrays_run_time = <1>;
        register_arrays_run_time_8 = <8>;
    ),
)]
pub unsafe fn ring_at_run_time<const AHEAD: usize>(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (col, rows, cols) = (thread::index_1d() as usize, rows as usize, cols as usize);
    if col < cols {
        let mut last = [0.0; LAST];
        let mut first = 0;
        while first < rows {
            // SAFETY: the column lies in the matrix.
            let x_reg: [f32; AHEAD] = unsafe { load(inp, first, col, [rows, cols]) };
            for k in 0..AHEAD {
                let row = first + k;
                if row < rows {
                    // SAFETY: row and column lie in the matrix, and only this thread writes the element.
                    unsafe { *out.add(row * cols + col) = x_reg[k] - last[row % LAST] };
                    last[row % LAST] = x_reg[k];
                }
            }
            // The compiler must not unroll the loop, or it would know the index.
            first = opaque(first + AHEAD);
        }
    }
}

/// Like [`ring_at_run_time`](fn@ring_at_run_time), but every element moves a slot on.
///
/// # Safety
/// Same as for [`ring_at_run_time`](fn@ring_at_run_time).
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

/// Like [`ring_at_run_time`](fn@ring_at_run_time), but an iteration of the loop goes once around the ring.
///
/// # Safety
/// Same as for [`ring_at_run_time`](fn@ring_at_run_time).
#[kernel(
    max_threads = 256,
    args = Arguments,
    facts: Grid = Grid::threads::<256, 1>(),
    instances(
        register_arrays_unrolled = <1>;
        register_arrays_unrolled_8 = <8>;
    ),
)]
pub unsafe fn ring_unrolled<const AHEAD: usize>(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (col, rows, cols) = (thread::index_1d() as usize, rows as usize, cols as usize);
    if col < cols {
        let mut last = [0.0; LAST];
        let mut first = 0;
        while first < rows {
            for group in 0..LAST / AHEAD {
                // SAFETY: the column lies in the matrix.
                let x_reg: [f32; AHEAD] = unsafe { load(inp, first + group * AHEAD, col, [rows, cols]) };
                for k in 0..AHEAD {
                    let slot = group * AHEAD + k;
                    if first + slot < rows {
                        // SAFETY: row and column lie in the matrix, and only this thread writes the element.
                        unsafe { *out.add((first + slot) * cols + col) = x_reg[k] - last[slot] };
                        last[slot] = x_reg[k];
                    }
                }
            }
            first = opaque(first + LAST);
        }
    }
}
