//! `mbarrier` (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier").
//!
//! What a barrier's bytes hold is nobody's business: they are as if nothing had been written to them, and the barrier is
//! kept beside the memory.

use super::Exec;
use super::memory::{Access, Place};
use super::thread::Cx;
use super::undefined::Bits;
use crate::error::Cause;
use crate::instr::{Mbarrier, MbarrierKind};

/// Arrivals and bytes that can be counted.
const MAX: i64 = (1 << 20) - 1;

#[derive(Clone, Copy, Debug)]
pub(super) struct Barrier {
    /// Arrivals of a phase, and those that have not come.
    expected: i64,
    pending: i64,
    /// Bytes that have not come.
    bytes: i64,
    /// Phases that are over.
    phase: u64,
}

impl Barrier {
    fn new(expected: u64) -> Result<Barrier, String> {
        match expected as i64 {
            expected @ 1..=MAX => Ok(Barrier { expected, pending: expected, bytes: 0, phase: 0 }),
            _ => Err(format!("a barrier of {expected} arrivals")),
        }
    }

    fn count_bytes(&mut self, bytes: i64) -> Result<(), String> {
        self.bytes += bytes;
        if self.bytes.abs() > MAX { Err(format!("{} bytes of a phase", self.bytes)) } else { Ok(()) }
    }

    fn arrive(&mut self, arrivals: u64) -> Result<(), String> {
        let pending = self.pending;
        self.pending -= arrivals as i64;
        if self.pending < 0 || arrivals == 0 {
            return Err(format!("{arrivals} arrivals at a phase that {pending} are missing from"));
        }
        Ok(())
    }

    /// Begins the next phase, if this one is over.
    fn advance(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.pending = self.expected;
        }
    }

    /// Whether the phase of this state, or of this parity, is over.
    fn is_over(&self, state: u64, by_parity: bool) -> Result<bool, String> {
        match (by_parity, state) {
            (true, 0 | 1) => Ok(self.phase % 2 != state),
            (true, _) => Err(format!("the parity {state}")),
            (false, _) if state == self.phase || state + 1 == self.phase => Ok(state != self.phase),
            (false, _) => Err(format!("the state of phase {state} in phase {}", self.phase)),
        }
    }
}

impl Cx<'_> {
    /// Executes the instruction. True if it is a wait for a phase that is not over: others have their turn.
    pub fn mbarrier(&mut self, op: &Mbarrier) -> Exec<bool> {
        let operand = self.value(op.a)?;
        let place = self.place(&op.at, 8, Access::Atomic)?;
        let Place::Shared(at) = place else {
            return Err(Cause::Unsupported("an mbarrier in other memory".to_owned()).into());
        };
        let refuse = |reason: String| Cause::Unsupported(format!("mbarrier: {reason}"));
        if op.kind == MbarrierKind::Init {
            let barrier = Barrier::new(operand).map_err(refuse)?;
            self.store(place, 8, Bits::UNDEFINED);
            if self.shared.barriers.insert(at, barrier).is_some() {
                return Err(refuse("a second init of a barrier that is valid".to_owned()).into());
            }
            return Ok(false);
        }
        let Some(barrier) = self.shared.barriers.get_mut(&at) else {
            return Err(refuse("no barrier was initialised here".to_owned()).into());
        };
        let phase = barrier.phase;
        let counted = match op.kind {
            MbarrierKind::Init | MbarrierKind::Inval | MbarrierKind::Wait { .. } => Ok(()),
            MbarrierKind::Arrive { expects: true } => {
                barrier.count_bytes(operand as i64).and_then(|()| barrier.arrive(1))
            }
            MbarrierKind::Arrive { expects: false } => barrier.arrive(operand),
            MbarrierKind::ExpectTx => barrier.count_bytes(operand as i64),
            MbarrierKind::CompleteTx => barrier.count_bytes(-(operand as i64)),
        };
        counted.map_err(refuse)?;
        if matches!(op.kind, MbarrierKind::Arrive { .. } | MbarrierKind::CompleteTx) {
            barrier.advance();
        }
        let is_over = match op.kind {
            MbarrierKind::Wait { parity } => barrier.is_over(operand, parity).map_err(refuse)?,
            _ => false,
        };
        match op.kind {
            MbarrierKind::Inval => drop(self.shared.barriers.remove(&at)),
            MbarrierKind::Wait { .. } => {
                self.frame.set(op.d, u64::from(is_over));
                return Ok(!is_over);
            }
            _ => self.frame.set(op.d, phase),
        }
        Ok(false)
    }
}
