//! Why no thread of a block can continue.

use super::block::{Block, Failed, missing};
use super::thread::State;
use super::wait::Wait;
use crate::error::Cause;
use crate::instr::WARP;

impl Block<'_> {
    /// The first thread that waits forever, and what it waits for.
    pub fn why_stuck(&self) -> Failed {
        let none = || Cause::Unsupported("a block without a thread that could go on".to_owned());
        self.why_waiting().unwrap_or_else(|| (0, none().into()))
    }

    /// The first thread that waits for others of its block, and what it waits for.
    pub fn why_waiting(&self) -> Option<Failed> {
        for at in 0..self.threads.len() {
            let cause = match self.threads[at].state {
                State::Waits(Wait::Barrier(wait)) => {
                    let absent = |other: &usize| self.barrier(*other).is_none_or(|w| w.id != wait.id);
                    let other = (0..self.threads.len()).find(absent).unwrap_or(at);
                    let (missing, instead) = (self.threads[other].ids.tid, self.doing(other));
                    Cause::Barrier { id: wait.id, missing, instead }
                }
                State::Waits(Wait::Warp(wait)) => {
                    let first = at - at % WARP;
                    let missing = missing(&self.lanes(first), &wait).unwrap_or_default();
                    let instead = self.doing(first + missing as usize);
                    Cause::Mask { lane: self.threads[at].ids.lane, mask: wait.mask, missing, instead }
                }
                State::Waits(Wait::Warpgroup) => return Some((at, self.why_warpgroup_waits(at))),
                _ => continue,
            };
            return Some((at, cause.into()));
        }
        None
    }
}
