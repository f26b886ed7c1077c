//! The variants of the matrix multiplication in the fused kernels.

use core::marker::PhantomData;
use core::ops::Range;

use cuda_std::mem::f32x4;

use super::matrix::{OperandA, OperandB};
use super::operand::{Operand, Operands, TensorOperand};
use super::serial;
use super::slab::shared_vectors;
use super::tensor_tile::{self, TensorTerms, TensorTile};
use super::tile::Tile;

/// What host code must know about a multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of a block's outputs; 0 if a block computes any number of them.
    pub rows: u32,
    /// Columns of a block's outputs.
    pub cols: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Whether the blocks of a cluster share the terms of the sums.
    pub is_cluster: bool,
    /// The precision to which the operands are rounded.
    pub operands: Operands,
}

/// A variant of the matrix multiplication.
pub trait Product {
    /// What host code must know about it.
    const SHAPE: Shape;
    /// Vectors of shared memory that it uses.
    const SHARED: usize;

    /// Computes tile `tile`, counted along the rows, of `tile_rows` rows of tiles. Calls `write(row, col, sums)` for
    /// neighbouring sums in a row: once for each output in the tile, in one thread. If it pays to prefetch what `write`
    /// reads, it calls `soon(row, col)` some time before.
    ///
    /// # Safety
    /// All threads of a block, or of a cluster if the shape has one, call this with the same arguments. `shared` belongs to
    /// the block. There are tiles for all rows, and the operands have the same k, at least 1.
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
    /// 64 x 64 outputs, for results with many tiles.
    Tile64x64 = 64 x 64, 8 x 4, 32 / 2, cluster: false;
    /// 32 x 32 outputs, for results with few tiles: four groups of threads share the terms.
    Tile32x32 = 32 x 32, 4 x 4, 128 / 4, cluster: false;
    /// The same, but the blocks of a cluster also share the terms: for few tiles and long sums.
    Cluster32x32 = 32 x 32, 4 x 4, 128 / 4, cluster: true;
}

/// Returns the row and column of tile `tile` of a result with this operand, with tiles `width` columns wide.
#[inline(always)]
fn place(tile: u32, width: u32, b: OperandB) -> [usize; 2] {
    let across = (b.cols() as u32).div_ceil(width);
    [(tile / across) as usize, (tile % across) as usize]
}

/// 32 x 32 outputs by tensor cores, with operands rounded to `T`; with `CLUSTER` the blocks of a cluster share the terms.
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

/// One thread for the rows of a tile, with operands rounded to `T`: only for a CPU.
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
        // Whole rows if the cache lines of A's columns, and those that are written, hold more than a panel's: the next panel
        // finds them in the cache.
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

/// Returns part `part` of `parts` parts of `0..len`. They are equal except the last ones, which may be empty.
fn share(len: usize, part: usize, parts: usize) -> Range<usize> {
    let size = len.div_ceil(parts).next_multiple_of(serial::ROWS);
    (part * size).min(len)..((part + 1) * size).min(len)
}

/// Calls `to = f(to, from)` for neighbouring elements: as a vector if there are four aligned ones, or [`serial::WIDTH`] of
/// them.
///
/// # Safety
/// `to` is valid for the length of `from`, and no other code uses its elements.
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
            // Read as a whole, written as a whole, so that the compiler can use vectors.
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
