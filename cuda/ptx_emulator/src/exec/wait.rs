//! What a thread waits for, with its operands.

use crate::instr::{Slot, Ty};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Barrier(BarrierWait),
    Cluster {
        aligned: bool,
    },
    Warp(WarpWait),
    /// For the other threads of the warpgroup, at an instruction that all execute.
    Warpgroup,
    ActiveMask {
        d: Slot,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BarrierWait {
    pub id: u32,
    /// Threads that take part; `None` for all.
    pub count: Option<u32>,
    pub aligned: bool,
    /// The reduction, and the thread's predicate.
    pub red: Option<(BarrierRed, bool)>,
    pub d: Slot,
}

/// The reduction of a barrier's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierRed {
    Popc,
    And,
    Or,
}

/// An operation of the lanes of a mask. All execute the same row with the same type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WarpWait {
    pub kind: (u16, Ty),
    pub mask: u32,
    pub a: u64,
    pub b: u32,
    pub c: u32,
    pub d: Slot,
    pub p: Slot,
}

/// The waits of the lanes of a warp.
pub(crate) type Lanes = [Option<WarpWait>; 32];
