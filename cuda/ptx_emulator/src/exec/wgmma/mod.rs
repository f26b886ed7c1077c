//! `wgmma` (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions").
//!
//! Until the group of a multiplication is waited for, its accumulators hold tokens. Any access to one is a fault, and so is
//! a write to an operand. So the product can be computed at once: no thread can tell when.

mod descriptor;
pub(crate) mod group;
mod product;
mod sums;

use super::block::{Block, Failed};
use super::frame::Frame;
use super::grid::Exec;
use super::row::Joint;
use super::shared::Shared;
use super::thread::Cx;
use super::watch::Watch;
use crate::error::Cause;
use crate::instr::{Instr, Slot, Ty, WARPGROUP, flag};
use descriptor::Operand;
use group::Pending;
use product::{Matrix, depth};

impl Block<'_> {
    /// Executes an instruction that all threads of the warpgroup have reached; the warpgroup starts at thread `first`.
    pub fn execute_wgmma(&mut self, first: usize, joint: Joint, shared: &mut Shared) -> Result<(), Failed> {
        let i = self.instr(first);
        match joint {
            Joint::Fence => self.watches(first, None, |watch| watch.fences += 1),
            Joint::Commit => self.warpgroups[first / WARPGROUP].pending.commit(),
            Joint::Wait => self.wait_for_wgmma(first, i.form.literal, shared)?,
            Joint::Multiply => self.multiply(first, i, shared)?,
            Joint::Registers { .. } => {}
        }
        Ok(())
    }

    /// Calls `with` for the registers of all threads of the warpgroup: of the frame at this depth, or of all.
    fn watches(&mut self, first: usize, depth: Option<usize>, mut with: impl FnMut(&mut Watch)) {
        for thread in &mut self.threads[first..first + WARPGROUP] {
            let is_it = |&(at, _): &(usize, &mut Frame)| depth.is_none_or(|depth| depth == at);
            let frames = thread.frames.iter_mut().enumerate().filter(is_it);
            frames.filter_map(|(_, frame)| frame.watch.as_deref_mut()).for_each(&mut with);
        }
    }

    fn multiply(&mut self, first: usize, i: &Instr, shared: &mut Shared) -> Result<(), Failed> {
        let (ty, n, literals) = (i.form.from, 2 * i.more().d.len(), &i.more().literals);
        let negate = [literals[0], literals[1]].map(|scale| scale == u64::MAX);
        // The flags of operands in shared memory.
        let trans: Vec<bool> = literals[2..].iter().map(|&trans| trans == 1).collect();
        let in_registers = &i.more().a;
        let keeps = (self.common(first, i.c, shared)? != 0) != i.form.has(flag::NOT);
        let b_trans = trans.last().copied().unwrap_or(false);
        let b = Operand { raw: self.common(first, i.b, shared)?, count: n, trans: b_trans, ty };
        let a_trans = trans.first().copied().unwrap_or(false);
        let a = match in_registers.is_empty() {
            true => Some(Operand { raw: self.common(first, i.a, shared)?, count: 64, trans: a_trans, ty }),
            false => None,
        };
        let (line, mut units) = (self.line(first), Vec::new());
        let mut read = |operand: &Operand, negates: bool| {
            let cx = self.cx(first, shared).ok_or_else(|| (first, ended()))?;
            operand.read(&cx, negates, &mut units).map_err(|cause| (first, cause))
        };
        let b = read(&b, negate[1])?;
        let a = match &a {
            Some(a) => read(a, negate[0])?,
            None => self.fragment(first, in_registers, (ty, negate[0]), shared)?,
        };
        units.sort_unstable();
        units.dedup();
        let sums = self.accumulators(first, i, (keeps, line), shared)?;
        let warpgroup = &mut self.warpgroups[first / WARPGROUP];
        if let Some(found) = warpgroup.sums.iter_mut().find(|other| other.number == sums) {
            product::multiply(&a, &b, n, keeps, found);
            found.pending += 1;
        }
        shared.pins.hold(&units, line, shared.memory.len());
        let (depth, held) = (self.threads[first].frames.len() - 1, in_registers.clone());
        self.watches(first, Some(depth), |watch| held.iter().for_each(|&slot| watch.hold(slot, line)));
        let pending = &mut self.warpgroups[first / WARPGROUP].pending;
        pending.open.push(Pending { line, sums, units, held, depth });
        Ok(())
    }

    fn wait_for_wgmma(&mut self, first: usize, left: u64, shared: &mut Shared) -> Result<(), Failed> {
        for Pending { sums, units, held, depth, .. } in
            self.warpgroups[first / WARPGROUP].pending.complete(left)
        {
            shared.pins.release(&units);
            self.watches(first, Some(depth), |watch| held.iter().for_each(|&slot| watch.release(slot)));
            let all = &mut self.warpgroups[first / WARPGROUP].sums;
            let Some(at) = all.iter().position(|other| other.number == sums) else { continue };
            all[at].pending -= 1;
            if all[at].pending == 0 {
                let sums = all.swap_remove(at);
                self.write_back(first, &sums)?;
            }
        }
        Ok(())
    }

    /// The value of a register, which must be the same in all threads of the warpgroup.
    fn common(&mut self, first: usize, slot: Slot, shared: &mut Shared) -> Result<u64, Failed> {
        let mut common = None;
        for at in first..first + WARPGROUP {
            let value = match self.cx(at, shared) {
                Some(cx) => cx.value(slot).and_then(|value| cx.check_accesses().map(|()| value)),
                None => Err(ended()),
            };
            let value = value.map_err(|cause| (at, cause))?;
            if *common.get_or_insert(value) != value {
                let reason = "the threads of the warpgroup have different descriptors or predicates";
                return Err((at, Cause::Wgmma(reason.to_owned()).into()));
            }
        }
        Ok(common.unwrap_or_default())
    }

    /// The elements of A in the threads' registers.
    fn fragment(
        &mut self,
        first: usize,
        slots: &[Slot],
        of: (Ty, bool),
        shared: &mut Shared,
    ) -> Result<Matrix, Failed> {
        let mut matrix = Matrix::new(64, depth(of.0));
        for at in first..first + WARPGROUP {
            let cx = self.cx(at, shared).ok_or_else(|| (at, ended()))?;
            for (i, &slot) in slots.iter().enumerate() {
                let bits = cx.bits(slot);
                cx.check_accesses().map_err(|cause| (at, cause))?;
                if cx.frame.watch.as_ref().is_some_and(|watch| !watch.is_written_before_fence(slot)) {
                    return Err((at, unfenced(&cx, slot, "written")));
                }
                matrix.set_fragment(at - first, i, bits, of);
            }
        }
        Ok(matrix)
    }

    /// Checks that a thread that ends leaves no multiplication of its warpgroup pending.
    pub fn check_wgmma_end(&self, at: usize) -> Exec {
        match self.warpgroups[at / WARPGROUP].pending_line() {
            None => Ok(()),
            Some(line) => {
                let reason =
                    format!("the wgmma of PTX line {line} is pending when a thread of its warpgroup ends");
                Err(Cause::InFlight(reason).into())
            }
        }
    }
}

/// The fault of a thread that has ended, which executes no instructions.
fn ended() -> Box<Cause> {
    Cause::Wgmma("a thread that has ended".to_owned()).into()
}

/// The fault of a register that was accessed after the last `wgmma.fence`.
fn unfenced(cx: &Cx<'_>, slot: Slot, access: &str) -> Box<Cause> {
    let register = cx.name(slot);
    Cause::Wgmma(format!(
        "register {register} was {access} with no wgmma.fence since; execute one before the wgmma"
    ))
    .into()
}
