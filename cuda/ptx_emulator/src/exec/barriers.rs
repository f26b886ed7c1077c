//! Barriers of a block: `bar.sync` and `bar.red` wait, `bar.arrive` only counts.

use super::block::{Block, Failed};
use super::shared::Shared;
use super::wait::BarrierWait;
use super::warp::{disagree, reduce};
use crate::error::Cause;
use crate::instr::SINK;

impl Block<'_> {
    /// Completes the barriers whose threads have all arrived. Returns whether there was one.
    pub fn release_barriers(&mut self, shared: &mut Shared) -> Result<bool, Failed> {
        let mut any = false;
        for id in 0..16 {
            any |= self.release_barrier(id, shared)?;
        }
        Ok(any)
    }

    fn release_barrier(&mut self, id: u32, shared: &mut Shared) -> Result<bool, Failed> {
        let place = (self.threads[0].ids.rank, id);
        let arrived = shared.arrivals.get(&place).copied();
        let waiting: Vec<usize> = (0..self.threads.len())
            .filter(|&at| self.barrier(at).is_some_and(|wait| wait.id == id))
            .collect();
        let waits: Vec<BarrierWait> = waiting.iter().filter_map(|&at| self.barrier(at)).collect();
        self.check_alike(id, &waiting, &waits)?;
        let (at, wanted) = match (waiting.first(), arrived) {
            (Some(&at), _) => (at, waits[0].count.unwrap_or(self.threads.len() as u32)),
            (None, Some((count, _))) => (0, count),
            (None, None) => return Ok(false),
        };
        let (count, here) = arrived.unwrap_or((wanted, 0));
        if count != wanted {
            return Err((at, disagree(id, count, wanted).into()));
        }
        let here = here + waiting.len();
        if here > wanted as usize {
            let reason = format!("{here} threads at a barrier of {wanted}");
            return Err((at, Cause::Unsupported(reason).into()));
        }
        if here < wanted as usize {
            return Ok(false);
        }
        shared.arrivals.remove(&place);
        if let Some(races) = &self.grid.races {
            races.borrow_mut().pass_block(self.grid.block_number(self.ctaid));
        }
        let value = reduce(&waits);
        for (at, wait) in waiting.into_iter().zip(waits) {
            self.resume(at, [(wait.d, value), (SINK, 0)]);
        }
        Ok(true)
    }

    /// Checks that the threads wait in the same barrier. The threads of a warp must be at one instruction if it is aligned;
    /// all threads of the block must, if the barrier is the block's.
    fn check_alike(&self, id: u32, waiting: &[usize], waits: &[BarrierWait]) -> Result<(), Failed> {
        let Some(first) = waits.first() else { return Ok(()) };
        let kind = |wait: &BarrierWait| (wait.count, wait.aligned, wait.red.map(|(red, _)| red));
        for (&at, wait) in waiting.iter().zip(waits) {
            let is_together = |other: &&usize| wait.count.is_none() || *other / 32 == at / 32;
            let other = waiting.iter().find(is_together).copied().unwrap_or(at);
            let is_elsewhere = wait.aligned && self.place(at) != self.place(other);
            if kind(wait) != kind(first) || is_elsewhere {
                let instead = format!("waits at PTX line {}", self.line(at));
                let missing = self.threads[at].ids.tid;
                return Err((waiting[0], Cause::Barrier { id, missing, instead }.into()));
            }
        }
        Ok(())
    }
}
