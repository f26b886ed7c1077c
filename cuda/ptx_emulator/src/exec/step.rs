//! One instruction of one thread.

use super::bits::Bits;
use super::grid::Exec;
use super::row::{Flow, Joint, Run};
use super::table::{TABLE, UNKNOWN};
use super::thread::Cx;
use super::wait::{Wait, WarpWait};
use crate::instr::{Instr, SINK, Ty};

impl Cx<'_> {
    /// Executes an instruction.
    #[inline]
    pub fn step(&mut self, i: &Instr) -> Exec<Flow> {
        let flow = self.execute(i)?;
        self.check_accesses()?;
        Ok(flow)
    }

    #[inline]
    fn execute(&mut self, i: &Instr) -> Exec<Flow> {
        let form = &i.form;
        let result = match TABLE[usize::from(i.row)].run {
            Run::Value(value, pass) => {
                let operands @ [a, b, c] = self.operands(i);
                match a.undefined | b.undefined | c.undefined {
                    0 => Bits::new(value(form, a.value, b.value, c.value)),
                    _ => pass.on(value, form, operands),
                }
            }
            Run::Halves(value, pass) => {
                let operands = self.operands(i);
                let half = |shift: u32| {
                    let operands @ [a, b, c] = operands.map(|bits| bits.map(|raw| raw >> shift & 0xffff));
                    let half = match a.undefined | b.undefined | c.undefined {
                        0 => Bits::new(value(form, a.value, b.value, c.value)),
                        _ => pass.on(value, form, operands),
                    };
                    half.and(0xffff).map(|raw| raw << shift)
                };
                half(0).or(half(16))
            }
            Run::Bits(bits) => {
                let [a, b, c] = self.operands(i);
                bits(form, [a, b, c, self.bits(i.e)])
            }
            Run::Act(act) => return act(self, i).map(|()| Flow::Next),
            Run::Step(step) => return step(self, i),
            Run::Lanes(_) => return self.at_warp_operation(i),
            Run::Warp(_) => {
                let (kind, mask) = ((UNKNOWN, Ty::default()), u32::MAX);
                return Ok(Flow::Wait(Wait::Warp(WarpWait {
                    kind,
                    mask,
                    a: 0,
                    b: 0,
                    c: 0,
                    d: SINK,
                    p: SINK,
                })));
            }
            Run::Warpgroup(joint) => return Ok(self.at_warpgroup(joint)),
        };
        self.frame.set_bits(i.d, result.and(u64::MAX >> (64 - form.d_bits)));
        Ok(Flow::Next)
    }

    /// Without a limit of registers, `setmaxnreg` has no effect.
    fn at_warpgroup(&self, joint: Joint) -> Flow {
        let bounds = self.grid.module.functions[self.grid.kernel].bounds;
        let is_free = matches!(joint, Joint::Registers { .. }) && bounds.registers().is_none();
        if is_free { Flow::Next } else { Flow::Wait(Wait::Warpgroup) }
    }
}
