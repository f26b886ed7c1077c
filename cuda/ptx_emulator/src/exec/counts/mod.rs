//! Counts what warps do, in the same way as Nsight Compute.
//!
//! Threads run one at a time, so each leaves a trace of what counts. Lanes of a warp execute an instruction together if they
//! are in the same iterations of the loops around it and came through the same calls. Where all lanes of a warp wait at one
//! instruction, or have exited, their traces become the warp's requests.

pub(crate) mod access;
pub(crate) mod event;
mod requests;
pub(crate) mod tally;
pub(crate) mod trace;

use core::cell::RefCell;

use super::thread::{State, Thread};
use tally::Tally;
use trace::Trace;

/// Counts what the lanes of a warp did, if all wait at one instruction or have exited. No later action of a lane can be
/// joint with an earlier action of another.
pub(crate) fn meet(lanes: &[Thread], traces: &mut [Trace], tally: &RefCell<Tally>) {
    let place = |(thread, trace): (&Thread, &Trace)| match (&thread.state, thread.frames.last()) {
        (State::Exited, _) => Some(None),
        (State::Waits(_), Some(frame)) => Some(Some((frame.function, frame.pc, trace.path()))),
        _ => None,
    };
    let mut places = lanes.iter().zip(&*traces).map(place);
    let first = places.next().flatten();
    if first.is_some() && places.all(|place| place == first) {
        tally.borrow_mut().add(traces.iter_mut().map(|trace| core::mem::take(&mut trace.events)));
    }
}
