//! A PTX module, read and checked.

use std::collections::HashMap;
use std::sync::OnceLock;

use cuda_std::testing::counts::SourceLine;

use crate::flow::Flow;
use crate::instr::{Fixed, Instr, ParamRange, Slot, Space};
use crate::parse::lines::Lines;

/// A PTX module whose instructions are ready to run.
#[derive(Debug)]
pub struct PtxModule {
    pub(crate) lines: Vec<String>,
    pub(crate) source: Lines,
    /// Its compute capability, 90 for 9.0.
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
    /// Its initial bytes, without the addresses; the rest is zero.
    pub init: Vec<u8>,
    pub addresses: Vec<Relocation>,
    /// The function it belongs to; `None` for the module's.
    pub function: Option<usize>,
    /// `.extern .shared x[]`: the launch sets its size.
    pub is_dynamic: bool,
}

/// The address of another variable or of a function in an initialiser.
#[derive(Debug)]
pub(crate) struct Relocation {
    pub offset: usize,
    /// The single byte of the address that is stored there; `None` for all eight.
    pub byte: Option<u32>,
    pub target: Target,
    pub addend: i64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    Variable(usize),
    /// `None` if the module has no body for it.
    Function(Option<usize>),
}

/// The limits in a kernel's directives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    /// `.maxntid` or `.reqntid`: extents of a block.
    pub block: Option<[u32; 3]>,
    /// Whether blocks must have these extents; otherwise their product is the maximum of threads.
    pub is_exact: bool,
    /// `.minnctapersm`: minimum blocks per multiprocessor.
    pub blocks: Option<u64>,
    /// `.maxnreg`: maximum registers per thread.
    pub registers: Option<u64>,
}

impl Bounds {
    /// Checks the extents of a launch's block. The error is the directive that they break.
    pub fn check(self, got: [u32; 3]) -> Result<(), String> {
        let Some(want) = self.block else { return Ok(()) };
        let fits = if self.is_exact { got == want } else { threads(got) <= threads(want) };
        let name = if self.is_exact { ".reqntid" } else { ".maxntid" };
        if fits { Ok(()) } else { Err(format!("{name} {}, {}, {}", want[0], want[1], want[2])) }
    }

    /// The maximum registers that each thread starts with; `None` if unlimited.
    pub fn registers(self) -> Option<u64> {
        // A multiprocessor has 65536 registers; warps get multiples of 8 per thread.
        let share = self
            .block
            .map(threads)
            .filter(|&threads| threads > 0)
            .map(|threads| 65_536 / (threads.next_multiple_of(32) * self.blocks.unwrap_or(1).max(1)));
        self.registers.or(share.map(|registers| registers.min(256) / 8 * 8))
    }
}

fn threads(extents: [u32; 3]) -> u64 {
    extents.into_iter().fold(1, |product, extent| product.saturating_mul(extent.into()))
}

/// A kernel or a function.
#[derive(Debug)]
pub(crate) struct Function {
    pub name: String,
    pub is_entry: bool,
    pub bounds: Bounds,
    /// Whether it has a warpgroup instruction.
    pub has_wgmma: bool,
    /// The number of its first instruction in the module.
    pub first: u32,
    pub instrs: Vec<Instr>,
    /// Computed on first use.
    pub flow: OnceLock<Flow>,
    /// The instruction from which each source location applies.
    pub places: Vec<(usize, usize)>,
    /// Names by slot; empty for fixed values.
    pub registers: Vec<String>,
    /// Widths in bits by slot.
    pub widths: Vec<u8>,
    pub fixed: Vec<(Slot, Fixed)>,
    pub params: Vec<ParamRange>,
    pub result: Option<ParamRange>,
    /// Size of its parameters and of the arguments it passes on.
    pub param_bytes: u64,
    pub local_bytes: u64,
}

impl Function {
    /// Its basic blocks and loops.
    pub fn flow(&self) -> &Flow {
        self.flow.get_or_init(|| Flow::new(&self.instrs))
    }
}

/// An unsupported instruction; a thread that reaches it ends the launch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsupported {
    /// The kernel or function it is in.
    pub function: String,
    /// The line in the PTX, from 1.
    pub line: u32,
    /// The unsupported part.
    pub reason: String,
}

impl PtxModule {
    /// The names of all kernels, in text order.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().filter(|function| function.is_entry).map(|function| function.name.as_str())
    }

    /// All instructions that the emulator does not support exactly.
    pub fn unsupported(&self) -> Vec<Unsupported> {
        let all = self
            .functions
            .iter()
            .flat_map(|function| function.instrs.iter().map(move |instr| (function, instr)));
        all.filter_map(|(function, instr)| {
            let reason = instr.more().refusal.clone()?;
            Some(Unsupported { function: function.name.clone(), line: instr.line, reason })
        })
        .collect()
    }

    /// The function and index of the instruction with this number.
    pub(crate) fn instr(&self, number: u32) -> (&Function, usize) {
        let after = self.functions.partition_point(|function| function.first <= number);
        let function = &self.functions[after - 1];
        (function, (number - function.first) as usize)
    }

    /// The source lines of an instruction, as in
    /// [`InstructionCounts::source`](cuda_std::testing::counts::InstructionCounts).
    pub(crate) fn source(&self, function: &Function, pc: usize) -> Vec<SourceLine> {
        let after = function.places.partition_point(|&(from, _)| from <= pc);
        after.checked_sub(1).map_or_else(Vec::new, |at| self.source.source(function.places[at].1))
    }

    pub(crate) fn line(&self, line: u32) -> &str {
        self.lines.get(line as usize - 1).map_or("", |text| text.trim())
    }
}
