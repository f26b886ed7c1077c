//! Rows of few columns.

use cuda_std::mem::f32x2;
use cuda_std::thread;

use super::arguments::{Given, PLAIN};
use super::hits::first_of;
use crate::element::Number;

/// The most columns.
const MOST: usize = 16;

/// Rows of up to [`MOST`] columns, each of one thread.
///
/// Not what this costs in idle lanes, but what it spares in shuffles decides for so few columns.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
pub(super) unsafe fn narrow<T: Number, const BLOCK: usize>(_: *mut f32x2, _: *mut u32, given: Given<T>) {
    let (block, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let (row, [rows, cols]) = (block * BLOCK + tid, given.shape.map(|extent| extent as usize));
    if row >= rows {
        return;
    }
    // SAFETY: the row is one of the matrices, and this thread alone writes it; it has read all before it writes.
    unsafe {
        let x = given.logits.data.add(row * given.logits.stride as usize);
        let get = |col: usize| if col < cols { (*x.add(col)).to_f32() } else { f32::NEG_INFINITY };
        let x_reg: [f32; MOST] = core::array::from_fn(get);
        let target = given.target(row);
        let logit = given.logit(row, target);
        let max = x_reg.into_iter().fold(f32::MIN, f32::max);
        let mut y_reg = [0.0; MOST];
        for col in 0..MOST {
            if col < cols {
                y_reg[col] = PLAIN.exp::<T>(x_reg[col] - max);
            }
        }
        let sum = y_reg.into_iter().fold(0.0, |sum, y| sum + y);
        given.write_results(row, target, logit, f32x2::new(max, sum), first_of(x_reg, max, 0));
        if given.wants_gradient() {
            let d_reg = given.gradient(row, target, sum).of(y_reg, 0);
            let d_x = given.d_logits.data.add(row * given.d_logits.stride as usize);
            for col in 0..MOST {
                if col < cols {
                    *d_x.add(col) = T::from_f32(d_reg[col]);
                }
            }
        }
    }
}
