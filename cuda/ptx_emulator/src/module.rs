//! A PTX module, read and checked.

use std::collections::HashMap;
use std::sync::OnceLock;

use cuda_std::testing::counts::SourceLine;

use crate::error::EmulatorError;
use crate::flow::Flow;
use crate::instr::{Fixed, Instr, Op, ParamRange, Slot, Space};
use crate::parse::{self, Lines};

/// A PTX module whose instructions are ready to run.
#[derive(Debug)]
pub struct PtxModule {
    pub(crate) lines: Vec<String>,
    pub(crate) source: Lines,
    /// The compute capability it is for, 90 for 9.0.
    pub(crate) capability: u32,
    pub(crate) variables: Vec<Variable>,
    pub(crate) functions: Vec<Function>,
    pub(crate) function_names: HashMap<String, usize>,
}

/// A variable of the module or of one function, in global, constant or shared memory.
#[derive(Debug)]
pub(crate) struct Variable {
    pub name: String,
    pub space: Space,
    pub align: u64,
    pub bytes: u64,
    /// What it holds at first, without the addresses; the rest is zero.
    pub init: Vec<u8>,
    pub addresses: Vec<Relocation>,
    /// The function it belongs to, if it is not the module's.
    pub function: Option<usize>,
    /// `.extern .shared x[]`: as large as the launch says.
    pub is_dynamic: bool,
}

/// The address of another variable or of a function in an initialiser.
#[derive(Debug)]
pub(crate) struct Relocation {
    pub offset: usize,
    /// Which of the address's bytes stands there, if not all eight.
    pub byte: Option<u32>,
    pub target: Target,
    pub addend: i64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    Variable(usize),
    /// None if the module has no body of it.
    Function(Option<usize>),
}

/// What the directives of a kernel state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    /// `.maxntid` or `.reqntid`: threads of a block, at most.
    pub threads: Option<u64>,
    /// `.minnctapersm`: blocks of a multiprocessor, at least.
    pub blocks: Option<u64>,
    /// `.maxnreg`: registers of a thread, at most.
    pub registers: Option<u64>,
}

impl Bounds {
    /// The registers that each thread starts with, at most; none if the directives do not limit them.
    pub fn registers(self) -> Option<u64> {
        // A multiprocessor has 65536, which warps get in multiples of 8 a thread.
        let share = self
            .threads
            .filter(|&threads| threads > 0)
            .map(|threads| 65_536 / (threads.next_multiple_of(32) * self.blocks.unwrap_or(1).max(1)));
        self.registers.or(share.map(|registers| registers.min(256) / 8 * 8))
    }
}

/// A kernel or a function.
#[derive(Debug)]
pub(crate) struct Function {
    pub name: String,
    pub is_entry: bool,
    pub bounds: Bounds,
    /// Whether it has an instruction of a warpgroup.
    pub has_wgmma: bool,
    /// The number of its first instruction in the module.
    pub first: u32,
    pub instrs: Vec<Instr>,
    /// Found when somebody asks.
    pub flow: OnceLock<Flow>,
    /// From which instruction on which place in a source file holds.
    pub places: Vec<(usize, usize)>,
    /// Names by slot; what is fixed has none.
    pub registers: Vec<String>,
    /// Bits by slot.
    pub widths: Vec<u8>,
    pub fixed: Vec<(Slot, Fixed)>,
    pub params: Vec<ParamRange>,
    pub result: Option<ParamRange>,
    /// Size of its parameters and of those it passes on.
    pub param_bytes: u64,
    pub local_bytes: u64,
}

impl Function {
    /// Its blocks and loops.
    pub fn flow(&self) -> &Flow {
        self.flow.get_or_init(|| Flow::new(&self.instrs))
    }
}

/// An instruction that the emulator refuses when a thread reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsupported {
    /// The kernel or function it is in.
    pub function: String,
    /// The line of the PTX, from 1.
    pub line: u32,
    /// What is not known about it.
    pub reason: String,
}

impl PtxModule {
    /// Reads a module.
    ///
    /// An instruction the emulator does not know is no error yet: [`Self::unsupported`] lists them, and a thread
    /// that reaches one ends the launch.
    ///
    /// # Errors
    /// [`EmulatorError::Syntax`]: the text is not PTX as libNVVM writes it.
    pub fn parse(text: &str) -> Result<PtxModule, EmulatorError> {
        parse::module(text)
    }

    /// The names of all kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().filter(|function| function.is_entry).map(|function| function.name.as_str())
    }

    /// Every instruction that no thread may reach, since the emulator does not know exactly what it does.
    pub fn unsupported(&self) -> Vec<Unsupported> {
        let of = |function: &Function| -> Vec<Unsupported> {
            let refused = function.instrs.iter().filter_map(|instr| match &instr.op {
                Op::Unsupported(reason) => Some((instr.line, reason.to_string())),
                _ => None,
            });
            refused
                .map(|(line, reason)| Unsupported { function: function.name.clone(), line, reason })
                .collect()
        };
        self.functions.iter().flat_map(of).collect()
    }

    /// The function and place of the instruction with this number.
    pub(crate) fn instr(&self, number: u32) -> (&Function, usize) {
        let after = self.functions.partition_point(|function| function.first <= number);
        let function = &self.functions[after - 1];
        (function, (number - function.first) as usize)
    }

    /// Where an instruction comes from, as in [`InstructionCounts::source`](cuda_std::testing::counts::InstructionCounts).
    pub(crate) fn source(&self, function: &Function, pc: usize) -> Vec<SourceLine> {
        let after = function.places.partition_point(|&(from, _)| from <= pc);
        after.checked_sub(1).map_or_else(Vec::new, |at| self.source.source(function.places[at].1))
    }

    pub(crate) fn line(&self, line: u32) -> &str {
        self.lines.get(line as usize - 1).map_or("", |text| text.trim())
    }
}
