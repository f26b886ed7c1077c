//! The instructions that a whole warp executes together on matrices.

use super::{Addr, HalfTy, Slot};

/// A type of the elements that are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MmaTy {
    Half(HalfTy),
    Tf32,
}

#[derive(Debug)]
pub(crate) enum Tensor {
    /// `mma.sync.aligned` of 16 rows, 8 columns, and sums in f32.
    Mma { ty: MmaTy, k: usize, d: Box<[Slot]>, a: Box<[Slot]>, b: Box<[Slot]>, c: Box<[Slot]> },
    /// `ldmatrix`, a matrix for each register.
    Load { at: Addr, trans: bool, d: Box<[Slot]> },
    /// `stmatrix`.
    Store { at: Addr, trans: bool, values: Box<[Slot]> },
    /// `movmatrix`.
    Move { d: Slot, a: Slot },
}
