//! Rows of any width, one thread per row.

use cuda_std::thread;

use super::rows::BackwardArgs;
use crate::forward::exp;
use crate::serial::{WIDTH, load, store, sum};
use common_kernels::element::Number;

/// Computes the gradient of this thread's row: reads it once for the sum and once for the result.
///
/// # Safety
/// Same as for the kernels.
#[inline(always)]
pub(super) unsafe fn serial<T: Number>(args: BackwardArgs<T>) {
    let (row, [rows, cols]) = (thread::index_1d() as usize, [args.rows as usize, args.cols as usize]);
    if row >= rows {
        return;
    }
    // SAFETY: the row lies in the matrices; only this thread writes it, and reads each group before it writes it.
    unsafe {
        let dx = args.dx.add(row * args.dx_stride as usize);
        let (dy, y) = (args.dy.add(row * args.dy_stride as usize), args.y.add(row * args.y_stride as usize));
        let at = |start| (load(dy, start, cols, 0.0), load(y, start, cols, 0.0));
        let sum = sum(cols, |start| {
            let (dy, y) = at(start);
            core::array::from_fn(|j| if args.is_log() { dy[j] } else { dy[j] * y[j] })
        });
        for start in (0..cols).step_by(WIDTH) {
            let (dy, y) = at(start);
            let gradient = |j: usize| {
                let of_one =
                    if args.is_log() { dy[j] - exp::<T>(y[j], 1.0) * sum } else { y[j] * (dy[j] - sum) };
                of_one * args.scale
            };
            store(dx, start, cols, core::array::from_fn(gradient));
        }
    }
}
