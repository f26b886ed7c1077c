//! From accumulators to results: `activation(alpha sum + bias + residual)`, rounded once.

use core::mem::transmute_copy;
use cuda_std::fastmath::{ex2_approx_ftz, rcp_approx_ftz};
use cuda_std::float::maximum;
use cuda_std::mem::{f32x2, load_global, store_global, u32x2, u32x4};

use super::args::{GELU, MatmulArgs, OUT_ALIGNED, OUT_F32, RELU};
use common_kernels::element::{Number, Output};

/// Returns `x / (1 + exp(-2 u))` with `u = sqrt(2 / pi) (x + 0.044715 x^3)`, which is `x (1 + tanh(u)) / 2`.
///
/// Four numbers share one reciprocal: the units for exponentials and reciprocals are the bottleneck. It is that of the product
/// of all denominators, which the limit keeps below 2^128. Results below the limit are off by 3e-9.
#[inline(always)]
pub fn gelu(x: [f32; 4]) -> [f32; 4] {
    const LEAST: f32 = -5.6;
    // -2 sqrt(2 / pi) log2(e).
    const FACTOR: f32 = -2.302_208_2;
    let x = x.map(|x| maximum(x, LEAST));
    let [a, b, c, d] = x.map(|x| {
        // A NaN must not reach the other numbers.
        let x = x.max(LEAST);
        1.0 + ex2_approx_ftz(x * (FACTOR + FACTOR * 0.044_715 * (x * x)))
    });
    let (ab, cd) = (a * b, c * d);
    let all = rcp_approx_ftz(ab * cd);
    let (of_ab, of_cd) = (all * cd, all * ab);
    [x[0] * (of_ab * b), x[1] * (of_ab * a), x[2] * (of_cd * d), x[3] * (of_cd * c)]
}

/// Returns 0 for negative numbers; keeps NaN.
#[inline(always)]
pub fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// Applies the activation that the flags select.
#[inline(always)]
pub fn activate(x: [f32; 4], flags: u32) -> [f32; 4] {
    if flags & RELU != 0 {
        x.map(relu)
    } else if flags & GELU != 0 {
        gelu(x)
    } else {
        x
    }
}

/// Returns the offset of an element of a batch of matrices.
#[inline(always)]
fn offset(batch: u32, batch_pitch: u64, row: u32, pitch: u64, col: u32) -> usize {
    (u64::from(batch) * batch_pitch + u64::from(row) * pitch + u64::from(col)) as usize
}

/// Up to four neighbouring columns of the results, for any rows.
#[derive(Clone, Copy)]
pub struct Columns<'a, T> {
    args: &'a MatmulArgs<T>,
    batch: u32,
    col: u32,
    /// Columns that lie in the result.
    count: usize,
    bias: [f32; 4],
    is_plain: bool,
}

impl<'a, T: Output<4>> Columns<'a, T> {
    /// The columns from `col` on. Reads their biases.
    ///
    /// # Safety
    /// `args` are a kernel's.
    #[inline(always)]
    pub unsafe fn new(args: &'a MatmulArgs<T>, batch: u32, col: u32) -> Self {
        let count = args.n.saturating_sub(col).min(4) as usize;
        let mut bias = [0.0; 4];
        if !args.bias.is_null() {
            for i in 0..4 {
                if i < count {
                    // SAFETY: the column has a bias.
                    bias[i] = unsafe { (*args.bias.add(col as usize + i)).to_f32() };
                }
            }
        }
        Self { args, batch, col, count, bias, is_plain: args.is_plain() }
    }

    /// Writes the results of a row from their sums. Those outside the result are not written.
    ///
    /// # Safety
    /// `args` are a kernel's, and no other thread uses these results.
    #[inline(always)]
    pub unsafe fn store(&self, row: u32, sums: [f32; 4]) {
        let &Self { args, batch, col, count, .. } = self;
        if row >= args.m || count == 0 {
            return;
        }
        // SAFETY: row and the first `count` columns lie in the result, and only this thread writes them.
        unsafe {
            let x = if self.is_plain { sums } else { self.with_epilogue(row, sums) };
            let to = offset(batch, args.out_batch, row, args.out_pitch, col);
            match (args.has(OUT_F32), count == 4 && args.has(OUT_ALIGNED)) {
                (true, true) => f32::store(args.out.cast::<f32>().add(to), x),
                (false, true) => T::store(args.out.cast::<T>().add(to), x),
                (true, false) => store_some(args.out.cast::<f32>().add(to), &x, count),
                (false, false) => store_some(args.out.cast::<T>().add(to), &x, count),
            }
        }
    }

