//! Fragments of the operands of `mma.sync`, read from tiles in shared memory.
//!
//! A tile of A holds `[rows, terms]` if A is stored by rows, and `[terms, rows]` if A is stored as its transpose. A tile of
//! B holds `[columns, terms]` if B is stored as its transpose, and `[terms, columns]` if it is stored by rows. In the first
//! form of each, the terms of a sum are neighbours (`ALONG_K`), and `ldmatrix` reads any type, because a fragment's row has
//! the same number of bytes in all. It transposes the second form of 16-bit numbers on the way.
//!
//! It cannot transpose `f32`, so there each lane loads single elements.

use cuda_std::half::{bf16, f16};
use cuda_std::mma::{self, FragmentA, FragmentB, FragmentC, ldmatrix, ldmatrix_trans, mma_sync_tiles, tf32};
use cuda_std::shared::SharedPtr;
use cuda_std::warp;

use super::copies::TileLayout;
use common_kernels::element::Number;

/// A warp's part of a tile of A or B.
#[derive(Clone, Copy)]
pub struct Fragments {
    layout: TileLayout,
    /// Byte offset of what the lane loads first.
    place: u32,
}

/// A type of the operands.
pub trait Operand: Number {
    /// Terms of a fragment.
    const TERMS: usize;
    /// The type that the tensor cores multiply.
    type Element: mma::Element;

    /// The part of a tile of A with the rows from `row` on.
    fn part_of_a<const ALONG_K: usize>(layout: TileLayout, row: u32) -> Fragments;

    /// The part of a tile of B with the columns from `col` on.
    fn part_of_b<const ALONG_K: usize>(layout: TileLayout, col: u32) -> Fragments;

    /// Loads the registers of A for the `k`th [`Self::TERMS`] terms.
    ///
    /// # Safety
    /// The tile at `stage` holds them. All lanes of the warp call this.
    unsafe fn load_a<const ALONG_K: usize, const M: usize>(
        part: Fragments,
        stage: SharedPtr<u8>,
        k: u32,
    ) -> [[u32; 4]; M];

    /// Loads the registers of B for the `k`th [`Self::TERMS`] terms.
    ///
    /// # Safety
    /// Same as for [`Operand::load_a`].
    unsafe fn load_b<const ALONG_K: usize, const N: usize>(
        part: Fragments,
        stage: SharedPtr<u8>,
        k: u32,
    ) -> [[u32; 2]; N];

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

/// Loads four matrices of a tile whose terms are neighbours: its `i`th 16 rows, and the `k`th 32 bytes of them.
///
/// # Safety
/// Same as for [`Operand::load_a`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load_along_k(
    Fragments { layout, place }: Fragments,
    stage: SharedPtr<u8>,
    k: u32,
    i: usize,
) -> [u32; 4] {
    let row = stage.wrapping_byte_add(layout.right(place, 2 * k));
    // SAFETY: all lanes execute this, and each has the address of a chunk in the tile.
    unsafe { ldmatrix(row.wrapping_byte_add(16 * i as u32 * layout.row_bytes())) }
}

/// Returns registers as they come from loads for 16 columns of B.
#[inline(always)]
fn columns<const N: usize>(mut load: impl FnMut(usize) -> [u32; 4]) -> [[u32; 2]; N] {
    const { assert!(N.is_multiple_of(2), "16 columns at a time") };
    let mut b = [[0; 2]; N];
    for j in 0..N / 2 {
        let [x, y, z, w] = load(j);
        [b[2 * j], b[2 * j + 1]] = [[x, y], [z, w]];
    }
    b
}

