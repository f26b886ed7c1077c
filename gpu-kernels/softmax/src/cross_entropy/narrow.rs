//! Rows of few columns.

use cuda_std::mem::f32x2;
use cuda_std::thread;

use super::args::CrossEntropyArgs;
use super::first_max::first_of;
use crate::forward::exp;
use common_kernels::element::Number;

/// The largest number of columns.
const MOST: usize = 16;

/// Computes the cross entropy of rows of up to [`MOST`] columns, one thread per row.
///
/// Up to 16 columns, the saved shuffles outweigh the idle lanes.
///
/// # Safety
/// Same as for the kernels.
#[inline(always)]
pub(super) unsafe fn narrow<T: Number, const BLOCK: usize>(
    _: *mut f32x2,
    _: *mut u32,
    args: CrossEntropyArgs<T>,
) {
    let (block, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let (row, [rows, cols]) = (block * BLOCK + tid, [args.rows as usize, args.cols as usize]);
    if row >= rows {
        return;
    }
    // SAFETY: the row lies in the matrices, and only this thread writes it, after it has read everything.
    unsafe {
        let x = args.logits.add(row * args.stride as usize);
        let get = |col: usize| if col < cols { (*x.add(col)).to_f32() } else { f32::NEG_INFINITY };
        let x_reg: [f32; MOST] = core::array::from_fn(get);
        let target = args.target(row);
        let logit = args.logit(row, target);
        let max = x_reg.into_iter().fold(f32::MIN, f32::max);
        let mut y_reg = [0.0; MOST];
        for col in 0..MOST {
            if col < cols {
                y_reg[col] = exp::<T>(x_reg[col] - max, 1.0);
            }
        }
        let sum = y_reg.into_iter().fold(0.0, |sum, y| sum + y);
        args.write_results(row, target, logit, f32x2::new(max, sum), first_of(x_reg, max, 0));
        if args.wants_gradient() {
            let d_reg = args.gradient(row, target, sum).of(y_reg, 0);
            let d_x = args.d_logits.add(row * args.d_stride as usize);
            for col in 0..MOST {
                if col < cols {
                    *d_x.add(col) = T::from_f32(d_reg[col]);
                }
            }
        }
    }
}
