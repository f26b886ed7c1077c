//! Barriers in shared memory.

use super::{Addr, Slot};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MbarrierKind {
    Init,
    Inval,
    /// With the number of bytes to expect, or of arrivals.
    Arrive {
        expects: bool,
    },
    ExpectTx,
    CompleteTx,
    /// By parity, or by the state that an arrival returned. An instruction that may suspend the thread only polls.
    Wait {
        parity: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Mbarrier {
    pub kind: MbarrierKind,
    pub at: Addr,
    /// The state or predicate.
    pub d: Slot,
    /// Arrivals, bytes, state or parity.
    pub a: Slot,
}
