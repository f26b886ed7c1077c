//! Instructions that the four warps of a warpgroup execute together.

use super::block::{Block, Failed};
use super::row::{Joint, Run};
use super::shared::Shared;
use super::table::TABLE;
use super::thread::State;
use super::wait::Wait;
use crate::error::Cause;
use crate::instr::{SINK, WARPGROUP};

impl Block<'_> {
    /// Executes the instructions at which all threads of a warpgroup wait. `wgmma.wait_group` runs only if nothing else can
    /// happen in the block, so that multiplications take as long as possible. Returns whether there was an instruction.
    pub fn release_warpgroups(&mut self, shared: &mut Shared, is_idle: bool) -> Result<bool, Failed> {
        let mut any = false;
        for first in (0..self.threads.len()).step_by(WARPGROUP) {
            any |= self.release_warpgroup(first, shared, is_idle)?;
        }
        Ok(any)
    }

    fn release_warpgroup(
        &mut self,
        first: usize,
        shared: &mut Shared,
        is_idle: bool,
    ) -> Result<bool, Failed> {
        let threads = first..self.threads.len().min(first + WARPGROUP);
        let waits = |at: &usize| matches!(self.threads[*at].state, State::Waits(Wait::Warpgroup));
        let Some(one) = threads.clone().find(waits) else { return Ok(false) };
        let place = self.place(one);
        let never_comes = |at: &usize| {
            let State::Waits(Wait::Warpgroup) = self.threads[*at].state else {
                return matches!(self.threads[*at].state, State::Exited);
            };
            self.place(*at) != place
        };
        if let Some(other) = threads.clone().find(never_comes) {
            return Err((one, self.missing_from_warpgroup(other)));
        }
        if threads.len() < WARPGROUP {
            return Err((one, self.missing_from_warpgroup(threads.end)));
        }
        if !threads.clone().all(|at| waits(&at)) {
            return Ok(false);
        }
        let is_done = match self.joint(one) {
            Some(Joint::Registers { more }) => {
                let count = self.instr(one).form.literal;
                self.set_registers(first, count, more)?
            }
            Some(Joint::Wait) if !is_idle => false,
            Some(joint) => {
                self.execute_wgmma(first, joint, shared)?;
                true
            }
            None => true,
        };
        if is_done {
            threads.for_each(|at| self.resume(at, [(SINK, 0), (SINK, 0)]));
        }
        Ok(is_done)
    }

    fn missing_from_warpgroup(&self, other: usize) -> Box<Cause> {
        let missing = self.threads.get(other).map_or([other as u32, 0, 0], |thread| thread.ids.tid);
        Cause::Warpgroup { missing, instead: self.doing(other) }.into()
    }

    /// Why a thread waits forever at an instruction of its warpgroup.
    pub fn why_warpgroup_waits(&self, at: usize) -> Box<Cause> {
        let first = at - at % WARPGROUP;
        let threads = first..self.threads.len().min(first + WARPGROUP);
        let absent = |at: &usize| !matches!(self.threads[*at].state, State::Waits(Wait::Warpgroup));
        match (threads.clone().find(absent), self.joint(at)) {
            (Some(other), _) => self.missing_from_warpgroup(other),
            (None, Some(Joint::Registers { .. })) => {
                self.why_no_registers(first, self.instr(at).form.literal).into()
            }
            _ => self.missing_from_warpgroup(at),
        }
    }

    fn joint(&self, at: usize) -> Option<Joint> {
        match TABLE[usize::from(self.instr(at).row)].run {
            Run::Warpgroup(joint) => Some(joint),
            _ => None,
        }
    }
}
