//! How `wgmma` multiplies each type of the matrices.

use cuda_std::half::{bf16, f16};
use cuda_std::mem::{load_shared, u32x2};
use cuda_std::mma::tf32;
use cuda_std::thread;
use cuda_std::wgmma::{self, Element16, FragmentA, Panel, Pending, Registers};

use super::warpgroup_work::{ROWS, terms};
use common_kernels::element::Output;
use common_kernels::ring::WARPGROUP;

/// An operand type, in panels of shared memory.
pub trait WarpgroupOperand: Output<4> {
    /// Starts the multiplications of a stage, after a fence: 64 rows of A from row `row` on, a multiple of 64, by `COLS` columns of
    /// B. With `keep` they add to the accumulators. `A_K` and `B_K` are 1 if the terms are neighbours. Of `f32`, they are not
    /// neighbours in A at most; with `B_K` of 0 the caller [swaps](is_swapped) A and B.
    ///
    /// # Safety
    /// Same as for [`Pending::multiply`]. With [operands in registers](is_in_registers), no multiplication is pending.
    unsafe fn multiply<const A_K: usize, const B_K: usize, const COLS: usize, const REGISTERS: usize>(
        pending: &mut Pending<REGISTERS>,
        keep: bool,
        a: *const u8,
        b: *const u8,
        row: u32,
    ) where
        [f32; REGISTERS]: Registers;

    /// Returns the row of the operand with 64 rows that row `row` of the accumulators belongs to.
    #[inline(always)]
    fn row<const A_K: usize, const B_K: usize>(row: u32) -> u32 {
        row
    }

    /// Rounds two results, in the form that `stmatrix` takes. Only 16-bit results use it.
    fn pack(pair: [f32; 2]) -> u32;
}

/// Whether a kernel for elements of `bytes` bytes computes the transpose of the result, from the transposes of the operands:
/// B is in registers, because `wgmma` does not transpose `f32`.
pub const fn is_swapped(bytes: usize, b_k: usize) -> bool {
    bytes == 4 && b_k == 0
}

/// Whether the multiplications of such a kernel read an operand from registers. They must complete before the registers are
/// loaded again; the other warpgroup multiplies meanwhile.
pub const fn is_in_registers(bytes: usize, a_k: usize, b_k: usize) -> bool {
    bytes == 4 && (a_k == 0 || b_k == 0)
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
    row: u32,
) where
    [f32; REGISTERS]: Registers,
{
    let a = Panel::<T, ROWS>::k_major::<64>(a.cast(), row);
    let b = Panel::<T, COLS>::k_major::<COLS>(b.cast(), 0);
    // SAFETY: all threads of the warpgroup execute this, with complete operands.
    unsafe {
        wgmma::fence();
        let mut i = 0;
        while i < 4 {
            pending.multiply_keeping(keep || i > 0, a.step(i), b.step(i));
            i += 1;
        }
    }
}

/// Multiplies `f32` as TF32 with A from registers. A has a row per term, in panels of 32 columns.
///
/// # Safety
/// Same as for [`Pending::multiply`].
#[inline(always)]
unsafe fn from_registers<const COLS: usize, const REGISTERS: usize>(
    pending: &mut Pending<REGISTERS>,
    keep: bool,
    a: *const u8,
    b: *const u8,
    row: u32,
) where
    [f32; REGISTERS]: Registers,
{
    let tid = thread::thread_idx_x() % WARPGROUP;
    let row = row + interleaved(tid / 32 * 16 + tid % 32 / 4);
    let panel = a.cast::<Panel<tf32, { terms(4) }>>().wrapping_add((row / 32) as usize).cast_mut();
    // Both rows of the thread at once: they are neighbours.
    let two = |term: u32| {
        let at = Panel::element(panel, term + tid % 4, row % 32);
        // SAFETY: the stage has the rows and the terms.
        unsafe { load_shared::<u32x2>(at.cast()).to_array() }
    };
    let fragment = |i: u32| {
        let ([a, b], [c, d]) = (two(8 * i), two(8 * i + 4));
        FragmentA::<tf32>::from_registers([a, b, c, d])
    };
    let b = Panel::<tf32, COLS>::k_major::<COLS>(b.cast(), 0);
    let all = [fragment(0), fragment(1), fragment(2), fragment(3)];
    // SAFETY: all threads of the warpgroup execute this, with complete operands.
    unsafe {
        wgmma::fence();
        pending.multiply_keeping(keep, all[0], b.step(0));
        pending.multiply(all[1], b.step(1));
        pending.multiply(all[2], b.step(2));
        pending.multiply(all[3], b.step(3));
    }
}

/// Returns the row of A that row `row` of the fragments holds. A thread's two rows are neighbours, and the rows of 16 lanes lie
/// in different banks for the swizzle's order of chunks.
#[inline(always)]
const fn interleaved(row: u32) -> u32 {
    let (warp, second, lane) = (row / 16, row % 16 / 8, row % 8);
    let chunk = warp % 2 * 2 + lane / 4 + lane / 2 % 2 * 4;
    warp / 2 * 32 + chunk * 4 + lane % 2 * 2 + second
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
                row: u32,
            ) where
                [f32; REGISTERS]: Registers,
            {
                const TERMS: usize = terms(2);
                if A_K == 1 && B_K == 1 {
                    // SAFETY: all threads of the warpgroup execute this, with complete operands.
                    return unsafe { along_k::<$ty, COLS, REGISTERS>(pending, keep, a, b, row) };
                }
                let rows = || Panel::<$ty, ROWS>::k_major::<64>(a.cast(), row);
                let panel = a.cast::<Panel<$ty, TERMS>>().wrapping_add(row as usize / 64);
                let transposed = || Panel::<$ty, TERMS>::mn_major::<64>(panel);
                let cols = || Panel::<$ty, COLS>::k_major::<COLS>(b.cast(), 0);
                let b_transposed = || Panel::<$ty, TERMS>::mn_major::<COLS>(b.cast());
                // SAFETY: all threads of the warpgroup execute this.
                unsafe { wgmma::fence() };
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
    /// Multiplies as TF32: the tensor cores ignore the lower 13 bits, which the copies round away.
    #[inline(always)]
    unsafe fn multiply<const A_K: usize, const B_K: usize, const COLS: usize, const REGISTERS: usize>(
        pending: &mut Pending<REGISTERS>,
        keep: bool,
        a: *const u8,
        b: *const u8,
        row: u32,
    ) where
        [f32; REGISTERS]: Registers,
    {
        const { assert!(A_K == 1 || B_K == 1, "one operand of 32 bits is read from shared memory as it is") };
        // SAFETY: all threads of the warpgroup execute this, with complete operands.
        unsafe {
            if const { !is_in_registers(4, A_K, B_K) } {
                along_k::<tf32, COLS, REGISTERS>(pending, keep, a, b, row);
            } else {
                from_registers::<COLS, REGISTERS>(pending, keep, a, b, row);
            }
        }
    }

    #[inline(always)]
    fn row<const A_K: usize, const B_K: usize>(row: u32) -> u32 {
        if const { is_in_registers(4, A_K, B_K) } { interleaved(row) } else { row }
    }

    #[inline(always)]
    fn pack(_: [f32; 2]) -> u32 {
        0
    }
}
