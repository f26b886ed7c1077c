//! The terms of a [tile](super::tile) by tensor cores. A warp is a group of threads: it computes all outputs from its own 16
//! terms of a slab.
//!
//! A lane reads every fourth of these terms, from A for its rows and from B for its columns, and rounds them on the way into
//! the fragments. The position of a term in a fragment does not matter as long as both operands agree. So lanes of
//! neighbouring rows and terms can read different banks.

use core::marker::PhantomData;

use cuda_std::mem::f32x2;
use cuda_std::mma::FragmentC;

use super::operand::TensorOperand;
use super::slab::{Slabs, Terms, shared_vectors};
use super::tile::Tile;

/// Rows and columns of the tile.
pub const SIDE: usize = 32;
/// Terms of a slab.
const DEPTH: usize = 128;
/// Terms of a slab that a warp has.
const TERMS: usize = 16;
/// Warps of the block.
const WARPS: usize = DEPTH / TERMS;
/// Threads of the block.
pub const THREADS: usize = 32 * WARPS;
/// Matrices of 16 rows in a tile.
const M: usize = SIDE / 16;
/// Matrices of 8 columns in a tile.
const N: usize = SIDE / 8;
/// Vectors of a slab that a thread copies.
pub const QUADS: usize = SIDE * DEPTH / 4 / THREADS;

/// The tile, for the layout of its slabs and sums: a group of 32 threads per warp.
pub type TensorTile = Tile<SIDE, SIDE, { SIDE / 4 }, { SIDE / 8 }, DEPTH, WARPS>;

/// Vectors of shared memory that a tile needs.
pub const SHARED: usize = shared_vectors(SIDE, SIDE, DEPTH, WARPS, PAD);

/// Floats between two rows of a slab along m or n: four rows and eight columns lie in different banks.
const PAD: usize = 8;

/// Terms whose operands are rounded to `T`.
pub struct TensorTerms<T>(PhantomData<T>);

impl<T: TensorOperand> Terms for TensorTerms<T> {
    type Sums = [[FragmentC; N]; M];
    const ZERO: Self::Sums = [[FragmentC::ZERO; N]; M];
    const PAD: usize = PAD;

    #[inline(always)]
    unsafe fn add(sums: &mut Self::Sums, slabs: &Slabs, tid: usize, quads: usize) {
        let (warp, lane) = (tid / 32, tid % 32);
        // The same branch for all lanes of the warp.
        if TERMS * warp >= 4 * quads {
            return;
        }
        let (first, group) = (TERMS * warp + lane % 4, lane / 4);
        let scale = [slabs.a.is_gradient(), slabs.b.is_gradient()].map(|is| T::OPERANDS.scale(is));
        // SAFETY: rows, columns and terms lie in the slabs; all lanes of the warp call `multiply`.
        unsafe {
            let a = core::array::from_fn(|i| {
                core::array::from_fn(|half| {
                    let row = 16 * i + 8 * half + group;
                    core::array::from_fn(|j| {
                        scale[0] * *slabs.at_a.add(row * slabs.pitch_m + (first + 4 * j) * slabs.pitch_k)
                    })
                })
            });
            let b = core::array::from_fn(|i| {
                let column = slabs.at_b.add(8 * i + group);
                core::array::from_fn(|j| scale[1] * *column.add((first + 4 * j) * (SIDE + PAD)))
            });
            T::multiply(&a, &b, sums);
        }
    }

    #[inline(always)]
    unsafe fn store(sums: &Self::Sums, to: *mut f32, slabs: &Slabs, tid: usize) {
        let unscale =
            1.0 / (T::OPERANDS.scale(slabs.a.is_gradient()) * T::OPERANDS.scale(slabs.b.is_gradient()));
        // Two neighbours, and the two in the row 8 further down.
        let (row, col) = FragmentC::position(tid as u32 % 32, 0);
        for i in 0..M {
            for j in 0..N {
                let [a, b, c, d] = sums[i][j].0.map(|sum| sum * unscale);
                // SAFETY: the elements lie in the tile and belong to this lane; the column is even.
                unsafe {
                    let to = to.add((16 * i + row) * SIDE + 8 * j + col);
                    *to.cast() = f32x2::new(a, b);
                    *to.add(8 * SIDE).cast() = f32x2::new(c, d);
                }
            }
        }
    }
}