macro_rules! of_16_bits {
    ($($ty:ident),*) => {$(
        impl Operand for $ty {
            const TERMS: usize = 16;
            type Element = $ty;

            #[inline(always)]
            fn part_of_a<const ALONG_K: usize>(layout: TileLayout, row: u32) -> Fragments {
                let lane = warp::lane_id();
                let place = match ALONG_K {
                    1 => layout.place(row + lane % 16, lane / 16),
                    _ => layout.place(lane % 8 + lane / 16 * 8, row / 8 + lane / 8 % 2),
                };
                Fragments { layout, place }
            }

            #[inline(always)]
            fn part_of_b<const ALONG_K: usize>(layout: TileLayout, col: u32) -> Fragments {
                let lane = warp::lane_id();
                let place = match ALONG_K {
                    1 => layout.place(col + lane % 8 + lane / 16 * 8, lane / 8 % 2),
                    _ => layout.place(lane % 16, col / 8 + lane / 16),
                };
                Fragments { layout, place }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn load_a<const ALONG_K: usize, const M: usize>(
                part: Fragments,
                stage: SharedPtr<u8>,
                k: u32,
            ) -> [[u32; 4]; M] {
                // SAFETY: the caller's contract.
                core::array::from_fn(|i| unsafe {
                    match ALONG_K {
                        1 => load_along_k(part, stage, k, i),
                        _ => load_transposed(part, stage, k, i),
                    }
                })
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn load_b<const ALONG_K: usize, const N: usize>(
                part: Fragments,
                stage: SharedPtr<u8>,
                k: u32,
            ) -> [[u32; 2]; N] {
                // SAFETY: the caller's contract.
                columns(|j| unsafe {
                    match ALONG_K {
                        1 => load_along_k(part, stage, k, j),
                        _ => load_transposed(part, stage, k, j),
                    }
                })
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

/// Loads and transposes four matrices of 16-bit numbers: the `i`th 16 rows of A or columns of B, and the `k`th 16 terms.
///
/// # Safety
/// Same as for [`Operand::load_a`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load_transposed(
    Fragments { layout, place }: Fragments,
    stage: SharedPtr<u8>,
    k: u32,
    i: usize,
) -> [u32; 4] {
    let row = stage.wrapping_byte_add(layout.right(place, 2 * i as u32));
    // SAFETY: all lanes execute this, and each has the address of a chunk in the tile.
    unsafe { ldmatrix_trans(row.wrapping_byte_add(16 * k * layout.row_bytes())) }
}

/// Returns the number rounded to TF32, and the remainder. TF32 keeps all of that but the last bit or two. Infinity and NaN have
/// the remainder 0.
#[inline(always)]
pub(super) fn big_and_small(bits: u32) -> [u32; 2] {
    let x = f32::from_bits(bits);
    let big = tf32::from_f32(x);
    let left = x - big.to_f32();
    // For infinity and NaN the difference is NaN; if a finite number rounds to infinity, the difference is infinity.
    let small = if left.abs() < f32::INFINITY { left.to_bits() } else { 0 };
    [big.to_bits(), small]
}

/// Loads an element of a tile of `f32` whose terms are not neighbours: `side` rows of A or columns of B after the part's first
/// one, and term `term`, both plus what is the lane's own.
///
/// # Safety
/// Same as for [`Operand::load_a`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load_one(
    Fragments { layout, place }: Fragments,
    stage: SharedPtr<u8>,
    side: usize,
    term: u32,
) -> u32 {
    let at = stage.wrapping_byte_add(place).wrapping_byte_add(4 * side as u32 + term * layout.row_bytes());
    // SAFETY: the element lies in the tile.
    unsafe { at.cast().read() }
}

/// The lane's own element of such a tile: from row of A or column of B `side` on, the one that its group has.
#[inline(always)]
fn part_of_elements(layout: TileLayout, side: u32) -> Fragments {
    let (row, col) = FragmentB::<tf32>::position(warp::lane_id(), 0);
    Fragments { layout, place: layout.place(row as u32, 0) + 4 * (side + col as u32) }
}

impl Operand for f32 {
    const TERMS: usize = 8;
    type Element = tf32;

    #[inline(always)]
    fn part_of_a<const ALONG_K: usize>(layout: TileLayout, row: u32) -> Fragments {
        let lane = warp::lane_id();
        match ALONG_K {
            1 => Fragments { layout, place: layout.place(row + lane % 16, lane / 16) },
            _ => part_of_elements(layout, row),
        }
    }

    #[inline(always)]
    fn part_of_b<const ALONG_K: usize>(layout: TileLayout, col: u32) -> Fragments {
        let lane = warp::lane_id();
        match ALONG_K {
            1 => Fragments { layout, place: layout.place(col + lane % 8 + lane / 16 * 8, lane / 8 % 2) },
            _ => part_of_elements(layout, col),
        }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load_a<const ALONG_K: usize, const M: usize>(
        part: Fragments,
        stage: SharedPtr<u8>,
        k: u32,
    ) -> [[u32; 4]; M] {
        let mut a = [[0; 4]; M];
        for i in 0..M {
            // SAFETY: the caller's contract.
            a[i] = unsafe {
                if ALONG_K == 1 {
                    load_along_k(part, stage, k, i)
                } else {
                    let one = |row, term| load_one(part, stage, 16 * i + row, 8 * k + term);
                    [one(0, 0), one(8, 0), one(0, 4), one(8, 4)]
                }
            };
        }
        a
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load_b<const ALONG_K: usize, const N: usize>(
        part: Fragments,
        stage: SharedPtr<u8>,
        k: u32,
    ) -> [[u32; 2]; N] {
        if ALONG_K == 1 {
            // SAFETY: the caller's contract.
            return columns(|j| unsafe { load_along_k(part, stage, k, j) });
        }
        let mut b = [[0; 2]; N];
        for j in 0..N {
            // SAFETY: the caller's contract.
            b[j] = [0, 4].map(|term| unsafe { load_one(part, stage, 8 * j, 8 * k + term) });
        }
        b
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn multiply<const THREE: bool, const M: usize, const N: usize>(
        a: &[[u32; 4]; M],
        b: &[[u32; 2]; N],
        sums: &mut [[FragmentC; N]; M],
    ) {
        let [big, small] = [0, 1];
        let parts = |register: u32| match THREE {
            true => big_and_small(register),
            false => [tf32::from_f32(f32::from_bits(register)).to_register(), 0],
        };
        let (a, b) = (a.map(|it| it.map(parts)), b.map(|it| it.map(parts)));
        let part_a = |i: usize| a.map(|it| FragmentA::<tf32>::from_registers(it.map(|parts| parts[i])));
        let part_b = |i: usize| b.map(|it| FragmentB::<tf32>::from_registers(it.map(|parts| parts[i])));
        // SAFETY: all lanes execute this.
        unsafe {
            if THREE {
                // The small products come first, so that they are not rounded away one at a time.
                mma_sync_tiles(&part_a(small), &part_b(big), sums);
                mma_sync_tiles(&part_a(big), &part_b(small), sums);
            }
            mma_sync_tiles(&part_a(big), &part_b(big), sums);
        }
    }
}
