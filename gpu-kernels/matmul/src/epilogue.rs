//! From accumulators to results: `activation(alpha sum + bias + residual)`, rounded once.

use core::mem::transmute_copy;
use cuda_std::GpuFloat as _;
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
        1.0 + ex2_approx_ftz(x * (x * x).mul_add(FACTOR * 0.044_715, FACTOR))
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
pub fn offset(batch: u32, batch_pitch: u64, row: u32, pitch: u64, col: u32) -> usize {
    (u64::from(batch) * batch_pitch + u64::from(row) * pitch + u64::from(col)) as usize
}

/// Runs code for each number below a constant of at most 16. The compiler does not unroll a loop over that much code, and arrays
/// with a loop index lie in local memory.
macro_rules! unrolled {
    ($i:ident, $count:expr, $body:expr) => {
        unrolled!(@ $i, $count, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $i:ident, $count:expr, $body:expr, $($number:literal)*) => {
        $(
            if $number < $count {
                let $i: usize = $number;
                $body
            }
        )*
    };
}
pub(crate) use unrolled;

/// Up to four neighbouring columns of the results, for any rows.
#[derive(Clone, Copy)]
pub struct Columns<'a, T> {
    args: &'a MatmulArgs<T>,
    batch: u32,
    col: u32,
    /// Columns that lie in the result.
    count: usize,
    /// As it is in memory, so that nothing waits for the loads before the results.
    bias: [T; 4],
    is_plain: bool,
    /// Whether the residuals of a row can be read at once.
    is_whole: bool,
}

impl<'a, T: Output<4>> Columns<'a, T> {
    /// The columns from `col` on. Reads their biases.
    ///
    /// # Safety
    /// `args` are a kernel's.
    #[inline(always)]
    pub unsafe fn new(args: &'a MatmulArgs<T>, batch: u32, col: u32) -> Self {
        let count = args.n.saturating_sub(col).min(4) as usize;
        let mut bias = [T::from_f32(0.0); 4];
        if !args.bias.is_null() {
            for i in 0..4 {
                if i < count {
                    // SAFETY: the column has a bias.
                    bias[i] = unsafe { *args.bias.add(col as usize + i) };
                }
            }
        }
        let is_whole = count == 4 && has_whole_residuals::<T, 4>(args);
        Self { args, batch, col, count, bias, is_plain: args.is_plain(), is_whole }
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
            let x = self.results(sums, self.residual(row));
            let to = offset(batch, args.out_batch, row, args.out_pitch, col);
            match (args.has(OUT_F32), count == 4 && args.has(OUT_ALIGNED)) {
                (true, true) => f32::store(args.out.cast::<f32>().add(to), x),
                (false, true) => T::store(args.out.cast::<T>().add(to), x),
                (true, false) => store_some(args.out.cast::<f32>().add(to), &x, count),
                (false, false) => store_some(args.out.cast::<T>().add(to), &x, count),
            }
        }
    }

    /// Returns the results before rounding, from sums and [residuals](Self::residual). Those outside the result are meaningless.
    #[inline(always)]
    pub fn results(&self, sums: [f32; 4], residual: [u32; 4]) -> [f32; 4] {
        if self.is_plain {
            return sums;
        }
        let (x, bias) = (self.with_residual(sums, residual), self.bias.map(T::to_f32));
        activate([0, 1, 2, 3].map(|i| x[i] + bias[i]), self.args.flags)
    }

    /// Returns `alpha sum + residual`.
    #[inline(always)]
    pub fn with_residual(&self, sums: [f32; 4], residual: [u32; 4]) -> [f32; 4] {
        let residual = residual_of_raw::<T, 4>(residual, self.args.has(OUT_F32), self.is_whole);
        [0, 1, 2, 3].map(|i| self.args.alpha * sums[i] + residual[i])
    }

    /// Returns the same columns with another formula.
    #[inline(always)]
    pub fn with(self, args: &'a MatmulArgs<T>) -> Self {
        Self { args, is_plain: args.is_plain(), ..self }
    }

    /// Reads the residuals of a row as they are in memory: zeros without residual or outside the result.
    ///
    /// # Safety
    /// `args` are a kernel's.
    #[inline(always)]
    pub unsafe fn residual(&self, row: u32) -> [u32; 4] {
        let &Self { args, batch, col, count, is_whole, .. } = self;
        if args.residual.is_null() || row >= args.m || count == 0 {
            return [0; 4];
        }
        let at = offset(batch, args.residual_batch, row, args.residual_pitch, col);
        // SAFETY: row and the first `count` columns lie in the residual.
        unsafe {
            match args.has(OUT_F32) {
                true => raw(args.residual.cast::<f32>().add(at), is_whole, count),
                false => raw(args.residual.cast::<T>().add(at), is_whole, count),
            }
        }
    }
}

