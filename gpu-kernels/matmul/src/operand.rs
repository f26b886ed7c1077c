//! Fragments of the operands of `mma.sync`, read from tiles in shared memory.
//!
//! A tile of A holds `[rows, terms]` if A is stored by rows, and `[terms, rows]` if A is stored as its transpose. A tile of
//! B holds `[columns, terms]` if B is stored as its transpose, and `[terms, columns]` if it is stored by rows. In the first
//! form of each, the terms of a sum are neighbours (`ALONG_K`). 16-bit numbers come through `ldmatrix`, which transposes the
//! second form on the way. `f32` has no transposing load, so each lane loads its own elements.

use cuda_std::half::{bf16, f16};
use cuda_std::mma::{self, FragmentA, FragmentB, FragmentC, ldmatrix, ldmatrix_trans, mma_sync_tiles, tf32};
use cuda_std::warp;

use common_kernels::element::Number;

/// A type of the operands.
pub trait Operand: Number {
    /// Terms of a fragment.
    const TERMS: usize;
    /// The type that the tensor cores multiply.
    type Element: mma::Element;

    /// Loads the registers of 16 rows of A from `row` on and the terms from `k` on. The tile has rows of `pitch` elements.
    ///
    /// # Safety
    /// The tile holds them. All lanes of the warp call this.
    unsafe fn load_a<const ALONG_K: bool>(tile: *const Self, pitch: usize, row: usize, k: usize) -> [u32; 4];

    /// Loads the registers of 16 columns of B from `col` on, as 8 and 8, and the terms from `k` on.
    ///
    /// # Safety
    /// Same as for [`Operand::load_a`].
    unsafe fn load_b<const ALONG_K: bool>(
        tile: *const Self,
        pitch: usize,
        col: usize,
        k: usize,
    ) -> [[u32; 2]; 2];

    /// Adds the terms of the fragments to the accumulators. With `THREE`, `f32` is multiplied as three products of TF32.
    ///
    /// # Safety
    /// All lanes of the warp call this.
    unsafe fn multiply<const THREE: bool, const M: usize, const N: usize>(
        a: &[[u32; 4]; M],
        b: &[[u32; 2]; N],
        sums: &mut [[FragmentC; N]; M],
    );
}

macro_rules! of_16_bits {
    ($($ty:ident),*) => {$(
        impl Operand for $ty {
            const TERMS: usize = 16;
            type Element = $ty;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn load_a<const ALONG_K: bool>(
                tile: *const Self,
                pitch: usize,
                row: usize,
                k: usize,
            ) -> [u32; 4] {
                let lane = warp::lane_id() as usize;
                // SAFETY: all lanes execute this, and each has the address of 8 neighbours in the tile.
                unsafe {
                    if ALONG_K {
                        ldmatrix(tile.add((row + lane % 16) * pitch + k + lane / 16 * 8))
                    } else {
                        let k = k + lane % 8 + lane / 16 * 8;
                        ldmatrix_trans(tile.add(k * pitch + row + lane / 8 % 2 * 8))
                    }
                }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn load_b<const ALONG_K: bool>(
                tile: *const Self,
                pitch: usize,
                col: usize,
                k: usize,
            ) -> [[u32; 2]; 2] {
                let lane = warp::lane_id() as usize;
                // SAFETY: all lanes execute this, and each has the address of 8 neighbours in the tile.
                let [a, b, c, d] = unsafe {
                    if ALONG_K {
                        let col = col + lane % 8 + lane / 16 * 8;
                        ldmatrix(tile.add(col * pitch + k + lane / 8 % 2 * 8))
                    } else {
                        let k = k + lane % 8 + lane / 8 % 2 * 8;
                        ldmatrix_trans(tile.add(k * pitch + col + lane / 16 * 8))
                    }
                };
                [[a, b], [c, d]]
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn multiply<const THREE: bool, const M: usize, const N: usize>(
                a: &[[u32; 4]; M],
                b: &[[u32; 2]; N],
                sums: &mut [[FragmentC; N]; M],
            ) {
                let a = a.map(FragmentA::<$ty>::from_registers);
                let b = b.map(FragmentB::<$ty>::from_registers);
                // SAFETY: all lanes execute this.
                unsafe { mma_sync_tiles(&a, &b, sums) };
            }
        }
    )*};
}

of_16_bits! { bf16, f16 }

/// Returns the number rounded to TF32, and the remainder rounded to TF32. Infinity and NaN have the remainder 0.
#[inline(always)]
pub(super) fn big_and_small(bits: u32) -> [u32; 2] {
    let x = f32::from_bits(bits);
    let big = tf32::from_f32(x);
    let left = x - big.to_f32();
    // For infinity and NaN the difference is NaN; if a finite number rounds to infinity, the difference is infinity.
    let small = if left.abs() < f32::INFINITY { tf32::from_f32(left).to_bits() } else { 0 };
    [big.to_bits(), small]
}

impl Operand for f32 {
    const TERMS: usize = 8;
    type Element = tf32;

    #[inline(always)]
    unsafe fn load_a<const ALONG_K: bool>(tile: *const Self, pitch: usize, row: usize, k: usize) -> [u32; 4] {
        let lane = warp::lane_id();
        core::array::from_fn(|i| {
            let (r, c) = FragmentA::<tf32>::position(lane, i);
            let (r, c) = (row + r, k + c);
            // SAFETY: row and term lie in the tile.
            unsafe { (*tile.add(if ALONG_K { r * pitch + c } else { c * pitch + r })).to_bits() }
        })
    }

    #[inline(always)]
    unsafe fn load_b<const ALONG_K: bool>(
        tile: *const Self,
        pitch: usize,
        col: usize,
        k: usize,
    ) -> [[u32; 2]; 2] {
        let lane = warp::lane_id();
        core::array::from_fn(|half| {
            core::array::from_fn(|i| {
                let (r, c) = FragmentB::<tf32>::position(lane, i);
                let (r, c) = (k + r, col + 8 * half + c);
                // SAFETY: column and term lie in the tile.
                unsafe { (*tile.add(if ALONG_K { c * pitch + r } else { r * pitch + c })).to_bits() }
            })
        })
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn multiply<const THREE: bool, const M: usize, const N: usize>(
        a: &[[u32; 4]; M],
        b: &[[u32; 2]; N],
        sums: &mut [[FragmentC; N]; M],
    ) {
        let a = a.map(|registers| registers.map(big_and_small));
        let b = b.map(|registers| registers.map(big_and_small));
        let part_a = |i: usize| a.map(|it| FragmentA::<tf32>::from_registers(it.map(|parts| parts[i])));
        let part_b = |i: usize| b.map(|it| FragmentB::<tf32>::from_registers(it.map(|parts| parts[i])));
        // SAFETY: all lanes execute this.
        unsafe {
            if THREE {
                // The small products come first, so that they are not rounded away one at a time.
                mma_sync_tiles(&part_a(1), &part_b(0), sums);
                mma_sync_tiles(&part_a(0), &part_b(1), sums);
            }
            mma_sync_tiles(&part_a(0), &part_b(0), sums);
        }
    }
}
