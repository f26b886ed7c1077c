//! The state of an mbarrier.

use crate::error::Cause;

/// The largest count of arrivals or bytes.
const MAX: i64 = (1 << 20) - 1;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    /// Arrivals of a phase, and the arrivals still missing.
    expected: i64,
    pub pending: i64,
    /// Bytes still missing.
    pub bytes: i64,
    /// Completed phases.
    pub phase: u64,
    /// The number of barrier fences before it was initialised.
    pub after: u32,
}

impl Barrier {
    pub fn new(expected: u64, after: u32) -> Result<Barrier, String> {
        match expected as i64 {
            expected @ 1..=MAX => Ok(Barrier { expected, pending: expected, bytes: 0, phase: 0, after }),
            _ => Err(format!("a barrier of {expected} arrivals")),
        }
    }

    pub fn count_bytes(&mut self, bytes: i64) -> Result<(), String> {
        self.bytes += bytes;
        if self.bytes.abs() > MAX { Err(format!("{} bytes of a phase", self.bytes)) } else { Ok(()) }
    }

    pub fn arrive(&mut self, arrivals: u64) -> Result<(), String> {
        let pending = self.pending;
        self.pending -= arrivals as i64;
        if self.pending < 0 || arrivals == 0 {
            return Err(format!("{arrivals} arrivals at a phase that {pending} are missing from"));
        }
        Ok(())
    }

    /// Begins the next phase if this one is complete.
    pub fn advance(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.pending = self.expected;
        }
    }

    /// A number for its whole state.
    pub fn state(&self) -> u64 {
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
    pub fn is_over(&self, state: u64, by_parity: bool) -> Result<bool, String> {
        match (by_parity, state) {
            (true, 0 | 1) => Ok(self.phase % 2 != state),
            (true, _) => Err(format!("the parity {state}")),
            (false, _) if state == self.phase || state + 1 == self.phase => Ok(state != self.phase),
            (false, _) => Err(format!("the state of phase {state} in phase {}", self.phase)),
        }
    }
}

/// The fault of a wrong use of a barrier.
pub(crate) fn refuse(reason: String) -> Cause {
    Cause::Unsupported(format!("mbarrier: {reason}"))
}
