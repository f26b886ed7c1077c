//! What makes a right kernel good: limits of what the emulator counts.

use cuda_std::testing::{Counts, LaunchCounts};

use crate::problem::Problem;

/// A limit of a count.
pub struct Rule {
    /// What is counted.
    pub measure: Measure,
    /// The most that a good kernel has.
    pub most: f64,
    /// What to do about more.
    pub advice: &'static str,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Sectors per load of global memory.
    LoadSectors,
    /// Sectors per store to global memory.
    StoreSectors,
    /// Bytes loaded from global memory, divided by the bytes of all inputs.
    Reads,
    /// Requests to load from global memory.
    Loads,
    /// Bank conflicts of shared memory.
    Conflicts,
    /// Branches at which a warp diverges.
    Divergent,
    /// Warps that execute an atomic operation on global memory.
    GlobalAtomics,
    /// Accesses of shared memory.
    SharedAccesses,
    /// Barriers that warps execute.
    Barriers,
    /// Instructions of tensor cores, less than one for each warp counting as one too many.
    NoTensorCores,
}

impl Measure {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Measure::LoadSectors => "sectors per load of global memory",
            Measure::StoreSectors => "sectors per store to global memory",
            Measure::Reads => "reads of each input byte from global memory",
            Measure::Loads => "requests to load from global memory",
            Measure::Conflicts => "bank conflicts of shared memory",
            Measure::Divergent => "branches at which a warp diverges",
            Measure::GlobalAtomics => "atomic requests to global memory",
            Measure::SharedAccesses => "requests to shared memory",
            Measure::Barriers => "barriers that warps execute",
            Measure::NoTensorCores => "launches without tensor cores",
        }
    }

    /// Its value for a launch of the problem.
    pub fn of(self, counts: &LaunchCounts, problem: &Problem) -> f64 {
        let inputs = problem.buffers.iter().filter(|buffer| buffer.expected.is_none());
        let bytes: usize = inputs.map(|buffer| buffer.initial.len() * buffer.initial.size()).sum();
        match self {
            Measure::Reads => self.amount(&counts.total) / bytes.max(1) as f64,
            _ => self.amount(&counts.total),
        }
    }

    /// Its value for some instructions.
    fn amount(self, counts: &Counts) -> f64 {
        let whole = match self {
            Measure::LoadSectors => return counts.global.loads.sectors_per_request(),
            Measure::StoreSectors => return counts.global.stores.sectors_per_request(),
            Measure::Reads => counts.global.loads.bytes,
            Measure::Loads => counts.global.loads.requests,
            Measure::Conflicts => counts.bank_conflicts(),
            Measure::Divergent => counts.branches.divergent,
            Measure::GlobalAtomics => counts.global.atomics.requests,
            Measure::SharedAccesses => counts.shared.total().requests,
            Measure::Barriers => counts.collectives.barriers,
            Measure::NoTensorCores => u64::from(counts.flop.tensor == 0),
        };
        whole as f64
    }

    /// The line of `file` whose instructions have the largest share of it.
    pub fn line(self, counts: &LaunchCounts, file: &str) -> Option<u32> {
        let line_of = |one: &cuda_std::testing::counts::InstructionCounts| {
            one.source
                .iter()
                .find(|place| file.ends_with(&place.file) || place.file.ends_with(file))
                .map(|it| it.line)
        };
        let shares = counts.instructions.iter().map(|one| (self.amount(&one.counts), line_of(one)));
        let largest = shares.filter(|(share, _)| *share > 0.0).max_by(|a, b| a.0.total_cmp(&b.0))?;
        largest.1
    }
}
