//! Detects that no thread of a cooperative grid can still write a word that others wait for.
//!
//! Nothing here orders anything, as everywhere in this scheduler. Threads that wait for words poll them. No thread can
//! continue if no thread runs and each waiting thread has checked often enough since the last one continued: earlier
//! writes have reached it by then.

use super::relaxed::{Relaxed32, Relaxed64};

/// The number of checks before a thread is sure. Under Miri a load may return an older value at random.
const LOOKS: u32 = 64;

/// The threads of a cooperative grid.
pub(super) struct Quiet {
    /// Threads that neither wait nor have returned.
    active: Relaxed64,
    /// The number of times that threads have gone on from a wait.
    changes: Relaxed64,
    /// Guards the fields below.
    lock: Relaxed32,
    /// Threads that wait for words.
    waiting: Relaxed64,
    /// The number of them that are sure.
    sure: Relaxed64,
    /// The value of `changes` for which they are sure.
    sure_at: Relaxed64,
    is_stuck: Relaxed64,
}

/// What a thread has seen in its wait.
#[derive(Default)]
pub(super) struct Looks {
    in_vain: u32,
    changes: u64,
}

impl Quiet {
    /// Creates the state of `threads` threads, all running.
    pub fn new(threads: u64) -> Self {
        let quiet = Self {
            active: Relaxed64::default(),
            changes: Relaxed64::default(),
            lock: Relaxed32::default(),
            waiting: Relaxed64::default(),
            sure: Relaxed64::default(),
            sure_at: Relaxed64::default(),
            is_stuck: Relaxed64::default(),
        };
        quiet.active.set(threads);
        quiet
    }

    /// Notes that threads go on from a barrier or an operation of their warp, before the last one notes that it has stopped.
    pub fn go_on(&self, threads: u64) {
        self.active.add(threads);
        self.changes.add(1);
    }

    /// Notes that a thread waits for others, or has returned.
    pub fn stop(&self) {
        self.active.sub(1);
    }

    /// Notes that a thread begins to wait for words.
    pub fn begin_wait(&self) {
        self.lock.take();
        self.waiting.add(1);
        self.lock.free();
        self.active.sub(1);
    }

    /// Notes that a thread's wait for words is over.
    pub fn end_wait(&self) {
        self.go_on(1);
        self.lock.take();
        self.waiting.sub(1);
        self.lock.free();
    }

    /// Notes that a thread has checked without success. Returns whether no thread can continue.
    pub fn has_looked(&self, looks: &mut Looks) -> bool {
        let changes = self.changes.get();
        if self.active.get() != 0 || looks.changes != changes {
            *looks = Looks { in_vain: 0, changes };
            return false;
        }
        looks.in_vain = looks.in_vain.saturating_add(1);
        if looks.in_vain != LOOKS {
            return false;
        }
        self.lock.take();
        if self.sure_at.get() != changes {
            self.sure_at.set(changes);
            self.sure.set(0);
        }
        let sure = self.sure.add(1);
        let is_stuck = sure == self.waiting.get() && self.active.get() == 0 && self.changes.get() == changes;
        if is_stuck {
            self.is_stuck.set(1);
        }
        self.lock.free();
        is_stuck
    }

    /// Returns whether no thread could continue.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck.get() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(quiet: &Quiet, looks: &mut Looks, times: u32) -> bool {
        (0..times).any(|_| quiet.has_looked(looks))
    }

    #[test]
    fn nobody_is_stuck_while_one_runs_or_has_just_gone_on() {
        let quiet = Quiet::new(3);
        let (mut first, mut second) = (Looks::default(), Looks::default());
        quiet.begin_wait();
        assert!(!looks(&quiet, &mut first, 1000), "two run");
        quiet.begin_wait();
        quiet.stop();
        assert!(!looks(&quiet, &mut first, 1000), "the other one has not looked");
        assert!(!looks(&quiet, &mut second, LOOKS - 1));
        // It sees what it waits for after all, and waits again.
        quiet.end_wait();
        assert!(!looks(&quiet, &mut first, 1000), "one runs");
        quiet.begin_wait();
        assert!(!looks(&quiet, &mut first, 1000) && !quiet.is_stuck());
        assert!(looks(&quiet, &mut second, 1000) && quiet.is_stuck());
    }
}
