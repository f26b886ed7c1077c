//! `mbarrier` (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier").
//!
//! An mbarrier's bytes are opaque, so they read as undefined, and the state is kept outside the memory.

use super::Exec;
use super::memory::{Access, Place};
use super::polls::Turn;
use super::thread::Cx;
use super::undefined::Bits;
use crate::error::Cause;
use crate::instr::{Addr, Mbarrier, MbarrierKind};

/// The largest count of arrivals or bytes.
const MAX: i64 = (1 << 20) - 1;

#[derive(Clone, Copy, Debug)]
pub(super) struct Barrier {
    /// Arrivals of a phase, and the arrivals still missing.
    expected: i64,
    pending: i64,
    /// Bytes still missing.
    bytes: i64,
    /// Completed phases.
    phase: u64,
    /// The number of barrier fences before it was initialised.
    after: u32,
}

impl Barrier {
    fn new(expected: u64, after: u32) -> Result<Barrier, String> {
        match expected as i64 {
            expected @ 1..=MAX => Ok(Barrier { expected, pending: expected, bytes: 0, phase: 0, after }),
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

    /// Begins the next phase if this one is complete.
    fn advance(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.pending = self.expected;
        }
    }

    /// A number for its whole state.
    fn state(&self) -> u64 {
        self.phase << 44 ^ (self.pending as u64) << 22 ^ self.bytes as u64
    }

    /// The fault that reports what the phase lacks.
    pub fn lacks(&self) -> Cause {
        Cause::Phase { arrivals: self.pending, bytes: self.bytes }
    }

    /// Whether the phase lacks no arrivals.
    pub fn lacks_bytes_alone(&self) -> bool {
        self.pending == 0
    }

    /// Whether the phase of this state or parity is complete.
    fn is_over(&self, state: u64, by_parity: bool) -> Result<bool, String> {
        match (by_parity, state) {
            (true, 0 | 1) => Ok(self.phase % 2 != state),
            (true, _) => Err(format!("the parity {state}")),
            (false, _) if state == self.phase || state + 1 == self.phase => Ok(state != self.phase),
            (false, _) => Err(format!("the state of phase {state} in phase {}", self.phase)),
        }
    }
}

/// The fault of a wrong use of a barrier.
fn refuse(reason: String) -> Cause {
    Cause::Unsupported(format!("mbarrier: {reason}"))
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

    /// Executes the instruction. For a wait for an incomplete phase, returns the turn's result, and other threads get a
    /// turn.
    pub fn mbarrier(&mut self, op: &Mbarrier) -> Exec<Option<Turn>> {
        let operand = self.value(op.a)?;
        if op.kind == MbarrierKind::Init {
            let barrier = Barrier::new(operand, self.shared.unfenced.of_barriers()).map_err(refuse)?;
            let at = self.barrier_memory(&op.at)?;
            self.store(Place::Shared(at), 8, Bits::UNDEFINED);
            if self.shared.barriers.insert(at, barrier).is_some() {
                return Err(refuse("a second init of a barrier that is valid".to_owned()).into());
            }
            return Ok(None);
        }
        let at = self.barrier_place(&op.at)?;
        if let MbarrierKind::Wait { parity } = op.kind
            && self.barrier(at)?.lacks_bytes_alone()
            && !self.barrier(at)?.is_over(operand, parity).map_err(refuse)?
        {
            self.land(at)?;
        }
        let barrier = self.barrier(at)?;
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
                let found = barrier.state();
                self.frame.set(op.d, u64::from(is_over));
                if !is_over {
                    return Ok(Some(self.poll_phase(at, found)));
                }
                self.polls.phase = None;
            }
            _ => self.frame.set(op.d, phase),
        }
        Ok(None)
    }
}
