//! Softmax and log-softmax with one thread per row. This is fast on a CPU, where a thread that waits for others costs more
//! than it computes. On a GPU these kernels would wait for memory, so no PTX has them.
//!
//! A row is read for its maximum, for the sum, and for the result, `WIDTH` neighbouring elements at a time, which become
//! vector instructions. Sums are `f64`, so a long row loses no accuracy.
//! Requires: any `cols`; blocks of any size.

use cuda_std::half::{bf16, f16};
use cuda_std::{kernel, thread};

#[cfg(not(target_arch = "nvptx64"))]
use super::fit::{Fit, SERIAL_BLOCK};
use super::forward::ForwardArgs;
use common_kernels::element::Number;

/// Elements that a thread computes on side by side.
pub(super) const WIDTH: usize = 16;

/// Loads the elements of `row` from `start` on; `none` from `cols` on.
///
/// # Safety
/// The row has `cols` elements.
#[inline(always)]
pub(super) unsafe fn load<T: Number>(row: *const T, start: usize, cols: usize, none: f32) -> [f32; WIDTH] {
    // SAFETY: whole groups lie in the row; of the last group, only the elements before `cols` are read.
    unsafe {
        if start + WIDTH <= cols {
            return row.add(start).cast::<[T; WIDTH]>().read().map(T::to_f32);
        }
        core::array::from_fn(|j| if start + j < cols { (*row.add(start + j)).to_f32() } else { none })
    }
}

/// Writes the elements of `row` from `start` on, up to `cols`.
///
/// # Safety
/// The row has `cols` elements, which no other code uses.
#[inline(always)]
pub(super) unsafe fn store<T: Number>(row: *mut T, start: usize, cols: usize, values: [f32; WIDTH]) {
    // SAFETY: as in `load`.
    unsafe {
        if start + WIDTH <= cols {
            return row.add(start).cast::<[T; WIDTH]>().write(values.map(T::from_f32));
        }
        for j in 0..WIDTH {
            if start + j < cols {
                *row.add(start + j) = T::from_f32(values[j]);
            }
        }
    }
}

/// Returns the largest element of a row, at least the smallest number, so that a row of only -inf adds 0 and not NaN.
///
/// # Safety
/// The row has `cols` elements.
#[inline(always)]
pub(super) unsafe fn max<T: Number>(row: *const T, cols: usize) -> f32 {
    let mut max = [f32::MIN; WIDTH];
    for start in (0..cols).step_by(WIDTH) {
        // SAFETY: the row has `cols` columns.
        let x = unsafe { load(row, start, cols, f32::MIN) };
        max = core::array::from_fn(|j| max[j].max(x[j]));
    }
    max.into_iter().fold(f32::MIN, f32::max)
}

/// Returns the sum of `terms` of each group of a row of `cols` elements; `terms` is 0 for elements past the end.
#[inline(always)]
pub(super) fn sum(cols: usize, terms: impl Fn(usize) -> [f32; WIDTH]) -> f32 {
    let mut sum = [0.0; WIDTH];
    for start in (0..cols).step_by(WIDTH) {
        let terms = terms(start);
        sum = core::array::from_fn(|j| sum[j] + f64::from(terms[j]));
    }
    sum.into_iter().fold(0.0, |sum, x| sum + x) as f32
}

/// Computes softmax or log-softmax along the rows of `inp`, one thread per row.
///
/// Launched with at least `rows` threads.
///
/// # Safety
/// The launch is as described; both pointers have `rows` rows; no other code uses `out`, which may be `inp` at its stride.
#[kernel(
    cpu_only,
    args,
    facts: Fit = Fit::serial(SERIAL_BLOCK),
    instances(
        softmax_f32_serial = <f32, f32>;
        for I in [f16, bf16] {
            softmax_{I}_serial = <I>;
        }
        for O in [f16, bf16], I = f32 {
            softmax_f32_{O}_serial = <>;
        }
        for I in [f16, bf16], O = f32 {
            softmax_{I}_f32_serial = <>;
        }
    ),
)]
pub unsafe fn softmax_serial<I: Number, O: Number>(args: ForwardArgs<I, O>) {
    let (row, cols) = (thread::index_1d() as usize, args.cols as usize);
    if row >= args.rows as usize {
        return;
    }
    // SAFETY: the row lies in the matrices; only this thread writes it, and reads each group before it writes it.
    unsafe {
        let (x, y) =
            (args.inp.add(row * args.inp_stride as usize), args.out.add(row * args.out_stride as usize));
        let max = max(x, cols);
        let from_max = |start| load(x, start, cols, f32::NEG_INFINITY).map(|x| x - max);
        let sum = sum(cols, |start| from_max(start).map(|x| args.exp(x)));
        let (a, b) = args.factors(sum);
        for start in (0..cols).step_by(WIDTH) {
            let values = if args.is_log() {
                from_max(start).map(|x| x * args.scale + b)
            } else {
                from_max(start).map(|x| args.exp(x) * a)
            };
            store(y, start, cols, values);
        }
    }
}
