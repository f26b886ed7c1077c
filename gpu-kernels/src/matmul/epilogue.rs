//! From accumulators to results: `activation(alpha sum + bias + residual)`, rounded once.

use cuda_std::GpuFloat as _;

use super::args::{GELU, MatmulArgs, OUT_ALIGNED, OUT_F32, RELU};
use crate::element::{Number, Output};

/// `x / (1 + exp(-2 u))` with `u = sqrt(2 / pi) (x + 0.044715 x^3)`, which is `x (1 + tanh(u)) / 2`.
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    let u = 0.797_884_56 * (x + 0.044_715 * (x * x * x));
    // Where the exponential overflows, the quotient is -0, except of -inf.
    if x == f32::NEG_INFINITY { 0.0 } else { x / (1.0 + (-2.0 * u).exp()) }
}

/// The activation that the flags ask for.
#[inline(always)]
pub fn activate(x: f32, flags: u32) -> f32 {
    if flags & RELU != 0 {
        // NaN stays NaN.
        if x < 0.0 { 0.0 } else { x }
    } else if flags & GELU != 0 {
        gelu(x)
    } else {
        x
    }
}

/// Writes the results of up to four neighbours of a row, from their sums. Those outside the result are not written.
///
/// # Safety
/// `args` are those of a kernel, and no other thread uses these results.
#[inline(always)]
pub unsafe fn store_results<T: Output<4>>(
    args: &MatmulArgs<T>,
    batch: u32,
    row: u32,
    col: u32,
    sums: [f32; 4],
) where
    f32: Output<4>,
{
    if row >= args.m || col >= args.n {
        return;
    }
    let count = (args.n - col).min(4) as usize;
    let mut x = sums.map(|sum| args.alpha * sum);
    let at = (u64::from(batch) * args.out_batch + u64::from(row) * args.out_pitch + u64::from(col)) as usize;
    // SAFETY: row and column lie in the result, as far as `count` goes, and so in the matrices of its shape.
    unsafe {
        if !args.bias.is_null() {
            for i in 0..count {
                x[i] += (*args.bias.add(col as usize + i)).to_f32();
            }
        }
        if !args.residual.is_null() {
            let batch = u64::from(batch) * args.residual_batch;
            let at = (batch + u64::from(row) * args.residual_pitch + u64::from(col)) as usize;
            for i in 0..count {
                x[i] += if args.has(OUT_F32) {
                    *args.residual.cast::<f32>().add(at + i)
                } else {
                    (*args.residual.cast::<T>().add(at + i)).to_f32()
                };
            }
        }
        let x = x.map(|x| activate(x, args.flags));
        let is_whole = count == 4 && args.has(OUT_ALIGNED);
        match (args.has(OUT_F32), is_whole) {
            (true, true) => f32::store(args.out.cast::<f32>().add(at), x),
            (false, true) => T::store(args.out.cast::<T>().add(at), x),
            (true, false) => {
                for i in 0..count {
                    *args.out.cast::<f32>().add(at + i) = x[i];
                }
            }
            (false, false) => {
                for i in 0..count {
                    *args.out.cast::<T>().add(at + i) = T::from_f32(x[i]);
                }
            }
        }
    }
}
