//! Copies of boxes of tensors, described by a tensor map.

use super::{Addr, Slot};

/// A box of a tensor.
#[derive(Debug)]
pub(crate) struct TensorBox {
    /// The generic address of the tensor map.
    pub map: Addr,
    /// Coordinates of its first element, the innermost first.
    pub at: Box<[Slot]>,
}

/// `cp.async.bulk.tensor` to shared memory.
#[derive(Debug)]
pub(crate) struct TensorLoad {
    pub target: Addr,
    pub source: TensorBox,
    pub barrier: Addr,
    /// A bit for each block of the cluster that receives the box; `None` for the block of the address.
    pub blocks: Option<Slot>,
    pub policy: Option<Slot>,
}

/// `cp.async.bulk.tensor` to global memory.
#[derive(Debug)]
pub(crate) struct TensorStore {
    pub target: TensorBox,
    pub source: Addr,
    pub policy: Option<Slot>,
}
