//! How `wgmma` multiplies each type of the matrices.

use cuda_std::half::{bf16, f16};
use cuda_std::mma::tf32;
use cuda_std::wgmma::{self, Element16, Panel, Pending, Registers};

use super::warpgroup_work::{ROWS, terms};
use common_kernels::element::Output;

/// An operand type, in panels of shared memory.
pub trait WarpgroupOperand: Output<4> {
    /// Starts the multiplications of a stage: 64 rows of A from the consumer's first one on by `COLS` columns of B. With
    /// `keep` they add to the accumulators. `A_K` and `B_K` are 1 if the terms are neighbours.
    ///
    /// # Safety
    /// Same as for [`Pending::multiply`].
    unsafe fn multiply<const A_K: usize, const B_K: usize, const COLS: usize, const REGISTERS: usize>(
        pending: &mut Pending<REGISTERS>,
        keep: bool,
        a: *const u8,
        b: *const u8,
        consumer: u32,
    ) where
        [f32; REGISTERS]: Registers;

    /// Rounds two results, in the form that `stmatrix` takes. Only 16-bit results use it.
    fn pack(pair: [f32; 2]) -> u32;
}

/// Multiplies operands that both have the terms as neighbours.
///
/// # Safety
/// Same as for [`Pending::multiply`].
#[inline(always)]
unsafe fn along_k<T: wgmma::Element, const COLS: usize, const REGISTERS: usize>(
    pending: &mut Pending<REGISTERS>,
    keep: bool,
    a: *const u8,
    b: *const u8,
    consumer: u32,
) where
    [f32; REGISTERS]: Registers,
{
    let a = Panel::<T, ROWS>::k_major::<64>(a.cast(), 64 * consumer);
    let b = Panel::<T, COLS>::k_major::<COLS>(b.cast(), 0);
    let mut i = 0;
    while i < 4 {
        // SAFETY: all threads of the warpgroup execute this, with complete operands.
        unsafe { pending.multiply_keeping(keep || i > 0, a.step(i), b.step(i)) };
        i += 1;
    }
}

macro_rules! of_16_bits {
    ($($ty:ident),*) => {$(
        impl WarpgroupOperand for $ty {
            #[inline(always)]
            unsafe fn multiply<
                const A_K: usize,
                const B_K: usize,
                const COLS: usize,
                const REGISTERS: usize,
            >(
                pending: &mut Pending<REGISTERS>,
                keep: bool,
                a: *const u8,
                b: *const u8,
                consumer: u32,
            ) where
                [f32; REGISTERS]: Registers,
            {
                const TERMS: usize = terms(2);
                if A_K == 1 && B_K == 1 {
                    // SAFETY: all threads of the warpgroup execute this, with complete operands.
                    return unsafe { along_k::<$ty, COLS, REGISTERS>(pending, keep, a, b, consumer) };
                }
                let rows = || Panel::<$ty, ROWS>::k_major::<64>(a.cast(), 64 * consumer);
                let panel = a.cast::<Panel<$ty, TERMS>>().wrapping_add(consumer as usize);
                let transposed = || Panel::<$ty, TERMS>::mn_major::<64>(panel);
                let cols = || Panel::<$ty, COLS>::k_major::<COLS>(b.cast(), 0);
                let b_transposed = || Panel::<$ty, TERMS>::mn_major::<COLS>(b.cast());
                let mut i = 0;
                while i < 4 {
                    let keep = keep || i > 0;
                    // SAFETY: all threads of the warpgroup execute this, with complete operands.
                    unsafe {
                        match (A_K, B_K) {
                            (1, _) => pending.multiply_keeping(keep, rows().step(i), b_transposed().step(i)),
                            (_, 1) => pending.multiply_keeping(keep, transposed().step(i), cols().step(i)),
                            _ => pending.multiply_keeping(keep, transposed().step(i), b_transposed().step(i)),
                        }
                    }
                    i += 1;
                }
            }

            #[inline(always)]
            fn pack(pair: [f32; 2]) -> u32 {
                <$ty as Element16>::pack(pair)
            }
        }
    )*};
}

of_16_bits! { bf16, f16 }

impl WarpgroupOperand for f32 {
    /// Multiplies as TF32: the tensor cores ignore the lower 13 bits, which the copies round away. The terms must be neighbours.
    #[inline(always)]
    unsafe fn multiply<const A_K: usize, const B_K: usize, const COLS: usize, const REGISTERS: usize>(
        pending: &mut Pending<REGISTERS>,
        keep: bool,
        a: *const u8,
        b: *const u8,
        consumer: u32,
    ) where
        [f32; REGISTERS]: Registers,
    {
        const { assert!(A_K == 1 && B_K == 1, "wgmma does not transpose operands of 32 bits") };
        // SAFETY: all threads of the warpgroup execute this, with complete operands.
        unsafe { along_k::<tf32, COLS, REGISTERS>(pending, keep, a, b, consumer) };
    }

    #[inline(always)]
    fn pack(_: [f32; 2]) -> u32 {
        0
    }
}
