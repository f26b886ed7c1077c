//! What launches did, instruction by instruction.

use core::fmt;
use core::iter::Sum;
use core::ops::AddAssign;

use super::Counts;

/// What a launch did, or several together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaunchCounts {
    /// The kernels, each once, in the order of their first launches.
    pub kernels: Vec<String>,
    /// All of it.
    pub total: Counts,
    /// The same by instruction: those that were executed, ordered by function and line.
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
    /// Where it comes from: the line that it was written in, then the one into which that was inlined, and so on. Empty for
    /// PTX without `.loc`, as a build without line information gives it.
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

impl InstructionCounts {
    fn place(&self) -> (&str, u32, u32) {
        (&self.function, self.line, self.column)
    }
}

impl AddAssign for LaunchCounts {
    fn add_assign(&mut self, other: Self) {
        for kernel in other.kernels {
            if !self.kernels.contains(&kernel) {
                self.kernels.push(kernel);
            }
        }
        self.total += other.total;
        for one in other.instructions {
            match self.instructions.binary_search_by(|known| known.place().cmp(&one.place())) {
                Ok(at) => self.instructions[at].counts += one.counts,
                Err(at) => self.instructions.insert(at, one),
            }
        }
    }
}

impl Sum for LaunchCounts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}
