//! The rounding of a multiplication's operands. Sums are `f32`.

use cuda_std::half::{
    bf16, bf16_to_f32, f16, f16_to_f32, f32_to_bf16, f32_to_bf16x2, f32_to_f16, f32_to_f16x2,
};
use cuda_std::mma::{FragmentA, FragmentB, FragmentC, mma_sync_tiles, tf32};

/// The factor of gradients before they are rounded to `f16`; their sums are divided by it. Averages over a batch are so
/// small that most would otherwise be subnormal. Gradients over 63 become infinite, and so do their results.
const GRADIENTS_OF_F16: f32 = 1024.0;

/// The precision to which operands are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// Not rounded.
    F32,
    /// Rounded to the nearest number of 11 bits, ties away from zero.
    Tf32,
    /// Rounded to the nearest number of 8 bits, ties to even.
    Bf16,
    /// Rounded to the nearest number of 11 bits that is a multiple of 2^-24, ties to even; from 65520 on, infinity.
    F16,
}

impl Operands {
    /// Returns the factor of an operand before it is rounded: a power of two, and 1 for most.
    #[inline(always)]
    pub const fn scale(self, is_gradient: bool) -> f32 {
        if matches!(self, Self::F16) && is_gradient { GRADIENTS_OF_F16 } else { 1.0 }
    }
}

/// A type to which operands are rounded.
pub trait Operand {
    /// Its value of [`Operands`].
    const OPERANDS: Operands;

    /// Returns the nearest number of the type.
    fn round(x: f32) -> f32;
}

/// An operand type of tensor cores.
pub trait TensorOperand: Operand {
    /// Adds 16 terms to each sum of `M` x `N` matrices, after rounding their operands.
    ///
    /// A lane passes four terms of its rows and columns: in `a`, of row `lane / 4` and of the row 8 below, for each matrix;
    /// in `b`, of column `lane / 4`. All lanes with the same `lane % 4` must pass the same four of the 16 terms.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this.
    unsafe fn multiply<const M: usize, const N: usize>(
        a: &[[[f32; 4]; 2]; M],
        b: &[[f32; 4]; N],
        sums: &mut [[FragmentC; N]; M],
    );
}

impl Operand for f32 {
    const OPERANDS: Operands = Operands::F32;

    #[inline(always)]
    fn round(x: f32) -> f32 {
        x
    }
}

impl Operand for tf32 {
    const OPERANDS: Operands = Operands::Tf32;

    #[inline(always)]
    fn round(x: f32) -> f32 {
        tf32::from_f32(x).to_f32()
    }
}

impl TensorOperand for tf32 {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn multiply<const M: usize, const N: usize>(
        a: &[[[f32; 4]; 2]; M],
        b: &[[f32; 4]; N],
        sums: &mut [[FragmentC; N]; M],
    ) {
        let bits = |x: f32| tf32::from_f32(x).to_bits();
        for i in [0, 2] {
            let of_rows = |[upper, lower]: [[f32; 4]; 2]| {
                FragmentA::<tf32>::from_registers([upper[i], lower[i], upper[i + 1], lower[i + 1]].map(bits))
            };
            let of_column = |x: [f32; 4]| FragmentB::<tf32>::from_registers([x[i], x[i + 1]].map(bits));
            // SAFETY: all lanes execute this.
            unsafe { mma_sync_tiles(&a.map(of_rows), &b.map(of_column), sums) };
        }
    }
}

macro_rules! of_16_bits {
    ($($ty:ident, $operands:ident, $narrow:ident, $wide:ident, $pack:ident;)*) => {$(
        impl Operand for $ty {
            const OPERANDS: Operands = Operands::$operands;

            #[inline(always)]
            fn round(x: f32) -> f32 {
                $wide($narrow(x))
            }
        }

        impl TensorOperand for $ty {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn multiply<const M: usize, const N: usize>(
                a: &[[[f32; 4]; 2]; M],
                b: &[[f32; 4]; N],
                sums: &mut [[FragmentC; N]; M],
            ) {
                let of_rows = |[[a, b, c, d], [e, f, g, h]]: [[f32; 4]; 2]| {
                    FragmentA::<$ty>::from_registers([[a, b], [e, f], [c, d], [g, h]].map($pack))
                };
                let of_column =
                    |[a, b, c, d]: [f32; 4]| FragmentB::<$ty>::from_registers([[a, b], [c, d]].map($pack));
                // SAFETY: all lanes execute this.
                unsafe { mma_sync_tiles(&a.map(of_rows), &b.map(of_column), sums) };
            }
        }
    )*};
}

of_16_bits! {
    bf16, Bf16, f32_to_bf16, bf16_to_f32, f32_to_bf16x2;
    f16, F16, f32_to_f16, f16_to_f32, f32_to_f16x2;
}
