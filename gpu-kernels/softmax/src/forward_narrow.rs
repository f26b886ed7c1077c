//! Softmax and log-softmax of narrow rows: a few lanes hold a row, and each thread has its part of several rows.
//!
//! In [`super::forward`] rows of one or two vectors leave most of their lanes idle, and blocks of two warps end before the
//! device has started the next ones.
//!
//! Rows of whole, aligned vectors are read and written as vectors; other rows element by element.

use cuda_std::mem::{load_global, u32x4};
use cuda_std::thread;
use cuda_std::warp::{reduce_max_width, reduce_sum_width};

use super::forward::{ForwardArgs, sum_of};
use super::row::row_or_empty;
use common_kernels::element::{Element, Output, VECTOR_ALIGN};

impl<I, O> ForwardArgs<I, O> {
    /// Returns whether each row of both matrices consists of whole, aligned vectors.
    #[inline(always)]
    fn has_whole_vectors<const N: usize>(&self) -> bool
    where
        I: Element<N>,
        O: Output<N>,
    {
        let strides = (self.inp_stride | self.out_stride) as usize;
        let is_aligned =
            self.inp.addr().is_multiple_of(VECTOR_ALIGN) && self.out.addr().is_multiple_of(O::ALIGN);
        is_aligned && (strides | self.cols as usize).is_multiple_of(N)
    }

    /// Loads the elements of a row from a column on; -inf past the end. With `is_whole` they are an aligned vector.
    ///
    /// # Safety
    /// Same as for the kernels.
    #[inline(always)]
    unsafe fn load_from<const N: usize>(&self, [row, col]: [usize; 2], is_whole: bool) -> u32x4
    where
        I: Element<N>,
    {
        let [row, cols] = row_or_empty(row, [self.rows, self.cols]);
        // SAFETY: every access lies in the row; with `is_whole` the row consists of aligned vectors.
        unsafe {
            let inp = self.inp.add(row * self.inp_stride as usize);
            if is_whole {
                return if col < cols { load_global(inp.add(col).cast()) } else { I::NEG_INFINITY };
            }
            let of_col = |col| if col < cols { *inp.add(col) } else { I::from_f32(f32::NEG_INFINITY) };
            core::mem::transmute_copy::<[I; N], u32x4>(&core::array::from_fn(|j| of_col(col + j)))
        }
    }

    /// Writes the elements of a row from a column on, up to its end.
    ///
    /// # Safety
    /// Same as for [`Self::load_from`]; no other code uses the elements.
    #[inline(always)]
    unsafe fn store_from<const N: usize>(&self, [row, col]: [usize; 2], values: [f32; N], is_whole: bool)
    where
        I: Element<N>,
        O: Output<N>,
    {
        let [row, cols] = row_or_empty(row, [self.rows, self.cols]);
        // SAFETY: as above.
        unsafe {
            let out = self.out.add(row * self.out_stride as usize);
            if is_whole {
                if col < cols {
                    O::store(out.add(col), values);
                }
                return;
            }
            for j in 0..N {
                if col + j < cols {
                    *out.add(col + j) = O::from_f32(values[j]);
                }
            }
        }
    }
}

/// Computes the softmax of the block's rows: each of `BLOCK / LANES` groups of lanes has `ROWS` of them.
///
/// # Safety
/// Same as for the kernels.
#[inline(always)]
pub(super) unsafe fn softmax<
    I,
    O,
    const N: usize,
    const BLOCK: usize,
    const LANES: usize,
    const WIDTH: u32,
    const VECTORS: usize,
    const ROWS: usize,
>(
    args: ForwardArgs<I, O>,
) where
    I: Element<N>,
    O: Output<N>,
{
    let (tid, groups) = (thread::thread_idx_x() as usize, BLOCK / LANES);
    let first = thread::block_idx_x() as usize * groups * ROWS + tid / LANES;
    let place = |r: usize, i: usize| [first + r * groups, N * (tid % LANES + i * LANES)];
    let is_whole = args.has_whole_vectors::<N>();
    let load = |is_whole| -> [[u32x4; VECTORS]; ROWS] {
        // SAFETY: the kernel's contract.
        let of_row = |r| core::array::from_fn(|i| unsafe { args.load_from::<N>(place(r, i), is_whole) });
        core::array::from_fn(of_row)
    };
    // Two copies of the code, so all loads of a thread are in flight before the first result is used.
    let x_reg = if is_whole { load(true) } else { load(false) };
    for r in 0..ROWS {
        let max = x_reg[r].iter().fold(I::MIN, |max, &x| I::larger(max, x));
        let max = I::unpack(max).into_iter().fold(f32::MIN, f32::max);
        // SAFETY: all threads of the block execute this and everything below.
        let max = unsafe { reduce_max_width::<f32, WIDTH>(u32::MAX, max) };
        let x = x_reg[r].map(|x| I::unpack(x).map(|x| x - max));
        let y = x.map(|x| x.map(|x| args.exp(x)));
        let sum = y.iter().fold(0.0, |sum, &y| sum + sum_of(y));
        // SAFETY: all lanes execute this.
        let (a, b) = args.factors(unsafe { reduce_sum_width::<f32, WIDTH>(u32::MAX, sum) });
        for i in 0..VECTORS {
            let result = if args.is_log() { x[i].map(|x| x * args.scale + b) } else { y[i].map(|y| y * a) };
            // SAFETY: the kernel's contract; only this thread writes what it has read.
            unsafe { args.store_from::<N>(place(r, i), result, is_whole) };
        }
    }
}
