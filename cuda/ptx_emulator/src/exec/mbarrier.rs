//! `mbarrier` (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier").
//!
//! An mbarrier's bytes are opaque, so they read as undefined, and the state is kept outside the memory.

use super::bits::Bits;
use super::grid::Exec;
use super::phase::{Barrier, refuse};
use super::row::Flow;
use super::space::{Access, Place};
use super::thread::Cx;
use crate::error::Cause;
use crate::instr::{Addr, Instr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Init,
    Inval,
    Arrive,
    /// With the number of bytes to expect.
    ArriveExpect,
    Expect,
    Complete,
    /// By parity, or by the state that an arrival returned. An instruction that may suspend the thread only polls.
    Wait {
        parity: bool,
    },
}

impl Cx<'_> {
    /// The offset of a barrier's memory.
    fn barrier_memory(&self, at: &Addr) -> Exec<usize> {
        match self.place(at, 8, Access::Atomic)? {
            Place::Shared(at) => Ok(at),
            _ => Err(Cause::Unsupported("an mbarrier in other memory".to_owned()).into()),
        }
    }

    /// The offset of a barrier, which must be initialised.
    pub fn barrier_place(&mut self, at: &Addr) -> Exec<usize> {
        let at = self.barrier_memory(at)?;
        self.barrier(at).map(|_| at)
    }

    /// The offset of a barrier, which must be initialised and fenced.
    pub fn fenced_barrier(&mut self, at: &Addr) -> Exec<usize> {
        let at = self.barrier_place(at)?;
        self.fenced_barrier_at(at)
    }

    /// Same as [`Self::fenced_barrier`], for a barrier at this offset.
    pub fn fenced_barrier_at(&mut self, at: usize) -> Exec<usize> {
        let fences = self.shared.unfenced.of_barriers();
        if self.barrier(at)?.after == fences {
            return Err(
                refuse("a bulk copy counts at a barrier with no fence since its init".to_owned()).into()
            );
        }
        Ok(at)
    }

    fn barrier(&mut self, at: usize) -> Exec<&mut Barrier> {
        let none = || refuse("no barrier was initialised here".to_owned()).into();
        self.shared.barriers.get_mut(&at).ok_or_else(none)
    }

    /// Counts the bytes of a copy that has landed.
    pub fn complete_bytes(&mut self, at: usize, bytes: u64) -> Exec {
        let barrier = self.barrier(at)?;
        let expected = barrier.bytes;
        barrier.count_bytes(-(bytes as i64)).map_err(refuse)?;
        if barrier.pending == 0 && barrier.bytes < 0 {
            let reason = format!("a copy brings {bytes} bytes, and the phase expects {expected}");
            return Err(refuse(reason).into());
        }
        barrier.advance();
        Ok(())
    }

    /// Executes the instruction. After a wait for an incomplete phase, other threads get a turn: the loop around it would
    /// never end.
    pub fn mbarrier(&mut self, i: &Instr, op: Op) -> Exec<Flow> {
        let (operand, address) = (self.value(i.a)?, &i.more().at[0]);
        if op == Op::Init {
            let barrier = Barrier::new(operand, self.shared.unfenced.of_barriers()).map_err(refuse)?;
            let at = self.barrier_memory(address)?;
            self.store(Place::Shared(at), 8, Bits::UNDEFINED);
            if self.shared.barriers.insert(at, barrier).is_some() {
                return Err(refuse("a second init of a barrier that is valid".to_owned()).into());
            }
            return Ok(Flow::Next);
        }
        let at = self.barrier_place(address)?;
        let barrier = self.barrier(at)?;
        let (phase, bytes) = (barrier.phase, operand as i64);
        match op {
            Op::Wait { parity } => return self.wait_for_phase(i, at, operand, parity),
            Op::Init | Op::Inval => Ok(()),
            Op::Arrive => barrier.arrive(1),
            Op::ArriveExpect => barrier.count_bytes(bytes).and_then(|()| barrier.arrive(1)),
            Op::Expect => barrier.count_bytes(bytes),
            Op::Complete => barrier.count_bytes(-bytes),
        }
        .map_err(refuse)?;
        if matches!(op, Op::Arrive | Op::ArriveExpect | Op::Complete) {
            barrier.advance();
        }
        if op == Op::Inval {
            self.shared.barriers.remove(&at);
        }
        self.frame.set(i.d, phase);
        Ok(Flow::Next)
    }

    fn wait_for_phase(&mut self, i: &Instr, at: usize, state: u64, parity: bool) -> Exec<Flow> {
        let barrier = self.barrier(at)?;
        if barrier.lacks_bytes_alone() && !barrier.is_over(state, parity).map_err(refuse)? {
            self.land(at)?;
        }
        let barrier = self.barrier(at)?;
        let (found, is_over) = (barrier.state(), barrier.is_over(state, parity).map_err(refuse)?);
        self.frame.set(i.d, u64::from(is_over));
        if !is_over {
            return Ok(Flow::Polled(self.poll_phase(at, found)));
        }
        self.polls.phase = None;
        Ok(Flow::Next)
    }
}
