//! Threads that wait for a phase of a barrier in shared memory, or for a numbered barrier: each continues on its own once
//! that is over.

use super::super::context::{Collective, Request};
use super::super::fault::Fault;
use super::super::shared::BlockShared;
use super::seeded::Seeded;
use super::{Scheduler, Slot, State};

impl Slot {
    /// Returns whether it waits for a phase that is over, and first performs the copies that the phase lacks.
    fn has_phase_left(&self, shared: &BlockShared) -> bool {
        let Some(Request { collective: Collective::Wait(wait), .. }) = self.request() else { return false };
        // SAFETY: the thread waits for it.
        unsafe { wait.is_over(shared) }
    }
}

impl Scheduler<'_> {
    /// Resumes the threads whose phase is over. Returns whether there were any.
    pub(super) fn run_phases(&mut self) -> Result<bool, Box<Fault>> {
        let mut progress = false;
        if self.waits_for_phase() {
            for thread in 0..self.slots.len() {
                if self.slots[thread].has_phase_left(self.block.shared) {
                    progress = true;
                    self.resume(thread)?;
                }
            }
        }
        Ok(progress)
    }

    /// Does the same in the order of the seed: the threads go on in the next steps.
    pub(super) fn release_phases(&self, seeded: &mut Seeded) -> bool {
        self.waits_for_phase()
            && seeded.release_if(&self.slots, |slot| slot.has_phase_left(self.block.shared))
    }

    /// Returns whether another block may end a phase that a thread here waits for.
    pub(super) fn may_be_helped(&self) -> bool {
        self.waits_for_phase() && self.block.cluster.len() > 1
    }

    /// Returns whether a thread waits for a phase.
    pub fn waits_for_phase(&self) -> bool {
        self.waiting(State::InPhase) > 0
    }

    /// Returns whether a thread waits for a phase that is over.
    pub fn has_phase_left(&self) -> bool {
        self.waits_for_phase() && self.slots.iter().any(|slot| slot.has_phase_left(self.block.shared))
    }
}
