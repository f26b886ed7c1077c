//! Finds registers that are live at their declaration: liveness of a variable, one register at a time (Appel, "Modern
//! Compiler Implementation", 19.6). Most registers are written and read in one block and cost nothing here.

use super::function::{Block, Event, Function, Goes};

/// The registers that a thread may read before it writes them, in order of declaration.
pub(super) fn read_before_written(function: &Function<'_>) -> Vec<u32> {
    let exposed = Exposed::of(function);
    if exposed.all.is_empty() {
        return exposed.found_at_once();
    }
    let before = predecessors(&function.blocks);
    let mut found = vec![false; function.registers as usize];
    exposed.at_once.iter().for_each(|&register| found[register as usize] = true);
    // By block, one plus the last register that visited it.
    let (mut writes, mut seen) = (vec![0; function.blocks.len()], vec![0; function.blocks.len()]);
    let mut open: Vec<u32> = Vec::new();
    for of_one in exposed.all.chunk_by(|a, b| a.0 == b.0) {
        let register = of_one[0].0;
        let stamp = register + 1;
        let from = exposed.written.partition_point(|write| write.0 < register);
        let written = exposed.written[from..].iter().take_while(|write| write.0 == register);
        written.for_each(|write| writes[write.1 as usize] = stamp);
        let home = function.declaration_of(register).block;
        open.clear();
        open.extend(of_one.iter().map(|read| read.1));
        while let Some(block) = open.pop() {
            if found[register as usize] {
                break;
            }
            for &earlier in &before[block as usize] {
                let at = earlier as usize;
                if writes[at] == stamp || std::mem::replace(&mut seen[at], stamp) == stamp {
                    continue;
                }
                found[register as usize] |= earlier == home;
                open.push(earlier);
            }
        }
    }
    (0..function.registers).filter(|&register| found[register as usize]).collect()
}

/// Registers and the blocks that read or write them, sorted.
struct Exposed {
    /// Reads without an earlier write in the block.
    all: Vec<(u32, u32)>,
    /// Blocks that write a register on every path through them.
    written: Vec<(u32, u32)>,
    /// Registers that are read in the block of their declaration before they are written.
    at_once: Vec<u32>,
}

impl Exposed {
    fn of(function: &Function<'_>) -> Exposed {
        let mut last_write = vec![u32::MAX; function.registers as usize];
        let mut exposed = Exposed { all: Vec::new(), written: Vec::new(), at_once: Vec::new() };
        for (block, index) in function.blocks.iter().zip(0..) {
            for event in &function.events[block.events.clone()] {
                match *event {
                    Event::Write(register) => {
                        if std::mem::replace(&mut last_write[register as usize], index) != index {
                            exposed.written.push((register, index));
                        }
                    }
                    Event::Read(register) if last_write[register as usize] == index => {}
                    Event::Read(register) if function.declaration_of(register).block == index => {
                        exposed.at_once.push(register);
                    }
                    Event::Read(register) => exposed.all.push((register, index)),
                }
            }
        }
        exposed.all.sort_unstable();
        exposed.all.dedup();
        let read = |write: &(u32, u32)| exposed.all.binary_search_by_key(&write.0, |read| read.0).is_ok();
        let mut written = std::mem::take(&mut exposed.written);
        written.retain(read);
        written.sort_unstable();
        Exposed { written, ..exposed }
    }

    fn found_at_once(mut self) -> Vec<u32> {
        self.at_once.sort_unstable();
        self.at_once.dedup();
        self.at_once
    }
}

fn predecessors(blocks: &[Block]) -> Vec<Vec<u32>> {
    let mut before = vec![Vec::new(); blocks.len()];
    for (block, index) in blocks.iter().zip(0..) {
        let following = (block.falls_through).then_some(index + 1);
        let everywhere = if matches!(block.goes, Goes::Anywhere) { blocks.len() as u32 } else { 0 };
        let targets: &[u32] = if let Goes::To(targets) = &block.goes { targets } else { &[] };
        for next in following.into_iter().chain(targets.iter().copied()).chain(0..everywhere) {
            if let Some(of_next) = before.get_mut(next as usize) {
                of_next.push(index);
            }
        }
    }
    before
}
