//! What launches did, instruction by instruction.

use core::fmt;
use core::iter::Sum;
use core::ops::AddAssign;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::{Counts, Footprint};

/// What a launch did, or several together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaunchCounts {
    /// The kernels, each once, in the order of their first launches.
    pub kernels: Vec<String>,
    /// All of it.
    pub total: Counts,
    /// What it touches of global memory; of several launches what each does, added up.
    pub footprint: Footprint,
    /// The same as the total by instruction: those that were executed, ordered by function and line.
    pub instructions: Vec<InstructionCounts>,
}

/// What the warps did that executed one instruction of the PTX.
#[derive(Clone, Debug, PartialEq)]
pub struct InstructionCounts {
    /// The kernel or function it is in.
    pub function: String,
    /// The line of the PTX, from 1.
    pub line: u32,
    /// The instruction's place among those of its line, from 0.
    pub column: u32,
    /// The line itself.
    pub text: String,
    /// Where it comes from: the line that it was written in, then the one into which that was inlined, and so on, as far as
    /// `.loc` says, LLVM's the first alone. Empty without, as in a build that has no line information.
    pub source: Vec<SourceLine>,
    /// What they did.
    pub counts: Counts,
}

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    /// The file, as the compiler was given it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl LaunchCounts {
    /// What the instructions did that come from this line of a file whose path ends so, or were inlined there.
    pub fn of_source(&self, file: &str, line: u32) -> Counts {
        let is_here = |place: &SourceLine| place.line == line && place.file.ends_with(file);
        self.sum_of(|instruction| instruction.source.iter().any(is_here))
    }

    /// What the instructions did whose PTX has this text, such as an opcode.
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