/// Returns whether `N` neighbours of each row of the residual, from a multiple of `N` on, can be read at once: two always, four if
/// there are so many.
#[inline(always)]
pub fn has_whole_residuals<T, const N: usize>(args: &MatmulArgs<T>) -> bool {
    let size = if args.has(OUT_F32) { 4 } else { size_of::<T>() };
    let starts = args.residual_pitch | args.residual_batch;
    let is_even = N != 2 || args.n.is_multiple_of(2);
    is_even && args.residual.addr().is_multiple_of(N * size) && starts.is_multiple_of(N as u64)
}

/// Reads `N` neighbours of the residual, 2 or 4, as they are in memory, so that nothing waits for the loads: all at once into the
/// first words if `is_whole`, otherwise the first `count` into a word each.
///
/// # Safety
/// `from` points to `count` numbers, at least one. If `is_whole`, there are `N`, aligned together.
#[inline(always)]
pub unsafe fn raw<O: Number, const N: usize>(from: *const O, is_whole: bool, count: usize) -> [u32; N] {
    const { assert!(N == 2 || N == 4, "two or four numbers") };
    let mut words = [0; N];
    // SAFETY: the caller's numbers, of 2 or 4 bytes.
    unsafe {
        match N * size_of::<O>() {
            4 if is_whole => words[0] = load_global(from.cast()),
            8 if is_whole => [words[0], words[1]] = load_global::<u32x2>(from.cast()).to_array(),
            _ if is_whole => words = transmute_copy(&load_global::<u32x4>(from.cast()).to_array()),
            _ => {
                for i in 0..N {
                    // Another of them stands for one that is not there.
                    let from = from.add(if i < count { i } else { 0 });
                    let is_short = size_of::<O>() == 2;
                    words[i] = if is_short { u32::from(*from.cast::<u16>()) } else { *from.cast::<u32>() };
                }
            }
        }
    }
    words
}

/// Returns the numbers of the residual that [`raw`] has read.
#[inline(always)]
pub fn residual_of_raw<T: Number, const N: usize>(raw: [u32; N], is_f32: bool, is_whole: bool) -> [f32; N] {
    let mut x = [0.0; N];
    for i in 0..N {
        x[i] = if size_of::<T>() == 4 || is_f32 {
            f32::from_bits(raw[i])
        } else {
            let bits = if is_whole { raw[i / 2] >> (i % 2 * 16) } else { raw[i] };
            // SAFETY: a number of 2 bytes, of which every pattern of bits is one.
            unsafe { transmute_copy::<u16, T>(&(bits as u16)) }.to_f32()
        };
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

/// Reads the biases of a column and the next, 0 for those outside.
///
/// # Safety
/// `args` are a kernel's.
#[inline(always)]
pub unsafe fn bias_pair<T: Number>(args: &MatmulArgs<T>, col: u32) -> [T; 2] {
    let is_inside = |col: u32| !args.bias.is_null() && col < args.n;
    // SAFETY: the column has a bias.
    let at = |col| if is_inside(col) { unsafe { *args.bias.add(col as usize) } } else { T::from_f32(0.0) };
    [at(col), at(col + 1)]
}

/// Rounds and writes the result at an offset.
///
/// # Safety
/// There is such a result, and only this thread writes it.
#[inline(always)]
pub unsafe fn store_one<T: Number>(args: &MatmulArgs<T>, to: usize, x: f32) {
    // SAFETY: the caller's contract.
    unsafe {
        match args.has(OUT_F32) {
            true => *args.out.cast::<f32>().add(to) = x,
            false => *args.out.cast::<T>().add(to) = T::from_f32(x),
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
