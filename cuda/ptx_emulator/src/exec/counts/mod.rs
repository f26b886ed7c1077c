//! What warps do, as Nsight Compute counts it.
//!
//! Threads run one by one, so each leaves a trace of what counts. The lanes of a warp count as executing an instruction
//! together if they are in the same iterations of the loops around it, and came by the same calls. Where all lanes of a warp
//! wait at one place, or have exited, their traces become requests of the warp.

mod access;
mod flop;
mod requests;
mod tally;
mod trace;

use core::cell::RefCell;

pub(crate) use tally::Tally;
pub(super) use trace::Trace;

use super::thread::{State, Thread};

/// Counts what the lanes of a warp did, if all wait at one place or have exited: nothing that one of them does from now on is
/// done together with what another did before.
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

/// What a thread did at an instruction that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// It began a block; all instructions up to its end follow.
    Block,
    /// Its predicate was off.
    Off,
    /// It went on at the instruction of this number in the function.
    Branch,
    Global(Way),
    Shared(Way),
    /// Memory of another block of the cluster.
    Cluster,
    Local(Way),
    Constant,
    /// A bulk copy, by its address in global memory, but for a copy from shared memory to that of another block.
    Bulk(Way),
    /// A copy of a box of a tensor, by the bytes within the tensor.
    Box(Way),
    Collective(Collective),
}

/// How memory is accessed.
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
