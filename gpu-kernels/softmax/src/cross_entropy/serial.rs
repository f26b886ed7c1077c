//! Rows of any width, one thread per row.

use cuda_std::mem::f32x2;
use cuda_std::thread;

use super::args::CrossEntropyArgs;
use super::first_max::first_of;
use crate::forward::exp;
use crate::serial::{WIDTH, load, max, store, sum};
use common_kernels::element::Number;

/// Computes the cross entropy of this thread's row: reads it for its maximum, for the sum and for the gradient.
///
/// # Safety
/// Same as for the kernels.
#[inline(always)]
pub(super) unsafe fn serial<T: Number>(_: *mut f32x2, _: *mut u32, args: CrossEntropyArgs<T>) {
    let (row, [rows, cols]) = (thread::index_1d() as usize, [args.rows as usize, args.cols as usize]);
    if row >= rows {
        return;
    }
    // SAFETY: the row lies in the matrices. Only this thread writes it, and reads each group before it writes it; the row's
    // results are written before its gradient.
    unsafe {
        let x = args.logits.add(row * args.stride as usize);
        let target = args.target(row);
        // A row whose logits affect no result is treated as empty.
        let read = if args.needs_logits(target) { cols } else { 0 };
        let max = max(x, read);
        let exps = |start| load(x, start, read, f32::NEG_INFINITY).map(|x| exp::<T>(x - max, 1.0));
        let sum = sum(read, exps);
        let first = if args.wants_correct() { first_equal(x, read, max) } else { u32::MAX };
        args.write_results(row, target, args.logit(row, target), f32x2::new(max, sum), first);
        if !args.wants_gradient() {
            return;
        }
        let gradient = args.gradient(row, target, sum);
        let d_x = args.d_logits.add(row * args.d_stride as usize);
        for start in (0..cols).step_by(WIDTH) {
            store(d_x, start, cols, gradient.of(exps(start), start));
        }
    }
}

/// Returns the column of the row's first element that equals `max`, or `u32::MAX` if none does.
///
/// # Safety
/// The row has `cols` elements.
#[inline(always)]
unsafe fn first_equal<T: Number>(row: *const T, cols: usize, max: f32) -> u32 {
    for start in (0..cols).step_by(WIDTH) {
        // SAFETY: the row has `cols` columns. NaN equals nothing.
        let first = first_of(unsafe { load(row, start, cols, f32::NAN) }, max, start);
        if first < u32::MAX {
            return first;
        }
    }
    u32::MAX
}
