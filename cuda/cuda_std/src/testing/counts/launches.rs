//! The counts of launches, instruction by instruction.

use core::iter::Sum;
use core::ops::AddAssign;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::{Counts, Footprint};
use crate::simt::SourceLine;

/// The counts of a launch, or of several together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaunchCounts {
    /// The kernels, each once, in the order of their first launches.
    pub kernels: Vec<String>,
    /// The total.
    pub total: Counts,
    /// The global memory that it touches; for several launches, the sum.
    pub footprint: Footprint,
    /// The total by executed instruction, ordered by function and line.
    pub instructions: Vec<InstructionCounts>,
}

/// The counts of the warps that executed one PTX instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct InstructionCounts {
    /// The kernel or function it is in.
    pub function: String,
    /// The line of the PTX, from 1.
    pub line: u32,
    /// The instruction's position in its line, from 0.
    pub column: u32,
    /// The line itself.
    pub text: String,
    /// Where it comes from: the line that it was written in, then the line into which that was inlined, and so on, as
    /// far as `.loc` says; LLVM's `.loc` has only the first. Empty in a build without line information.
    pub source: Vec<SourceLine>,
    /// The counts.
    pub counts: Counts,
}

impl LaunchCounts {
    /// Returns the counts of the instructions from this line, or inlined there. `file` is the end of the file's path.
    pub fn of_source(&self, file: &str, line: u32) -> Counts {
        let is_here = |place: &SourceLine| place.line == line && place.file.ends_with(file);
        self.sum_of(|instruction| instruction.source.iter().any(is_here))
    }

    /// Returns the counts of the instructions with this text in their PTX, such as an opcode.
    pub fn of_text(&self, text: &str) -> Counts {
        self.sum_of(|instruction| instruction.text.contains(text))
    }

    fn sum_of(&self, is_meant: impl Fn(&InstructionCounts) -> bool) -> Counts {
        self.instructions.iter().filter(|one| is_meant(one)).map(|one| one.counts).sum()
    }
}

impl AddAssign for LaunchCounts {
    fn add_assign(&mut self, other: Self) {
        *self = [core::mem::take(self), other].into_iter().sum();
    }
}

impl Sum for LaunchCounts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        let (mut sum, mut by_place) = (Self::default(), BTreeMap::<_, InstructionCounts>::new());
        for LaunchCounts { kernels, total, footprint, instructions } in all {
            for kernel in kernels {
                if !sum.kernels.contains(&kernel) {
                    sum.kernels.push(kernel);
                }
            }
            sum.total += total;
            sum.footprint += footprint;
            for one in instructions {
                match by_place.entry((one.function.clone(), one.line, one.column)) {
                    Entry::Occupied(mut known) => known.get_mut().counts += one.counts,
                    Entry::Vacant(place) => drop(place.insert(one)),
                }
            }
        }
        sum.instructions = by_place.into_values().collect();
        sum
    }
}
