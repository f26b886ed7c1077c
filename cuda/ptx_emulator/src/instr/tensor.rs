//! Matrix instructions that a whole warp executes together.

use super::{Addr, HalfTy, Slot};

/// The type of multiplied elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MmaTy {
    Half(HalfTy),
    Tf32,
}

#[derive(Debug)]
pub(crate) enum Tensor {
    /// `mma.sync.aligned` of 16 rows and 8 columns, with f32 accumulators.
    Mma { ty: MmaTy, k: usize, d: Box<[Slot]>, a: Box<[Slot]>, b: Box<[Slot]>, c: Box<[Slot]> },
    /// `ldmatrix`, one matrix per register.
    Load { at: Addr, trans: bool, d: Box<[Slot]> },
    /// `stmatrix`.
    Store { at: Addr, trans: bool, values: Box<[Slot]> },
    /// `movmatrix`.
    Move { d: Slot, a: Slot },
}
