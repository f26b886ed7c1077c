//! `wgmma` (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions").
//!
//! Until the group of a multiplication is waited for, its accumulators hold tokens. Any access to one is a fault, and so is
//! a write to an operand. So the product can be computed at once: no thread can tell when.

mod descriptor;
mod number;
mod product;
mod sums;

use std::collections::VecDeque;

use super::Exec;
use super::block::{Block, Failed};
use super::cluster::Shared;
use super::frame::Frame;
use super::thread::Cx;
use crate::error::Cause;
use crate::instr::{Left, Multiply, Slot, WARPGROUP, Wgmma};
use descriptor::Operand;
use product::Matrix;
use sums::Sums;

/// A multiplication whose group was not waited for.
#[derive(Debug)]
struct Pending {
    /// The PTX line.
    line: u32,
    /// The number of its accumulators.
    sums: u32,
    /// The units of shared memory that it reads.
    units: Vec<u32>,
    /// The registers of A, and the depth of their frame.
    held: Vec<Slot>,
    depth: usize,
}

/// The state that the four warps of a warpgroup share.
#[derive(Debug, Default)]
pub(super) struct Warpgroup {
    /// The registers of each thread, if `setmaxnreg` has changed them.
    pub registers: Option<u64>,
    open: Vec<Pending>,
    groups: VecDeque<Vec<Pending>>,
    /// The accumulators of pending multiplications.
    sums: Vec<Sums>,
    next: u32,
}

impl Warpgroup {
    /// The PTX line of a pending multiplication.
    pub fn pending_line(&self) -> Option<u32> {
        self.groups.iter().flatten().chain(&self.open).next().map(|pending| pending.line)
    }
}

impl Block<'_> {
    /// Executes an instruction that all threads of the warpgroup have reached; the warpgroup starts at thread `first`.
    pub fn execute_wgmma(&mut self, first: usize, wgmma: &Wgmma, shared: &mut Shared) -> Result<(), Failed> {
        match wgmma {
            Wgmma::Fence => {
                for thread in &mut self.threads[first..first + WARPGROUP] {
                    let watches = thread.frames.iter_mut().filter_map(|frame| frame.watch.as_mut());
                    watches.for_each(|watch| watch.fences += 1);
                }
                Ok(())
            }
            Wgmma::Commit => {
                let warpgroup = &mut self.warpgroups[first / WARPGROUP];
                let group = core::mem::take(&mut warpgroup.open);
                warpgroup.groups.push_back(group);
                Ok(())
            }
            Wgmma::Wait { left } => self.wait_for_wgmma(first, *left, shared),
            Wgmma::Multiply(multiply) => self.multiply(first, multiply, shared),
        }
    }

    fn multiply(&mut self, first: usize, multiply: &Multiply, shared: &mut Shared) -> Result<(), Failed> {
        let Multiply { ty, n, b, b_trans, keep, negate, .. } = multiply;
        let keeps = (self.common(first, keep.0, shared)? != 0) != keep.1;
        let b = Operand { raw: self.common(first, *b, shared)?, count: *n, trans: *b_trans, ty: *ty };
        let a = match &multiply.a {
            Left::Descriptor { at, trans } => {
                let raw = self.common(first, *at, shared)?;
                Some(Operand { raw, count: 64, trans: *trans, ty: *ty })
            }
            Left::Registers(_) => None,
        };
        let line = self.line(first);
        let mut units = Vec::new();
        let mut read = |operand: &Operand, negates: bool| {
            let cx = self.cx(first, shared).ok_or_else(|| (first, ended()))?;
            operand.read(&cx, negates, &mut units).map_err(|cause| (first, cause))
        };
        let b = read(&b, negate[1])?;
        let a = match &a {
            Some(a) => read(a, negate[0])?,
            None => Matrix::default(),
        };
        units.sort_unstable();
        units.dedup();
        let (a, held) = match &multiply.a {
            Left::Registers(slots) => {
                (self.fragment(first, slots, (*ty, negate[0]), shared)?, slots.to_vec())
            }
            Left::Descriptor { .. } => (a, Vec::new()),
        };
        let sums = self.accumulators(first, multiply, (keeps, line), shared)?;
        let warpgroup = &mut self.warpgroups[first / WARPGROUP];
        let found = warpgroup.sums.iter_mut().find(|other| other.number == sums);
        if let Some(found) = found {
            product::multiply(&a, &b, *n, keeps, found);
            found.pending += 1;
        }
        shared.pins.hold(&units, line, shared.memory.len());
        let depth = self.threads[first].frames.len() - 1;
        for thread in &mut self.threads[first..first + WARPGROUP] {
            let watch = thread.frames.last_mut().and_then(|frame| frame.watch.as_mut());
            watch.into_iter().for_each(|watch| held.iter().for_each(|&slot| watch.hold(slot, line)));
        }
        self.warpgroups[first / WARPGROUP].open.push(Pending { line, sums, units, held, depth });
        Ok(())
    }

    fn wait_for_wgmma(&mut self, first: usize, left: u64, shared: &mut Shared) -> Result<(), Failed> {
        let warpgroup = &mut self.warpgroups[first / WARPGROUP];
        let done = warpgroup.groups.len().saturating_sub(usize::try_from(left).unwrap_or(usize::MAX));
        let ended: Vec<Pending> = warpgroup.groups.drain(..done).flatten().collect();
        for Pending { sums, units, held, depth, .. } in ended {
            shared.pins.release(&units);
            if !held.is_empty() {
                for thread in &mut self.threads[first..first + WARPGROUP] {
                    let watch = thread.frames.get_mut(depth).and_then(|frame| frame.watch.as_mut());
                    watch.into_iter().for_each(|watch| held.iter().for_each(|&slot| watch.release(slot)));
                }
            }
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
                let reason =
                    "the threads of the warpgroup have different descriptors or predicates".to_owned();
                return Err((at, Cause::Wgmma(reason).into()));
            }
        }
        Ok(common.unwrap_or_default())
    }

    /// The elements of A in the threads' registers.
    fn fragment(
        &mut self,
        first: usize,
        slots: &[Slot],
        (ty, negates): (crate::instr::WgmmaTy, bool),
        shared: &mut Shared,
    ) -> Result<Matrix, Failed> {
        let mut matrix = Matrix::new(64, ty.k());
        for at in first..first + WARPGROUP {
            let cx = self.cx(at, shared).ok_or_else(|| (at, ended()))?;
            for (i, &slot) in slots.iter().enumerate() {
                let bits = cx.bits(slot);
                cx.check_accesses().map_err(|cause| (at, cause))?;
                if cx.frame.watch.as_ref().is_some_and(|watch| !watch.is_written_before_fence(slot)) {
                    return Err((at, unfenced(cx.frame, slot, &cx, "written").into()));
                }
                matrix.set_fragment(at - first, i, bits, (ty, negates));
            }
        }
        Ok(matrix)
    }

    /// The context for a step of a thread.
    fn cx<'t>(&'t mut self, at: usize, shared: &'t mut Shared) -> Option<Cx<'t>> {
        let ahead = self.grid.progress.time.get().saturating_sub(self.steps);
        self.threads[at].cx(self.grid, shared, [self.steps, ahead])
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
fn unfenced(frame: &Frame, slot: Slot, cx: &Cx<'_>, access: &str) -> Cause {
    let register = &cx.grid.module.functions[frame.function].registers[slot as usize];
    Cause::Wgmma(format!(
        "register {register} was {access} with no wgmma.fence since; execute one before the wgmma"
    ))
}
