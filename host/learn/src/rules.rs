//! What makes a right kernel good: limits of what the emulator counts.

use cuda_std::testing::counts::InstructionCounts;
use cuda_std::testing::{Counts, LaunchCounts};

use crate::problem::Problem;

/// A limit of a count.
#[derive(Clone, Copy)]
pub struct Rule {
    /// What is counted.
    pub measure: Measure,
    /// The most that a good kernel has.
    pub most: f64,
    /// What to do about more.
    pub advice: &'static str,
}

/// Accesses of neighbours.
pub const COALESCED: &[Rule] = &[
    Rule {
        measure: Measure::LoadSectors,
        most: 4.0,
        advice: "Let neighbouring threads read neighbouring elements in the same instruction.",
    },
    Rule {
        measure: Measure::StoreSectors,
        most: 4.0,
        advice: "Let neighbouring threads write neighbouring elements in the same instruction.",
    },
];

/// Accesses of neighbours, and no work done twice.
pub const ONCE: &[Rule] = &[COALESCED[0], COALESCED[1], WRITES];

/// A limit of writes.
const WRITES: Rule = Rule {
    measure: Measure::Writes,
    most: 1.0,
    advice: "Threads repeat each other's work. Let one thread alone compute and write each element.",
};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Sectors per load of global memory.
    LoadSectors,
    /// Sectors per store to global memory.
    StoreSectors,
    /// Bytes loaded from global memory, divided by the bytes of all inputs.
    Reads,
    /// Bytes stored to global memory, divided by the bytes of all outputs.
    Writes,
    /// Requests to load from global memory.
    Loads,
    /// Bank conflicts of shared memory.
    Conflicts,
    /// Branches at which a warp diverges.
    Divergent,
    /// Atomic operations of threads on global memory.
    GlobalAtomics,
    /// Accesses of shared memory, per block.
    SharedAccesses,
    /// Barriers that warps execute.
    Barriers,
    /// Instructions that warps execute.
    Instructions,
    /// 1 if no instruction of tensor cores is executed.
    NoTensorCores,
}

impl Measure {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Measure::LoadSectors => "sectors per load of global memory",
            Measure::StoreSectors => "sectors per store to global memory",
            Measure::Reads => "reads of each input byte from global memory",
            Measure::Writes => "writes of each output byte to global memory",
            Measure::Loads => "requests to load from global memory",
            Measure::Conflicts => "bank conflicts of shared memory",
            Measure::Divergent => "branches at which a warp diverges",
            Measure::GlobalAtomics => "atomic operations on global memory",
            Measure::SharedAccesses => "requests to shared memory per block",
            Measure::Barriers => "barriers that warps execute",
            Measure::Instructions => "instructions of all warps",
            Measure::NoTensorCores => "launches that do not use tensor cores",
        }
    }

    /// Whether it has a value for each instruction alone.
    pub fn is_ratio(self) -> bool {
        matches!(self, Measure::LoadSectors | Measure::StoreSectors)
    }

    /// Its value for a launch of the problem.
    pub fn of(self, counts: &LaunchCounts, problem: &Problem) -> f64 {
        let bytes_of = |is_output: bool| {
            let buffers = problem.buffers.iter().filter(|buffer| buffer.expected.is_some() == is_output);
            buffers.map(|buffer| buffer.initial.len() * buffer.initial.size()).sum::<usize>().max(1) as f64
        };
        match self {
            Measure::Reads => self.amount(&counts.total) / bytes_of(false),
            Measure::Writes => self.amount(&counts.total) / bytes_of(true),
            Measure::SharedAccesses => {
                let grid = problem.config.grid;
                self.amount(&counts.total) / f64::from(grid.x * grid.y * grid.z)
            }
            _ => self.amount(&counts.total),
        }
    }

    /// Its value for some instructions.
    fn amount(self, counts: &Counts) -> f64 {
        let whole = match self {
            Measure::LoadSectors => return counts.global.loads.sectors_per_request(),
            Measure::StoreSectors => return counts.global.stores.sectors_per_request(),
            Measure::Reads => counts.global.loads.bytes,
            Measure::Writes => counts.global.stores.bytes,
            Measure::Loads => counts.global.loads.requests,
            Measure::Conflicts => counts.bank_conflicts(),
            Measure::Divergent => counts.branches.divergent,
            Measure::GlobalAtomics => counts.global.atomics.bytes / 4,
            Measure::SharedAccesses => counts.shared.total().requests,
            Measure::Barriers => counts.collectives.barriers,
            Measure::Instructions => counts.instructions.warps,
            Measure::NoTensorCores => u64::from(counts.flop.tensor == 0),
        };
        whole as f64
    }

    /// The line of `file` whose instructions have the largest share of it, and the value there.
    pub fn line(self, counts: &LaunchCounts, file: &str) -> Option<(u32, f64)> {
        let line_of = |one: &InstructionCounts| {
            let mut places = one.source.iter();
            places
                .find(|place| file.ends_with(&place.file) || place.file.ends_with(file))
                .map(|place| place.line)
        };
        let shares = counts.instructions.iter().map(|one| (line_of(one), self.amount(&one.counts)));
        let (line, value) = shares.filter(|(_, share)| *share > 0.0).max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((line?, value))
    }
}
