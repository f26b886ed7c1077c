//! Rows of any width, each of one thread.

use cuda_std::thread;

use super::rows::Given;
use crate::element::Number;
use crate::softmax::forward::Options;
use crate::softmax::serial::{WIDTH, load, store, sum};

/// This thread's row, read once for the sum and once for the result.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
pub(super) unsafe fn serial<T: Number>(given: Given<T>) {
    let (row, [rows, cols]) = (thread::index_1d() as usize, given.shape.map(|extent| extent as usize));
    if row >= rows {
        return;
    }
    let options = Options { scale: 1.0, flags: 0, ahead: 0 };
    // SAFETY: the row is one of the matrices; this thread alone writes it, each group after it has read it.
    unsafe {
        let dx = given.dx.data.add(row * given.dx.stride as usize);
        let (dy, y) = (
            given.dy.data.add(row * given.dy.stride as usize),
            given.y.data.add(row * given.y.stride as usize),
        );
        let at = |start| (load(dy, start, cols, 0.0), load(y, start, cols, 0.0));
        let sum = sum(cols, |start| {
            let (dy, y) = at(start);
            core::array::from_fn(|j| if given.is_log { dy[j] } else { dy[j] * y[j] })
        });
        for start in (0..cols).step_by(WIDTH) {
            let (dy, y) = at(start);
            let gradient = |j: usize| {
                let of_one =
                    if given.is_log { dy[j] - options.exp::<T>(y[j]) * sum } else { y[j] * (dy[j] - sum) };
                of_one * given.scale
            };
            store(dx, start, cols, core::array::from_fn(gradient));
        }
    }
}
