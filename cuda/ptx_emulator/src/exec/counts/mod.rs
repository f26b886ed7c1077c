//! Counts what warps do, in the same way as Nsight Compute.
//!
//! Threads run one at a time, so each leaves a trace of what counts. Lanes of a warp execute an instruction together if they
//! are in the same iterations of the loops around it and came through the same calls. Where all lanes of a warp wait at one
//! instruction, or have exited, their traces become the warp's requests.

mod access;
mod flop;
mod requests;
mod tally;
mod trace;

use core::cell::RefCell;

pub(crate) use tally::Tally;
pub(super) use trace::Trace;

use super::thread::{State, Thread};

/// Counts what the lanes of a warp did, if all wait at one instruction or have exited. No later action of a lane can be
/// joint with an earlier action of another.
pub(super) fn meet(lanes: &[Thread], traces: &mut [Trace], tally: &RefCell<Tally>) {
    let place = |(thread, trace): (&Thread, &Trace)| match (&thread.state, thread.frames.last()) {
        (State::Exited, _) => Some(None),
        (State::Waits(_), Some(frame)) => Some(Some((frame.function, frame.pc, trace.path()))),
        _ => None,
    };
    let mut places = lanes.iter().zip(&*traces).map(place);
    let first = places.next().flatten();
    if first.is_some() && places.all(|place| place == first) {
        tally.borrow_mut().add(traces);
    }
}

/// A counted action of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// Began a block; all instructions up to its end follow.
    Block,
    /// Its predicate was off.
    Off,
    /// Jumped to this instruction of the function.
    Branch,
    Global(Way),
    Shared(Way),
    /// Accessed memory of another block of the cluster.
    Cluster,
    Local(Way),
    Constant,
    /// A bulk copy, by its global address; copies from shared memory to another block's are excluded.
    Bulk(Way),
    /// A copy of a tensor box, by the bytes within the tensor.
    Box(Way),
    Collective(Collective),
}

/// The kind of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Way {
    Load,
    Store,
    Atomic,
    /// `cp.async`.
    Copy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collective {
    Shuffle,
    Vote,
    WarpBarrier,
    Barrier,
    ClusterBarrier,
    Mbarrier,
    Matrix,
}
