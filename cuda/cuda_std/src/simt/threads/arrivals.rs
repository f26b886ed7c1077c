//! The threads that have reached a barrier.

use core::panic::Location;

use super::super::collective;
use super::super::context::{Barrier, Collective, Request};
use super::relaxed::Relaxed64;

/// The threads that wait at a barrier of block or cluster.
#[derive(Default)]
pub(super) struct Arrivals {
    waiting: Relaxed64,
    /// The number of them with a true predicate.
    agreeing: Relaxed64,
    /// The call where the first of them waits, and its form.
    first: Relaxed64,
    /// 1 if another thread waits at another call, or at another copy of the call.
    pub is_mixed: Relaxed64,
}

impl Arrivals {
    /// Counts a thread. Returns whether it is the last.
    pub fn join(&self, request: &Request, threads: u64) -> bool {
        let form = match request.collective {
            Collective::Barrier(Barrier::Count(_)) => 1,
            Collective::Barrier(Barrier::And(_)) => 2,
            Collective::Barrier(Barrier::Or(_)) => 3,
            _ => 0,
        };
        let call = call(request.location, form);
        let waiting = self.waiting.add(1);
        if waiting == 1 {
            self.first.set(call);
        } else if self.first.get() != call {
            self.is_mixed.set(1);
        }
        if collective::agrees(request) {
            self.agreeing.add(1);
        }
        waiting == threads
    }

    /// Empties it; returns the number of threads with a true predicate.
    pub fn leave(&self) -> u64 {
        self.waiting.set(0);
        self.is_mixed.set(0);
        let agreeing = self.agreeing.get();
        self.agreeing.set(0);
        agreeing
    }
}

/// Returns a number for a call of a barrier. Different calls have different numbers, except with a probability of 2^-64;
/// copies of one call may have different numbers too. Miri copies the location for each thread, but not of the file's name.
fn call(location: &Location<'_>, form: u64) -> u64 {
    let file = (location.file().as_ptr().addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    file ^ (u64::from(location.line()) << 32 | u64::from(location.column()) << 2 | form)
}