    /// Returns the results before rounding. Those outside the result are meaningless.
    ///
    /// # Safety
    /// The row lies in the result.
    #[inline(always)]
    unsafe fn with_epilogue(&self, row: u32, sums: [f32; 4]) -> [f32; 4] {
        let args = self.args;
        let mut x = [0, 1, 2, 3].map(|i| args.alpha * sums[i] + self.bias[i]);
        if !args.residual.is_null() {
            let at = offset(self.batch, args.residual_batch, row, args.residual_pitch, self.col);
            // SAFETY: row and the first `count` columns lie in the result, and so in the residual.
            let residual: [f32; 4] = unsafe {
                match args.has(OUT_F32) {
                    true => load_some(args.residual.cast::<f32>().add(at), self.count),
                    false => load_some(args.residual.cast::<T>().add(at), self.count),
                }
            };
            for i in 0..4 {
                x[i] += residual[i];
            }
        }
        activate(x, args.flags)
    }
}

/// Reads the first `count` of two or four numbers, all at once if they are aligned.
///
/// # Safety
/// `from` points to them.
#[inline(always)]
unsafe fn load_some<O: Number, const N: usize>(from: *const O, count: usize) -> [f32; N] {
    const { assert!(N == 2 || N == 4, "two or four numbers") };
    let mut x = [0.0; N];
    if count == N && from.addr().is_multiple_of(N * size_of::<O>()) {
        // SAFETY: the numbers of 2 or 4 bytes, aligned together; every pattern of bits is a number.
        let numbers: [O; N] = unsafe {
            match N * size_of::<O>() {
                4 => transmute_copy(&load_global::<u32>(from.cast())),
                8 => transmute_copy(&load_global::<u32x2>(from.cast()).to_array()),
                _ => transmute_copy(&load_global::<u32x4>(from.cast()).to_array()),
            }
        };
        x = numbers.map(O::to_f32);
    } else {
        for i in 0..N {
            if i < count {
                // SAFETY: the caller's number.
                x[i] = unsafe { (*from.add(i)).to_f32() };
            }
        }
    }
    x
}

/// Rounds and writes two neighbours in a row, or one at the end of a row. Those outside the result are not written.
///
/// # Safety
/// Same as for [`Columns::store`]. With several splits the numbers are the sums of `split`.
#[inline(always)]
pub unsafe fn store_pair<T: Number>(
    args: &MatmulArgs<T>,
    [batch, split]: [u32; 2],
    [row, col]: [u32; 2],
    x: [f32; 2],
) {
    if row >= args.m || col >= args.n {
        return;
    }
    // SAFETY: row and the first `count` columns lie in the result, and only this thread writes them. The column is even, so
    // two neighbours in an aligned row are aligned too.
    unsafe {
        let count = (args.n - col).min(2) as usize;
        let to = offset(batch, args.out_batch, row, args.out_pitch, col);
        let to = to + (u64::from(split) * args.split_pitch) as usize;
        if !args.has(OUT_F32) {
            store_some(args.out.cast::<T>().add(to), &x, count);
        } else if count == 2 && args.has(OUT_ALIGNED) {
            store_global(args.out.cast::<f32>().add(to).cast(), f32x2::new(x[0], x[1]));
        } else {
            store_some(args.out.cast::<f32>().add(to), &x, count);
        }
    }
}

/// Returns the biases of a column and the next, 0 for those outside.
///
/// # Safety
/// `args` are a kernel's.
#[inline(always)]
pub unsafe fn bias_pair<T: Number>(args: &MatmulArgs<T>, col: u32) -> [f32; 2] {
    // SAFETY: the column has a bias.
    let at = |col: u32| if col < args.n { unsafe { (*args.bias.add(col as usize)).to_f32() } } else { 0.0 };
    if args.bias.is_null() { [0.0; 2] } else { [at(col), at(col + 1)] }
}

/// Returns the residuals of a result and its right neighbour, 0 for those outside.
///
/// # Safety
/// There is a residual.
#[inline(always)]
pub unsafe fn residual_pair<T: Number>(args: &MatmulArgs<T>, batch: u32, [row, col]: [u32; 2]) -> [f32; 2] {
    if row >= args.m {
        return [0.0; 2];
    }
    let count = args.n.saturating_sub(col).min(2) as usize;
    let at = offset(batch, args.residual_batch, row, args.residual_pitch, col);
    // SAFETY: row and the first `count` columns lie in the matrix.
    unsafe {
        match args.has(OUT_F32) {
            true => load_some(args.residual.cast::<f32>().add(at), count),
            false => load_some(args.residual.cast::<T>().add(at), count),
        }
    }
}

/// Rounds and writes the first `count` results.
///
/// # Safety
/// `to` has room for them, and no other thread uses it.
#[inline(always)]
unsafe fn store_some<O: Number, const N: usize>(to: *mut O, x: &[f32; N], count: usize) {
    for i in 0..N {
        if i < count {
            // SAFETY: `to` has room for it.
            unsafe { *to.add(i) = O::from_f32(x[i]) };
        }
    }
}
