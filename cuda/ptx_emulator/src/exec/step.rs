//! One instruction of one thread.

use super::memory::Access;
use super::thread::{Carry, Cx};
use super::undefined::Bits;
use super::warp::{self, Wait};
use super::{Exec, convert, float, half, int, undefined};
use crate::error::Cause;
use crate::instr::{
    Addr, BoolOp, Call, CarryOp, IntOp, IntTy, IntUnary, Ld, Op, Pc, SetpOut, Slot, Src, St, Ty,
};

/// What comes after an instruction.
pub(super) enum Flow<'a> {
    Next,
    Jump(Pc),
    Yield,
    Call(&'a Call),
    Return,
    Exit,
    Wait(Wait),
}

impl<'a> Cx<'a> {
    /// Executes `op`.
    #[inline]
    pub fn step<'o>(&mut self, op: &'o Op) -> Exec<Flow<'o>> {
        match *op {
            Op::Nop => {}
            Op::Yield => return Ok(Flow::Yield),
            Op::Unsupported(ref reason) => return Err(Cause::Unsupported(reason.to_string()).into()),
            Op::Trap => return Err(Cause::Trap.into()),
            Op::Exit => return Ok(Flow::Exit),
            Op::Ret => return Ok(Flow::Return),
            Op::Bra(target) => return Ok(Flow::Jump(target)),
            Op::BrxIdx { index, ref targets } => {
                let index = self.value(index)?;
                let target = targets.get(index as usize);
                let missing = || Cause::Unsupported(format!("target {index} of {}", targets.len()));
                return Ok(Flow::Jump(*target.ok_or_else(missing)?));
            }
            Op::Call(ref call) => return Ok(Flow::Call(call)),
            Op::Barrier(ref barrier) => return warp::at_barrier(self, barrier).map(Flow::Wait),
            Op::ClusterArrive => self.arrive()?,
            Op::ClusterWait { aligned } => return self.at_cluster_barrier(aligned).map(Flow::Wait),
            Op::Warp(ref op) => return warp::at_warp_op(self, op).map(Flow::Wait),
            Op::ActiveMask { d } => return Ok(Flow::Wait(Wait::ActiveMask { d })),
            Op::Ld(ref ld) => self.ld(ld)?,
            Op::St(ref st) => self.st(st)?,
            Op::Atom(ref atom) => self.atomic(atom)?,
            Op::Prefetch { at, bytes } => self.prefetch(at, bytes)?,
            Op::Carry { op, ty, d, a, b, c, carry_in, carry_out } => {
                self.carry(op, ty, d, [a, b, c], (carry_in, carry_out))?;
            }
            _ => self.compute(op)?,
        }
        Ok(Flow::Next)
    }

    /// Instructions that pass on which bits are undefined, and by way of [`Self::pure`] all that write one register.
    #[inline]
    fn compute(&mut self, op: &Op) -> Exec {
        let (d, bits) = match *op {
            Op::Mov { d, a } => (d, self.bits(a)?),
            Op::Selp { d, a, b, p } => match self.bits(p)? {
                Bits { value: 0, undefined: 0 } => (d, self.bits(b)?),
                Bits { undefined: 0, .. } => (d, self.bits(a)?),
                _ => (d, Bits::UNDEFINED),
            },
            Op::Int { op, ty, d, a, b } => {
                let (a, b) = (self.bits(a)?, self.bits(b)?);
                if a.undefined | b.undefined == 0 {
                    (d, Bits::new(int::binary(op, ty, a.value, b.value)?))
                } else {
                    (d, undefined::binary(op, ty, a, b))
                }
            }
            Op::IntUnary { op: IntUnary::Not, ty, d, a } => {
                let a = self.bits(a)?.and(ty.mask());
                (d, Bits { value: !(a.value | a.undefined) & ty.mask(), ..a })
            }
            Op::SetpInt { cmp, ty, ref out, a, b } => {
                return self.setp(out, ty.mask(), a, b, |a, b| int::compare(cmp, ty, a, b));
            }
            Op::SetpFloat { cmp, ty, ftz, ref out, a, b } => {
                let mask = u64::MAX >> (64 - Ty::Float(ty).bits());
                return self.setp(out, mask, a, b, |a, b| float::setp(cmp, ty, ftz, a, b));
            }
            Op::Pack { d, ref parts, bits } => {
                let mut all = Bits::new(0);
                for (i, &part) in parts.iter().enumerate() {
                    let part =
                        self.bits(part)?.and(u64::MAX >> (64 - bits)).map(|raw| raw << (i as u32 * bits));
                    all = Bits { value: all.value | part.value, undefined: all.undefined | part.undefined };
                }
                (d, all)
            }
            Op::Unpack { ref parts, bits, a } => {
                let (value, mask) = (self.bits(a)?, u64::MAX >> (64 - bits));
                for (i, &part) in parts.iter().enumerate() {
                    self.frame.set_bits(part, value.map(|raw| (raw >> (i as u32 * bits)) & mask));
                }
                return Ok(());
            }
            Op::Cvt(ref cvt) => match self.bits(cvt.a)? {
                Bits { value, undefined: 0 } => (cvt.d, Bits::new(convert::convert(cvt, value))),
                // Extended or cut, bit by bit.
                bits if cvt.is_bitwise() => (cvt.d, bits.map(|raw| convert::convert(cvt, raw))),
                _ => (cvt.d, Bits::UNDEFINED),
            },
            _ => match self.pure(op) {
                Ok((d, value)) => (d, Bits::new(value)),
                Err(cause) => match (destination(op), *cause) {
                    (Some(d), Cause::Unset(_)) => (d, Bits::UNDEFINED),
                    (_, cause) => return Err(cause.into()),
                },
            },
        };
        self.frame.set_bits(d, bits);
        Ok(())
    }

    /// Instructions whose only effect is one register.
    #[inline]
    fn pure(&mut self, op: &Op) -> Exec<(Slot, u64)> {
        Ok(match *op {
            Op::IntUnary { op, ty, d, a } => (d, int::unary(op, ty, self.value(a)?)),
            Op::MulWide { ty, d, a, b } => {
                let product = int::wide_product(ty, self.value(a)?, self.value(b)?) as u64;
                (d, product & (u64::MAX >> (64 - 2 * ty.bits)))
            }
            Op::Mad { half, ty, d, a, b, c } => {
                (d, int::mad(half, ty, self.value(a)?, self.value(b)?, self.value(c)?))
            }
            Op::Bits { op, ty, d, a, b, c } => {
                (d, int::three(op, ty, self.value(a)?, self.value(b)?, self.value(c)?))
            }
            Op::Bfi { ty, d, f, b, c, len } => {
                (d, int::insert(ty, self.value(f)?, self.value(b)?, self.value(c)?, self.value(len)?))
            }
            Op::Slct { d, a, b, c, float, ftz } => {
                let c = self.value(c)?;
                let is_first = if float {
                    float::flush(f32::from_bits(c as u32), ftz) >= 0.0
                } else {
                    c as u32 as i32 >= 0
                };
                (d, self.value(if is_first { a } else { b })?)
            }
            Op::Float { op, mode, d, a, b } => (d, float::binary(op, mode, self.value(a)?, self.value(b)?)),
            Op::FloatUnary { op, mode, d, a } => (d, float::unary(op, mode, self.value(a)?)),
            Op::Fma { mode, d, a, b, c } => {
                (d, float::fma(mode, self.value(a)?, self.value(b)?, self.value(c)?))
            }
            Op::HalfExtreme { kind, d, a, b } => (d, half::extreme(kind, self.value(a)?, self.value(b)?)),
            Op::CvtHalf { cvt, ftz, d, a, b } => (d, half::convert(cvt, ftz, self.value(a)?, self.value(b)?)),
            Op::Testp { test, ty, d, a } => (d, u64::from(float::testp(test, ty, self.value(a)?))),
            Op::Cvta { to: true, space, d, a } => (d, self.specific(space, self.value(a)?)?),
            Op::Cvta { to: false, space, d, a } => (d, self.generic(space, self.value(a)?)?),
            Op::Mapa { d, a, b } => (d, self.map(self.value(a)?, self.value(b)?)?),
            Op::Isspacep { space, d, a } => (d, u64::from(self.is_in(space, self.value(a)?))),
            _ => return Err(Cause::Unsupported("an instruction of no family".to_owned()).into()),
        })
    }

    /// Compares the bits of `mask`, and combines the result with a predicate.
    #[inline]
    fn setp(&mut self, out: &SetpOut, mask: u64, a: Src, b: Src, compare: impl Fn(u64, u64) -> bool) -> Exec {
        let (a, b) = (self.bits(a)?.and(mask), self.bits(b)?.and(mask));
        let (mut p, mut q) = (Bits::UNDEFINED.and(1), Bits::UNDEFINED.and(1));
        if a.undefined | b.undefined == 0 {
            let result = compare(a.value, b.value);
            (p, q) = (Bits::new(u64::from(result)), Bits::new(u64::from(!result)));
        }
        if let Some((op, c, inverted)) = out.combine {
            let c = self.bits(c)?.and(1);
            let c = if inverted { Bits { value: !(c.value | c.undefined) & 1, ..c } } else { c };
            let op = match op {
                BoolOp::And => IntOp::And,
                BoolOp::Or => IntOp::Or,
                BoolOp::Xor => IntOp::Xor,
            };
            let ty = IntTy { bits: 1, signed: false };
            p = undefined::binary(op, ty, p, c);
            q = undefined::binary(op, ty, q, c);
        }
        self.frame.set_bits(out.p, p);
        self.frame.set_bits(out.q, q);
        Ok(())
    }

    fn ld(&mut self, ld: &Ld) -> Exec {
        let bytes = u64::from(ld.ty.bits() / 8);
        if let Some(policy) = ld.policy {
            self.value(policy)?;
        }
        let place = self.place(&ld.at, bytes * ld.d.len() as u64, Access::Load)?;
        for (i, &(d, d_bits)) in ld.d.iter().enumerate() {
            let raw = self.load(place.plus(i as u64 * bytes), bytes as usize);
            let value = match ld.ty {
                Ty::Int(ty @ IntTy { signed: true, .. }) => convert::extend(ty, raw, d_bits),
                _ => raw,
            };
            self.frame.set(d, value);
        }
        Ok(())
    }

    fn st(&mut self, st: &St) -> Exec {
        let bytes = u64::from(st.ty.bits() / 8);
        if let Some(policy) = st.policy {
            self.value(policy)?;
        }
        let place = self.place(&st.at, bytes * st.values.len() as u64, Access::Store)?;
        for (i, &value) in st.values.iter().enumerate() {
            let value = self.value(value)?;
            self.store(place.plus(i as u64 * bytes), bytes as usize, value);
        }
        Ok(())
    }

    /// Checks the memory that is asked for, 16 bytes at a time.
    fn prefetch(&mut self, at: Addr, bytes: Src) -> Exec {
        let bytes = self.value(bytes)?;
        if !bytes.is_multiple_of(16) {
            return Err(Cause::Unsupported(format!("a prefetch of {bytes} bytes")).into());
        }
        for done in (0..bytes).step_by(16) {
            self.place(&Addr { offset: at.offset + done as i64, ..at }, 16, Access::Load)?;
        }
        Ok(())
    }

    /// `add.cc`, `subc` and their kin.
    fn carry(
        &mut self,
        op: CarryOp,
        ty: IntTy,
        d: Slot,
        [a, b, c]: [Src; 3],
        (carry_in, carry_out): (bool, bool),
    ) -> Exec {
        let mask = u128::from(ty.mask());
        let wide = |x: u64| u128::from(x) & mask;
        let (a, b, c) = (self.value(a)?, self.value(b)?, self.value(c)?);
        let is_sub = op == CarryOp::Sub;
        let flag = match (*self.carry, is_sub) {
            _ if !carry_in => 0,
            (Carry::Addition(flag), false) | (Carry::Subtraction(flag), true) => u128::from(flag),
            // The flag itself is one where a subtraction borrowed nothing: the long division of libNVVM's own
            // 128-bit integers adds it up to learn whether to stop.
            (Carry::Subtraction(borrow), false) => u128::from(!borrow),
            (Carry::Unset, _) => return Err(Cause::Carry("no instruction wrote it").into()),
            (Carry::Addition(_), true) => return Err(Cause::Carry("it holds that of an addition").into()),
        };
        let product = int::wide_product(ty, a, b);
        let (left, right) = match op {
            CarryOp::Add | CarryOp::Sub => (wide(a), wide(b)),
            CarryOp::MadLo => (product & mask, wide(c)),
            CarryOp::MadHi => ((product >> ty.bits) & mask, wide(c)),
        };
        let (result, flag) = if is_sub {
            let taken = right + flag;
            (left.wrapping_sub(taken) & mask, Carry::Subtraction(left < taken))
        } else {
            let sum = left + right + flag;
            (sum & mask, Carry::Addition(sum > mask))
        };
        if carry_out {
            *self.carry = flag;
        }
        self.frame.set(d, result as u64);
        Ok(())
    }
}

/// Where an instruction of [`Cx::pure`] writes.
fn destination(op: &Op) -> Option<Slot> {
    match *op {
        Op::IntUnary { d, .. }
        | Op::MulWide { d, .. }
        | Op::Mad { d, .. }
        | Op::Bits { d, .. }
        | Op::Bfi { d, .. }
        | Op::Slct { d, .. }
        | Op::Float { d, .. }
        | Op::FloatUnary { d, .. }
        | Op::Fma { d, .. }
        | Op::CvtHalf { d, .. }
        | Op::HalfExtreme { d, .. }
        | Op::Testp { d, .. }
        | Op::Cvta { d, .. }
        | Op::Mapa { d, .. }
        | Op::Isspacep { d, .. } => Some(d),
        _ => None,
    }
}
