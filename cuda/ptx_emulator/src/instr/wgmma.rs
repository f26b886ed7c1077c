//! The instructions that the four warps of a warpgroup execute together: `wgmma`.

use super::{HalfTy, Slot};

/// Threads of a warpgroup.
pub(crate) const WARPGROUP: usize = 128;

/// The type of elements that `wgmma` multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WgmmaTy {
    Half(HalfTy),
    Tf32,
    E4m3,
}

impl WgmmaTy {
    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            WgmmaTy::Half(_) => 2,
            WgmmaTy::Tf32 => 4,
            WgmmaTy::E4m3 => 1,
        }
    }

    /// The k of its shape: 32 bytes of elements.
    pub fn k(self) -> usize {
        32 / self.bytes()
    }
}

#[derive(Debug)]
pub(crate) enum Wgmma {
    Fence,
    /// Groups the open multiplications.
    Commit,
    /// Waits for all groups except the `left` latest.
    Wait {
        left: u64,
    },
    Multiply(Multiply),
}

/// The location of A.
#[derive(Debug)]
pub(crate) enum Left {
    Descriptor { at: Slot, trans: bool },
    Registers(Box<[Slot]>),
}

/// `wgmma.mma_async` with `f32` accumulators.
#[derive(Debug)]
pub(crate) struct Multiply {
    pub ty: WgmmaTy,
    pub n: usize,
    pub d: Box<[Slot]>,
    pub a: Left,
    /// The descriptor of B.
    pub b: Slot,
    pub b_trans: bool,
    /// The predicate to add to the accumulators, and whether it is inverted.
    pub keep: (Slot, bool),
    /// Whether the elements of A and of B are negated.
    pub negate: [bool; 2],
}
