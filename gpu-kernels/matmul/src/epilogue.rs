//! From accumulators to results: `activation(alpha sum + bias + residual)`, rounded once.

use cuda_std::fastmath::{exp_approx, rcp_approx};
use cuda_std::mem::{f32x2, store_global};

use super::args::{GELU, MatmulArgs, OUT_ALIGNED, OUT_F32, RELU};
use common_kernels::element::{Number, Output};

/// Returns `x / (1 + exp(-2 u))` with `u = sqrt(2 / pi) (x + 0.044715 x^3)`, which is `x (1 + tanh(u)) / 2`.
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    let u = 0.797_884_6 * (x + 0.044_715 * (x * x * x));
    // If the exponential overflows, the result is -0, except for -inf.
    if x == f32::NEG_INFINITY { 0.0 } else { x * rcp_approx(1.0 + exp_approx(-2.0 * u)) }
}

/// Returns 0 for negative numbers; keeps NaN.
#[inline(always)]
pub fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// Applies the activation that the flags select.
#[inline(always)]
pub fn activate(x: f32, flags: u32) -> f32 {
    if flags & RELU != 0 {
        relu(x)
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

/// Returns the results of neighbours in a row from their sums, before rounding. Those outside the result are meaningless.
///
/// # Safety
/// `args` are a kernel's.
#[inline(always)]
unsafe fn with_epilogue<T: Number, const N: usize>(
    args: &MatmulArgs<T>,
    batch: u32,
    [row, col]: [u32; 2],
    sums: [f32; N],
) -> [f32; N] {
    let mut x = sums.map(|sum| args.alpha * sum);
    let count = if row < args.m { args.n.saturating_sub(col).min(N as u32) as usize } else { 0 };
    // SAFETY: row and the first `count` columns lie in the result, and so in the matrices of its shape.
    unsafe {
        if !args.bias.is_null() {
            for i in 0..N {
                if i < count {
                    x[i] += (*args.bias.add(col as usize + i)).to_f32();
                }
            }
        }
        if !args.residual.is_null() {
            let at = offset(batch, args.residual_batch, row, args.residual_pitch, col);
            for i in 0..N {
                if i < count {
                    x[i] += match args.has(OUT_F32) {
                        true => *args.residual.cast::<f32>().add(at + i),
                        false => (*args.residual.cast::<T>().add(at + i)).to_f32(),
                    };
                }
            }
        }
    }
    x.map(|x| activate(x, args.flags))
}

/// Writes the results of up to four neighbours in a row, from their sums. Those outside the result are not written.
///
/// # Safety
/// `args` are a kernel's, and no other thread uses these results.
#[inline(always)]
pub unsafe fn store_results<T: Output<4>>(args: &MatmulArgs<T>, batch: u32, at: [u32; 2], sums: [f32; 4]) {
    let [row, col] = at;
    if row >= args.m || col >= args.n {
        return;
    }
    // SAFETY: row and the first `count` columns lie in the result, and only this thread writes them.
    unsafe {
        let x = if args.is_plain() { sums } else { with_epilogue(args, batch, at, sums) };
        let count = (args.n - col).min(4) as usize;
        let to = offset(batch, args.out_batch, row, args.out_pitch, col);
        match (args.has(OUT_F32), count == 4 && args.has(OUT_ALIGNED)) {
            (true, true) => f32::store(args.out.cast::<f32>().add(to), x),
            (false, true) => T::store(args.out.cast::<T>().add(to), x),
            (true, false) => store_some(args.out.cast::<f32>().add(to), &x, count),
            (false, false) => store_some(args.out.cast::<T>().add(to), &x, count),
        }
    }
}

/// Rounds and writes two neighbours in a row, or one at the end of a row. Those outside the result are not written.
///
/// # Safety
/// Same as for [`store_results`]. With several splits the numbers are the sums of `split`.
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

/// Returns the bias of a column, or of the last column for those outside.
///
/// # Safety
/// There is a bias, and at least one column.
#[inline(always)]
pub unsafe fn bias_at<T: Number>(args: &MatmulArgs<T>, col: u32) -> f32 {
    // SAFETY: the column has a bias.
    unsafe { (*args.bias.add(col.min(args.n - 1) as usize)).to_f32() }
}

/// Returns the residual of a result, or of a result at the edge for those outside.
///
/// # Safety
/// There is a residual, and at least one result.
#[inline(always)]
pub unsafe fn residual_at<T: Number>(args: &MatmulArgs<T>, batch: u32, [row, col]: [u32; 2]) -> f32 {
    let (row, col) = (row.min(args.m - 1), col.min(args.n - 1));
    let at = offset(batch, args.residual_batch, row, args.residual_pitch, col);
    // SAFETY: row and column lie in the matrix.
    unsafe {
        match args.has(OUT_F32) {
            true => *args.residual.cast::<f32>().add(at),
            false => (*args.residual.cast::<T>().add(at)).to_f32(),
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
