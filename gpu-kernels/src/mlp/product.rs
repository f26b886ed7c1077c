//! The ways to compute a product of matrices that the fused kernels come in.

use core::marker::PhantomData;
use core::ops::Range;

use cuda_std::mem::f32x4;

use super::matrix::{OperandA, OperandB};
use super::operand::{Operand, Operands, TensorOperand};
use super::serial;
use super::slab::shared_vectors;
use super::tensor_tile::{self, TensorTerms, TensorTile};
use super::tile::Tile;

/// What host code has to know of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of a block's outputs; 0 where a block computes any number of them.
    pub rows: u32,
    /// Columns of a block's outputs.
    pub cols: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Whether the blocks of a cluster share the terms of the sums.
    pub is_cluster: bool,
    /// To what the operands are rounded before they are multiplied.
    pub operands: Operands,
}

/// A way to compute a product.
pub trait Product {
    /// What host code has to know of it.
    const SHAPE: Shape;
    /// Vectors of shared memory that it needs.
    const SHARED: usize;

    /// Computes tile `tile` of `tile_rows` rows of tiles, counted along the rows, and calls `write(row, col, sums)` for
    /// neighbouring sums of a row: for each output of the product that lies in the tile once, in one thread. Where it pays
    /// to prefetch what `write` reads, it calls `soon(row, col)` some time before.
    ///
    /// # Safety
    /// Called by all threads of a block, or of a cluster if the shape says so, with the same arguments. `shared` is the
    /// block's. There are tiles for all rows, and the operands agree on k, of which there is one term at least.
    unsafe fn product(
        shared: *mut f32x4,
        tile: u32,
        tile_rows: u32,
        a: OperandA,
        b: OperandB,
        soon: impl Fn(usize, usize),
        write: impl FnMut(usize, usize, &[f32]),
    );
}

macro_rules! tiles {
    ($($(#[$doc:meta])* $name:ident = $bm:literal x $bn:literal, $tm:literal x $tn:literal, $bk:literal / $groups:literal, cluster: $cluster:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl Product for $name {
            const SHAPE: Shape = Shape {
                rows: $bm,
                cols: $bn,
                threads: ($bm / $tm * $bn / $tn * $groups) as u32,
                is_cluster: $cluster,
                operands: Operands::F32,
            };
            const SHARED: usize = shared_vectors($bm, $bn, $bk, $groups, 0);

            #[inline(always)]
            unsafe fn product(
                shared: *mut f32x4,
                tile: u32,
                _: u32,
                a: OperandA,
                b: OperandB,
                _: impl Fn(usize, usize),
                write: impl FnMut(usize, usize, &[f32]),
            ) {
                const THREADS: usize = <$name as Product>::SHAPE.threads as usize;
                type Of = Tile<$bm, $bn, $tm, $tn, $bk, $groups>;
                // SAFETY: the caller's contract.
                unsafe {
                    Of::product::<
                        Of,
                        { $bm * $bk / 4 / THREADS },
                        { $bk * $bn / 4 / THREADS },
                        $cluster,
                    >(shared, place(tile, $bn, b), a, b, write)
                };
            }
        }
    )*};
}

tiles! {
    /// 64 x 64 outputs, for products of many tiles.
    Tile64x64 = 64 x 64, 8 x 4, 32 / 2, cluster: false;
    /// 32 x 32 outputs, for products of few tiles: four groups of threads share the terms.
    Tile32x32 = 32 x 32, 4 x 4, 128 / 4, cluster: false;
    /// The same, whose terms the blocks of a cluster share too: for products of few tiles and long sums.
    Cluster32x32 = 32 x 32, 4 x 4, 128 / 4, cluster: true;
}

/// Row and column of tile `tile` of a product with this operand, of tiles `width` columns wide.
#[inline(always)]
fn place(tile: u32, width: u32, b: OperandB) -> [usize; 2] {
    let across = (b.cols() as u32).div_ceil(width);
    [(tile / across) as usize, (tile % across) as usize]
}

/// 32 x 32 outputs by tensor cores, of operands that are rounded to `T`; with `CLUSTER` the blocks of a cluster share the
/// terms.
#[derive(Debug)]
pub struct Tensor32x32<T, const CLUSTER: bool = false>(PhantomData<T>);

