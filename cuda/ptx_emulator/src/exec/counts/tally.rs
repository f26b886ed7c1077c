//! What all warps of a launch did, by instruction.

use std::collections::{BTreeMap, HashSet};

use cuda_std::testing::counts::{Counts, Flop, Footprint, InstructionCounts, Instructions, LaunchCounts};

use super::event::{Deed, Event, Way};
use super::requests::{gather, sectors, sectors_of};
use crate::instr::Instr;
use crate::module::{Function, PtxModule};

/// The totals so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// By instruction of the module.
    counts: BTreeMap<u32, Counts>,
    /// By the first instruction of a block, the warps and threads that began it.
    blocks: BTreeMap<u32, [u64; 2]>,
    /// By instruction, the threads whose predicate was off.
    off: BTreeMap<u32, u64>,
    /// The sectors of global memory that were read, and those that were written.
    loaded: HashSet<u64>,
    stored: HashSet<u64>,
}

impl Tally {
    /// Adds what the lanes of a warp did.
    pub fn add(&mut self, lanes: impl Iterator<Item = Vec<Event>>) {
        for request in gather(lanes) {
            let threads = request.lanes.len() as u64;
            let (loads, stores) = match request.deed {
                Deed::Global(Way::Load | Way::Copy) | Deed::Bulk(Way::Load) => (true, false),
                Deed::Global(Way::Store) | Deed::Bulk(Way::Store) => (false, true),
                Deed::Global(Way::Atomic) => (true, true),
                _ => (false, false),
            };
            if loads {
                self.loaded.extend(sectors(&request.lanes));
            }
            if stores {
                self.stored.extend(sectors(&request.lanes));
            }
            match request.deed {
                Deed::Block => {
                    let block = self.blocks.entry(request.instr).or_default();
                    *block = [block[0] + 1, block[1] + threads];
                }
                Deed::Off => *self.off.entry(request.instr).or_default() += threads,
                _ => *self.counts.entry(request.instr).or_default() += request.counts(),
            }
        }
    }

    /// Records a copy's access to bytes of global memory.
    pub fn touch(&mut self, way: Way, address: u64, bytes: u64) {
        let sectors = if way == Way::Load { &mut self.loaded } else { &mut self.stored };
        sectors.extend(sectors_of(address, bytes));
    }

    /// The counts of a launch of `kernel`; `flop` has the operations of an instruction that this many threads execute.
    pub fn finish(
        mut self,
        module: &PtxModule,
        kernel: &str,
        flop: impl Fn(&Instr, u64) -> Flop,
    ) -> LaunchCounts {
        for (&first, &[warps, threads]) in &self.blocks {
            let (function, pc) = module.instr(first);
            for instr in first..first + (function.flow().end(pc) - pc) as u32 {
                let threads_on = threads - self.off.get(&instr).copied().unwrap_or(0);
                let executed = Instructions { warps, threads, threads_on };
                let counts = self.counts.entry(instr).or_default();
                counts.instructions += executed;
                counts.flop += flop(&function.instrs[pc + (instr - first) as usize], threads_on);
            }
        }
        let mut instructions: Vec<InstructionCounts> =
            self.counts.iter().map(|(&instr, &counts)| instruction(module, instr, counts)).collect();
        instructions.sort_by(|a, b| (&a.function, a.line, a.column).cmp(&(&b.function, b.line, b.column)));
        let total = instructions.iter().map(|one| one.counts).sum();
        let footprint = Footprint { loaded: self.loaded.len() as u64, stored: self.stored.len() as u64 };
        LaunchCounts { kernels: vec![kernel.to_owned()], total, footprint, instructions }
    }
}

fn instruction(module: &PtxModule, instr: u32, counts: Counts) -> InstructionCounts {
    let (function, pc) = module.instr(instr);
    let Function { name, instrs, .. } = function;
    let line = instrs[pc].line;
    let column = instrs[..pc].iter().rev().take_while(|before| before.line == line).count() as u32;
    let (text, source) = (module.line(line).to_owned(), module.source(function, pc));
    let function = name.clone();
    InstructionCounts { function, line, column, text, source, counts }
}
