//! The state that the four warps of a warpgroup share.

use crate::exec::pending::Groups;
use crate::instr::Slot;

/// A multiplication whose group was not waited for.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The PTX line.
    pub line: u32,
    /// The number of its accumulators.
    pub sums: u32,
    /// The units of shared memory that it reads.
    pub units: Vec<u32>,
    /// The registers of A, and the depth of their frame.
    pub held: Vec<Slot>,
    pub depth: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Warpgroup {
    /// The registers of each thread, if `setmaxnreg` has changed them.
    pub registers: Option<u64>,
    pub pending: Groups<Pending>,
    /// The accumulators of pending multiplications.
    pub sums: Vec<Sums>,
    pub next: u32,
}

impl Warpgroup {
    /// The PTX line of a pending multiplication.
    pub fn pending_line(&self) -> Option<u32> {
        self.pending.groups.iter().flatten().chain(&self.pending.open).next().map(|pending| pending.line)
    }
}

/// The accumulators of one or more multiplications, 64 rows of `n`.
#[derive(Debug)]
pub(crate) struct Sums {
    pub number: u32,
    /// Pending multiplications.
    pub pending: usize,
    /// The registers of each thread, and the depth of their frame.
    pub slots: Vec<Slot>,
    pub depth: usize,
    pub line: u32,
    pub k: usize,
    /// By row; only valid where defined.
    pub values: Vec<f32>,
    pub is_undefined: Vec<bool>,
}
