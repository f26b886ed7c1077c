//! Threads that wait for a phase of a barrier in shared memory, or for a numbered barrier. Each checks on its own, so that
//! only the barrier's atomics order it after those that arrived. Stuck threads are detected without checks by other threads:
//! when no thread runs, each waiting thread notes that its phase is not over, and the last one knows that no phase is.

use super::super::super::context::{Request, Wait};
use super::super::encoding::Word;
use super::super::relaxed::Relaxed64;
use super::super::sleep;
use super::Waiter;

/// The threads that wait for a phase; changed under the lock.
#[derive(Default)]
pub(super) struct Phases {
    waiting: Relaxed64,
    /// The number of them that have checked since no thread runs.
    noted: Relaxed64,
    /// The number of times that one of them has gone on, which invalidates earlier notes.
    rounds: Relaxed64,
}

impl Phases {
    /// Returns whether a thread waits for a phase, and so detects on its own whether all are stuck.
    pub fn any(&self) -> bool {
        self.waiting.get() > 0
    }
}

impl Waiter<'_> {
    /// Waits until the phase is over, and counts as waiting meanwhile.
    pub(super) fn wait_for_phase(&self, request: &Request, wait: &Wait) {
        let shared = self.table.place(self.number).0.shared;
        // SAFETY: this thread waits for it.
        let is_over = || unsafe { wait.is_over(shared) };
        if self.table.quiet.is_some() {
            // Blocks wait for each other's words too, and only all waits together show that no thread can go on.
            return self.wait_quietly(request, is_over);
        }
        let (table, waiter) = (self.table, &self.table.waiters[self.number as usize]);
        let (running, Phases { waiting, noted, rounds }) = (&table.running, &table.phases);
        table.lock.take();
        waiting.add(1);
        let word = waiter.ask.put(request.collective);
        table.sit_down(self.number, word, request);
        let mut round = u64::MAX;
        while !is_over() {
            if running.get() == 0 && round != rounds.get() {
                round = rounds.get();
                noted.add(1);
                if noted.get() == waiting.get() {
                    table.fail(table.why_stuck());
                }
            }
            table.lock.free();
            self.look_for_end(request);
            if cfg!(miri) {
                sleep::yield_now()
            } else {
                std::thread::yield_now()
            }
            table.lock.take();
        }
        waiting.sub(1);
        noted.set(0);
        rounds.add(1);
        waiter.ask.set(Word::RUNS);
        running.add(1);
        table.lock.free();
    }
}
