//! Threads that wait for a phase of a barrier in shared memory, or for a numbered barrier: each continues on its own once
//! that is over.

use super::super::fault::Fault;
use super::super::shared::BlockShared;
use super::seeded::Seeded;
use super::{Scheduler, Slot, State};

impl Slot {
    /// Returns whether it waits for a phase that is over, and first performs the copies that the phase lacks.
    fn has_phase_left(&self, shared: &BlockShared) -> bool {
        let Some(request) = self.request().filter(|_| self.state == State::InPhase) else { return false };
        // SAFETY: the thread waits for it.
        unsafe { request.collective.is_over(shared) }.unwrap_or(false)
    }
}

impl Scheduler<'_> {
    /// Resumes the threads whose phase is over. Returns whether there were any.
    pub(super) fn run_phases(&mut self) -> Result<bool, Box<Fault>> {
        let mut progress = false;
        if self.in_phase > 0 {
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
        self.in_phase > 0 && seeded.release_if(&self.slots, |slot| slot.has_phase_left(self.block.shared))
    }

    /// Returns whether another block may end a phase that a thread here waits for.
    pub(super) fn may_be_helped(&self) -> bool {
        self.in_phase > 0 && self.block.cluster.len() > 1
    }

    /// Returns whether a thread waits for a phase.
    pub fn waits_for_phase(&self) -> bool {
        self.in_phase > 0
    }

    /// Returns whether a thread waits for a phase that is over.
    pub fn has_phase_left(&self) -> bool {
        self.in_phase > 0 && self.slots.iter().any(|slot| slot.has_phase_left(self.block.shared))
    }
}
