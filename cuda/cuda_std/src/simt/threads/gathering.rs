//! The threads of a barrier that have come to it.

use super::super::context::{Barrier, Collective, Request};
use super::super::rendezvous;
use super::latest::Latest;

/// The threads that wait at a barrier of block or cluster.
#[derive(Default)]
pub(super) struct Gathering {
    waiting: Latest,
    /// Those of them whose predicate is true.
    agreeing: Latest,
    /// The call where the first of them waits, and its form.
    first: Latest,
    /// 1 if another one waits at another call, or at another copy of it.
    pub is_mixed: Latest,
}

impl Gathering {
    /// Counts a thread in. Whether it is the last.
    pub fn join(&self, request: &Request, threads: u64) -> bool {
        let form = match request.collective {
            Collective::Barrier(Barrier::Count(_)) => 1,
            Collective::Barrier(Barrier::And(_)) => 2,
            Collective::Barrier(Barrier::Or(_)) => 3,
            _ => 0,
        };
        let call = (core::ptr::from_ref(request.location).addr() as u64) << 2 | form;
        let waiting = self.waiting.add(1);
        if waiting == 1 {
            self.first.set(call);
        } else if self.first.get() != call {
            self.is_mixed.set(1);
        }
        if rendezvous::agrees(request) {
            self.agreeing.add(1);
        }
        waiting == threads
    }

    /// Empties it; the number of threads whose predicate was true.
    pub fn leave(&self) -> u64 {
        self.waiting.set(0);
        self.is_mixed.set(0);
        let agreeing = self.agreeing.get();
        self.agreeing.set(0);
        agreeing
    }
}
