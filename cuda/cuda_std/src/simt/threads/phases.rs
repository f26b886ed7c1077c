//! Threads that wait for a phase of a barrier in shared memory. Each looks for itself, so that the barrier's atomics order
//! it after those that arrived, and nothing else does.

use super::super::super::context::{Collective, Request};
use super::super::encoding::Word;
use super::super::sleep;
use super::{Table, Waiter};
use crate::barrier::host;

impl Waiter<'_> {
    /// Waits until the phase is over, and counts as waiting meanwhile.
    pub(super) fn wait_for_phase(&self, request: &Request, (barrier, parity): (*mut u64, u32)) {
        let (table, waiter) = (self.table, &self.table.waiters[self.number as usize]);
        table.lock.take();
        let word = waiter.ask.put(request.collective);
        table.sit_down(self.number, word, request);
        table.lock.free();
        // SAFETY: this thread waits for it.
        while unsafe { !host::can_go_on(barrier, parity) } {
            self.leave_if_stopped(request);
            if cfg!(miri) { sleep::yield_now() } else { std::thread::yield_now() }
        }
        table.lock.take();
        waiter.ask.set(Word::RUNS);
        table.running.add(1);
        table.lock.free();
    }
}

impl Table<'_> {
    /// Whether a thread waits for a phase that is over, and will see so.
    pub(super) fn has_phase_left(&self) -> bool {
        self.waiters.iter().any(|waiter| match waiter.ask.read() {
            // SAFETY: the thread waits for it.
            Some(Collective::Phase { barrier, parity }) => unsafe { host::can_go_on(barrier, parity) },
            _ => false,
        })
    }
}
