//! Control flow of a function: its basic blocks, and the loops around each.

use crate::instr::Instr;

/// The number of a block or a loop, or [`NONE`].
pub(crate) type Index = u32;

pub(crate) const NONE: Index = u32::MAX;

/// The blocks and loops of a function.
#[derive(Debug)]
pub(crate) struct Flow {
    blocks: Vec<Block>,
    loops: Vec<Loop>,
    /// By instruction, the block that begins there.
    begins: Vec<Index>,
}

#[derive(Debug)]
struct Block {
    /// Its first instruction, and the one after its last.
    first: usize,
    end: usize,
    next: Vec<Index>,
    /// Its position in a reverse post-order; [`NONE`] if it is unreachable.
    order: Index,
    /// The innermost loop around it.
    innermost: Index,
}

/// A natural loop (Aho, Lam, Sethi and Ullman, "Compilers", 9.6): all paths into it go through its header.
#[derive(Clone, Copy, Debug)]
struct Loop {
    header: Index,
    /// The loop around it.
    parent: Index,
}

impl Flow {
    pub fn new(instrs: &[Instr]) -> Flow {
        let blocks = blocks(instrs);
        let mut begins = vec![NONE; instrs.len()];
        blocks.iter().zip(0..).for_each(|(block, index)| begins[block.first] = index);
        let mut flow = Flow { blocks, loops: Vec::new(), begins };
        let order = flow.number();
        flow.find_loops(&order);
        flow
    }

    /// The block that begins at an instruction, if any.
    #[inline]
    pub fn begins(&self, pc: usize) -> Option<Index> {
        Some(self.begins[pc]).filter(|&block| block != NONE)
    }

    /// The end of the instructions of the block that begins at `pc`.
    pub fn end(&self, pc: usize) -> usize {
        self.begins(pc).map_or(pc + 1, |block| self.blocks[block as usize].end)
    }

    pub fn loops(&self) -> usize {
        self.loops.len()
    }

    pub fn header(&self, index: Index) -> Index {
        self.loops[index as usize].header
    }

    /// The loops around a block, innermost first.
    pub fn around(&self, block: Index) -> impl Iterator<Item = Index> {
        let innermost = if block == NONE { NONE } else { self.blocks[block as usize].innermost };
        self.chain(innermost)
    }

    fn chain(&self, innermost: Index) -> impl Iterator<Item = Index> {
        let known = |index: Index| (index != NONE).then_some(index);
        core::iter::successors(known(innermost), move |&at| known(self.loops[at as usize].parent))
    }

    /// Whether an edge leads back without being a back edge of a natural loop.
    pub fn is_irreducible(&self, from: Index, to: Index) -> bool {
        let leads_back = self.blocks[to as usize].order <= self.blocks[from as usize].order;
        leads_back && !self.around(from).any(|index| self.header(index) == to)
    }

    /// Numbers the blocks in reverse post-order, and returns them in this order.
    fn number(&mut self) -> Vec<Index> {
        let (mut order, mut seen) = (Vec::new(), vec![false; self.blocks.len()]);
        let mut open = vec![(0, 0)];
        seen[0] = true;
        while let Some((at, tried)) = open.last_mut() {
            match self.blocks[*at as usize].next.get(*tried) {
                Some(&next) => {
                    *tried += 1;
                    if !core::mem::replace(&mut seen[next as usize], true) {
                        open.push((next, 0));
                    }
                }
                None => {
                    order.push(*at);
                    open.pop();
                }
            }
        }
        order.reverse();
        order.iter().zip(0..).for_each(|(&block, place)| self.blocks[block as usize].order = place);
        order
    }

    /// The immediate dominator of each block (Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm"), and its
    /// predecessors.
    fn dominators(&self, order: &[Index]) -> (Vec<Index>, Vec<Vec<Index>>) {
        let mut before = vec![Vec::new(); self.blocks.len()];
        for &block in order {
            self.blocks[block as usize].next.iter().for_each(|&next| before[next as usize].push(block));
        }
        let place = |block: Index| self.blocks[block as usize].order;
        let mut above = vec![NONE; self.blocks.len()];
        above[0] = 0;
        let mut changes = true;
        while changes {
            changes = false;
            for &block in &order[1..] {
                let known = before[block as usize].iter().copied().filter(|&b| above[b as usize] != NONE);
                let common = known.reduce(|mut a, mut b| {
                    while a != b {
                        if place(a) > place(b) { a = above[a as usize] } else { b = above[b as usize] }
                    }
                    a
                });
                let common = common.unwrap_or(NONE);
                changes |= core::mem::replace(&mut above[block as usize], common) != common;
            }
        }
        (above, before)
    }

    fn find_loops(&mut self, order: &[Index]) {
        let (above, before) = self.dominators(order);
        let dominates = |header: Index, mut block: Index| {
            while block != header && block != 0 {
                block = above[block as usize];
            }
            block == header
        };
        // Headers of inner loops come later in the order, so each new loop is inside earlier ones.
        for &header in order {
            let mut open: Vec<Index> =
                before[header as usize].iter().copied().filter(|&from| dominates(header, from)).collect();
            if open.is_empty() {
                continue;
            }
            let index = self.loops.len() as Index;
            let parent = self.blocks[header as usize].innermost;
            self.loops.push(Loop { header, parent });
            self.blocks[header as usize].innermost = index;
            while let Some(block) = open.pop() {
                if self.blocks[block as usize].innermost != index {
                    self.blocks[block as usize].innermost = index;
                    open.extend(&before[block as usize]);
                }
            }
        }
    }
}

fn blocks(instrs: &[Instr]) -> Vec<Block> {
    let mut begins = vec![false; instrs.len() + 1];
    begins[0] = true;
    for (pc, instr) in instrs.iter().enumerate() {
        begins[pc + 1] |= instr.more().leaves;
        instr.more().targets.iter().for_each(|&target| begins[target as usize] = true);
    }
    let firsts: Vec<usize> = (0..instrs.len()).filter(|&pc| begins[pc]).collect();
    let index_of = |pc: usize| firsts.binary_search(&pc).map_or(NONE, |index| index as Index);
    let ends = firsts[1..].iter().copied().chain([instrs.len()]);
    let block = |(&first, end): (&usize, usize)| {
        let last = &instrs[end - 1];
        let mut next: Vec<Index> =
            last.more().targets.iter().map(|&target| index_of(target as usize)).collect();
        if (!last.more().leaves || last.guard.is_some()) && end < instrs.len() {
            next.insert(0, index_of(end));
        }
        Block { first, end, next, order: NONE, innermost: NONE }
    };
    firsts.iter().zip(ends).map(block).collect()
}
