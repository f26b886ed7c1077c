//! A thread's position, and its actions there.

use super::access;
use super::event::{Deed, Event, mixed};
use crate::exec::frame::Frame;
use crate::exec::grid::Exec;
use crate::exec::row::Counts;
use crate::exec::table::TABLE;
use crate::exec::thread::Cx;
use crate::flow::{Flow, Index, NONE};
use crate::module::PtxModule;

/// What a thread did since the lanes of its warp last met.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    positions: Vec<Position>,
    pub events: Vec<Event>,
}

/// The position in a function.
#[derive(Debug)]
struct Position {
    /// A number for the calls that led here.
    calls: u64,
    /// The index of the function's first instruction in the module.
    base: u32,
    block: Index,
    /// By loop, the number of jumps back to the header since the loop was entered.
    iterations: Vec<u32>,
    /// Jumps back that belong to no loop.
    returns: u32,
    path: u64,
}

impl Trace {
    /// Follows the thread into or out of a function.
    pub fn follow(&mut self, module: &PtxModule, frames: &[Frame]) {
        self.positions.truncate(frames.len());
        if let Some(frame) = frames.last()
            && self.positions.len() < frames.len()
        {
            // The caller's pc is after its call.
            let caller = frames.len().checked_sub(2).map(|at| (self.positions[at].path, frames[at].pc));
            let calls = caller.map_or(0, |(path, pc)| mixed(path, pc as u64));
            let function = &module.functions[frame.function];
            let (iterations, base) = (vec![0; function.flow().loops()], function.first);
            self.positions.push(Position { calls, base, block: NONE, iterations, returns: 0, path: calls });
        }
    }

    /// A number for the position.
    pub fn path(&self) -> u64 {
        self.positions.last().map_or(0, |position| position.path)
    }

    /// Records what the thread's current instruction is going to do.
    pub fn note(&mut self, cx: &Cx<'_>) -> Exec {
        let (function, pc) = (&cx.grid.module.functions[cx.frame.function], cx.frame.pc);
        let (flow, instr) = (function.flow(), &function.instrs[pc]);
        if let (Some(block), Some(position)) = (flow.begins(pc), self.positions.last_mut()) {
            position.enter(flow, block);
            self.push(pc, Deed::Block, 0, 0);
        }
        let is_on = match instr.guard {
            Some((slot, inverted)) => (cx.value(slot)? == 0) == inverted,
            None => true,
        };
        let counts = TABLE[usize::from(instr.row)].counts;
        if is_on {
            access::deeds(cx, instr, counts, &mut |deed, value, bytes| self.push(pc, deed, value, bytes));
            return Ok(());
        }
        self.push(pc, Deed::Off, 0, 0);
        if matches!(counts, Counts::Branch) {
            self.push(pc, Deed::Branch, pc as u64 + 1, 0);
        }
        Ok(())
    }

    fn push(&mut self, pc: usize, deed: Deed, value: u64, bytes: u32) {
        if let Some(&Position { base, path, .. }) = self.positions.last() {
            self.events.push(Event { path, value, instr: base + pc as u32, deed, bytes });
        }
    }
}

impl Position {
    fn enter(&mut self, flow: &Flow, block: Index) {
        let from = self.block;
        if from != NONE && flow.is_irreducible(from, block) {
            self.returns += 1;
        }
        let mut path = mixed(self.calls, u64::from(self.returns));
        for index in flow.around(block) {
            let iteration = &mut self.iterations[index as usize];
            if !flow.around(from).any(|other| other == index) {
                *iteration = 0;
            } else if flow.header(index) == block {
                *iteration += 1;
            }
            path = mixed(path, u64::from(index) << 32 | u64::from(*iteration));
        }
        (self.block, self.path) = (block, path);
    }
}