/// As above, with a cluster.
pub type TensorCluster32x32<T> = Tensor32x32<T, true>;

impl<T: TensorOperand, const CLUSTER: bool> Product for Tensor32x32<T, CLUSTER> {
    const SHAPE: Shape = Shape {
        rows: tensor_tile::SIDE as u32,
        cols: tensor_tile::SIDE as u32,
        threads: tensor_tile::THREADS as u32,
        is_cluster: CLUSTER,
        operands: T::OPERANDS,
    };
    const SHARED: usize = tensor_tile::SHARED;

    #[inline(always)]
    unsafe fn product(
        shared: *mut f32x4,
        tile: u32,
        _: u32,
        a: OperandA,
        b: OperandB,
        _: impl Fn(usize, usize),
        write: impl FnMut(usize, usize, &[f32]),
    ) {
        const QUADS: usize = tensor_tile::QUADS;
        let place = place(tile, tensor_tile::SIDE as u32, b);
        // SAFETY: the caller's contract.
        unsafe { TensorTile::product::<TensorTerms<T>, QUADS, QUADS, CLUSTER>(shared, place, a, b, write) };
    }
}

/// A thread for the rows of a tile, of operands that are rounded to `T`: for a CPU alone.
#[derive(Debug)]
pub struct Serial<T = f32>(PhantomData<T>);

impl<T: Operand> Product for Serial<T> {
    const SHAPE: Shape =
        Shape { rows: 0, cols: serial::WIDTH as u32, threads: 1, is_cluster: false, operands: T::OPERANDS };
    const SHARED: usize = serial::SHARED / 4;

    #[inline(always)]
    unsafe fn product(
        shared: *mut f32x4,
        tile: u32,
        tile_rows: u32,
        a: OperandA,
        b: OperandB,
        soon: impl Fn(usize, usize),
        mut write: impl FnMut(usize, usize, &[f32]),
    ) {
        // Whole rows where the lines that hold A's columns, and those that are written, hold more than a panel's: they are
        // in the cache for the next panel.
        let is_whole = matches!(a, OperandA::Transposed(_));
        let across = if is_whole { 1 } else { (b.cols() as u32).div_ceil(serial::WIDTH as u32) };
        let rows = a.rows() + usize::from(a.has_ones());
        let rows = share(rows, (tile / across) as usize, tile_rows as usize);
        let first = (tile % across) as usize * serial::WIDTH;
        let end = if is_whole { b.cols() } else { first + 1 };
        for col in (first..end).step_by(serial::WIDTH) {
            // SAFETY: the caller's contract.
            unsafe { serial::product::<T>(shared.cast(), rows.clone(), col, a, b, &soon, &mut write) };
        }
    }
}

/// Part `part` of `parts` parts of `0..len`, equal but for the last ones, which may be empty.
fn share(len: usize, part: usize, parts: usize) -> Range<usize> {
    let size = len.div_ceil(parts).next_multiple_of(serial::ROWS);
    (part * size).min(len)..((part + 1) * size).min(len)
}

/// Calls `to = f(to, from)` for neighbouring elements: four at a time where they lie so, and as many as the sums of a
/// thread of its own.
///
/// # Safety
/// `to` is valid for as many elements as `from`, and no other code uses them.
#[inline(always)]
pub(super) unsafe fn zip_in_place(to: *mut f32, from: &[f32], f: impl Fn(f32, f32) -> f32) {
    // SAFETY: the caller's contract.
    unsafe {
        if let &[x, y, z, w] = from
            && (to as usize).is_multiple_of(16)
        {
            let old = *to.cast::<f32x4>();
            *to.cast() = f32x4::new(f(old.x, x), f(old.y, y), f(old.z, z), f(old.w, w));
            return;
        }
        if let Some(from) = from.as_array::<{ serial::WIDTH }>() {
            // Read as a whole, written as a whole: vectors for a compiler that has them.
            let to = to.cast::<[f32; serial::WIDTH]>();
            let mut new = to.read_unaligned();
            for (new, from) in new.iter_mut().zip(from) {
                *new = f(*new, *from);
            }
            to.write_unaligned(new);
            return;
        }
        for (i, &from) in from.iter().enumerate() {
            *to.add(i) = f(*to.add(i), from);
        }
    }
}
