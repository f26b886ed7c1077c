//! One instruction of one thread.

use super::memory::{self, Access};
use super::polls::Turn;
use super::thread::{Carry, Cx};
use super::undefined::Bits;
use super::warp::{self, Wait};
use super::{Exec, convert, float, half, int, tensor, undefined};
use crate::error::Cause;
use crate::instr::{
    Addr, BoolOp, Call, Callee, CarryOp, Half, IntOp, IntTy, IntUnary, Ld, Op, Pc, SetpOut, Slot, St, Ty,
};

/// What follows an instruction.
pub(super) enum Flow<'a> {
    Next,
    Jump(Pc),
    Yield,
    /// The thread has loaded a word that other threads may store.
    Polled(Turn),
    Call(&'a Call),
    Return,
    Exit,
    Wait(Wait),
}

impl<'a> Cx<'a> {
    /// Executes `op`.
    #[inline]
    pub fn step<'o>(&mut self, op: &'o Op) -> Exec<Flow<'o>> {
        let flow = self.execute(op)?;
        self.check_accesses()?;
        Ok(flow)
    }

    #[inline]
    fn execute<'o>(&mut self, op: &'o Op) -> Exec<Flow<'o>> {
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
            Op::Call(ref call) => match call.callee {
                Callee::System(system) => self.system(system, call)?,
                _ => return Ok(Flow::Call(call)),
            },
            Op::Barrier(ref barrier) => {
                let wait = warp::at_barrier(self, barrier)?;
                if barrier.arrives {
                    self.arrive_at(&wait)?;
                    return Ok(Flow::Yield);
                }
                return Ok(Flow::Wait(Wait::Barrier(wait)));
            }
            // After a wait that fails, the other threads run first: the loop around it would never end.
            Op::Mbarrier(ref op) => return Ok(self.mbarrier(op)?.map_or(Flow::Next, Flow::Polled)),
            Op::ClusterArrive => self.arrive()?,
            Op::ClusterWait { aligned } => return self.at_cluster_barrier(aligned).map(Flow::Wait),
            Op::Warp(ref op) => return warp::at_warp_op(self, op).map(Flow::Wait),
            Op::Tensor(_) => return Ok(Flow::Wait(warp::at_tensor())),
            Op::ActiveMask { d } => return Ok(Flow::Wait(Wait::ActiveMask { d })),
            Op::Ld(ref ld) => {
                let address = self.ld(ld)?;
                if let Some(address) = address {
                    return Ok(Flow::Polled(self.poll(ld, address)));
                }
            }
            Op::St(ref st) => self.st(st)?,
            Op::Atom(ref atom) => self.atomic(atom)?,
            Op::CopyAsync(ref copy) => self.copy(copy)?,
            Op::BulkCopy(ref copy) => self.start_bulk_copy(copy)?,
            Op::BulkStore(ref store) => self.start_bulk_store(store)?,
            Op::StoreAsync(ref store) => self.start_store(store)?,
            Op::BulkCommit => self.commit_bulk_stores(),
            Op::BulkWait { left, read } => self.wait_for_bulk_stores(left, read)?,
            Op::FenceProxy { barriers_alone } => self.shared.unfenced.fence(barriers_alone),
            Op::CopyCommit => self.commit_copies(),
            Op::CopyWait { left } => self.wait_for_copies(left)?,
            Op::Prefetch { at, bytes } => self.prefetch(at, bytes)?,
            Op::TensorLoad(ref load) => self.start_tensor_load(load)?,
            Op::TensorStore(ref store) => self.start_tensor_store(store)?,
            Op::TensorPrefetch(ref source) => drop(self.tile(source)?),
            Op::MapPrefetch { at } => drop(self.tensor_map(&at)?),
            Op::Wgmma(_) => return Ok(Flow::Wait(Wait::Warpgroup)),
            Op::MaxRegisters { .. } => {
                let bounds = self.grid.module.functions[self.grid.kernel].bounds;
                return Ok(bounds.registers().map_or(Flow::Next, |_| Flow::Wait(Wait::Warpgroup)));
            }
            Op::Carry { op, ty, d, a, b, c, carry_in, carry_out } => {
                self.carry(op, ty, d, [a, b, c], (carry_in, carry_out))?;
            }
            _ => self.compute(op)?,
        }
        Ok(Flow::Next)
    }

    /// Instructions that only write registers: they pass on which bits are undefined.
    #[inline]
    fn compute(&mut self, op: &Op) -> Exec {
        let (d, bits) = match *op {
            Op::Mov { d, a } => (d, self.bits(a)),
            Op::Int { op, ty, d, a, b } => {
                let (a, b) = (self.bits(a), self.bits(b));
                if a.undefined | b.undefined == 0 {
                    // Compilers divide before they know that the divisor is not zero, and then do not use the result.
                    let result = int::binary(op, ty, a.value, b.value);
                    (d, result.map_or(Bits::UNDEFINED, Bits::new))
                } else {
                    (d, undefined::binary(op, ty, a, b))
                }
            }
            Op::IntPair { op, signed, d, a, b } => {
                let (a, b, ty) = (self.bits(a), self.bits(b), IntTy { bits: 16, signed });
                let half = |shift: u32| {
                    let [a, b] = [a, b].map(|bits| bits.map(|raw| raw >> shift & 0xffff));
                    let known = a.undefined | b.undefined == 0;
                    let result = int::binary(op, ty, a.value, b.value).filter(|_| known);
                    result.map_or_else(|| undefined::binary(op, ty, a, b), Bits::new).map(|raw| raw << shift)
                };
                let (low, high) = (half(0), half(16));
                let undefined = low.undefined | high.undefined;
                (d, Bits { value: low.value | high.value, undefined })
            }
            Op::SetpInt { cmp, ty, ref out, a, b } => {
                let (a, b) = (self.bits(a), self.bits(b));
                let result = if a.undefined | b.undefined == 0 {
                    Some(int::compare(cmp, ty, a.value, b.value))
                } else {
                    undefined::compare(cmp, ty, a, b)
                };
                self.setp(out, result);
                return Ok(());
            }
            Op::SetpFloat { cmp, ty, ftz, ref out, a, b } => {
                let (a, b) = (self.bits(a), self.bits(b));
                let is_known = a.undefined | b.undefined == 0;
                self.setp(out, is_known.then(|| float::setp(cmp, ty, ftz, a.value, b.value)));
                return Ok(());
            }
            Op::Selp { d, a, b, p } => match self.bits(p) {
                Bits { value: 0, undefined: 0 } => (d, self.bits(b)),
                Bits { undefined: 0, .. } => (d, self.bits(a)),
                _ => (d, undefined::either(self.bits(a), self.bits(b))),
            },
            Op::IntUnary { op, ty, d, a } => match self.bits(a) {
                // ptxas turns it into a 32-bit operation, so what follows sees 32768 or -32768.
                Bits { value, undefined: 0 }
                    if matches!(op, IntUnary::Abs | IntUnary::Neg)
                        && ty.bits == 16
                        && value & ty.mask() == 0x8000 =>
                {
                    (d, Bits::UNDEFINED.and(ty.mask()))
                }
                Bits { value, undefined: 0 } => (d, Bits::new(int::unary(op, ty, value))),
                a => (d, undefined::unary(op, ty, a)),
            },
            Op::MulWide { ty, d, a, b } => (d, self.mad(Half::Wide, ty, a, b, None)),
            Op::Mad { half, ty, d, a, b, c } => (d, self.mad(half, ty, a, b, Some(c))),
            Op::Bits { op, ty, d, a, b, c } => {
                let [a, b, c] = [a, b, c].map(|slot| self.bits(slot));
                if a.undefined | b.undefined | c.undefined == 0 {
                    (d, Bits::new(int::three(op, ty, a.value, b.value, c.value)))
                } else {
                    (d, undefined::three(op, ty, a, b, c))
                }
            }
            Op::Bfi { ty, d, f, b, c, len } => {
                let [f, b, c, len] = [f, b, c, len].map(|slot| self.bits(slot));
                (d, undefined::insert(ty, f, b, c, len))
            }
            Op::Pack { d, ref parts, bits } => (d, self.pack(parts, bits)),
            Op::Unpack { ref parts, bits, a } => {
                let (value, mask) = (self.bits(a), u64::MAX >> (64 - bits));
                for (i, &part) in parts.iter().enumerate() {
                    self.frame.set_bits(part, value.map(|raw| (raw >> (i as u32 * bits)) & mask));
                }
                return Ok(());
            }
            Op::Cvt(ref cvt) => match self.bits(cvt.a) {
                Bits { value, undefined: 0 } => (cvt.d, Bits::new(convert::convert(cvt, value))),
                // Extended or truncated, bit by bit.
                bits if cvt.is_bitwise() => (cvt.d, bits.map(|raw| convert::convert(cvt, raw))),
                _ => (cvt.d, Bits::UNDEFINED),
            },
            _ => self.whole(op)?,
        };
        self.frame.set_bits(d, bits);
        Ok(())
    }

    /// Instructions with a result that is undefined if any bit of an operand is.
    #[inline]
    fn whole(&self, op: &Op) -> Exec<(Slot, Bits)> {
        Ok(match *op {
            Op::Float { op, mode, d, a, b } => (d, self.of_two(a, b, |a, b| float::binary(op, mode, a, b))),
            Op::FloatUnary { op, mode, d, a } => (d, self.of_one(a, |a| float::unary(op, mode, a))),
            Op::Fma { mode, d, a, b, c } => {
                let [a, b, c] = [a, b, c].map(|slot| self.bits(slot));
                let is_known = a.undefined | b.undefined | c.undefined == 0;
                let fused = || Bits::new(float::fma(mode, a.value, b.value, c.value));
                (d, if is_known { fused() } else { Bits::UNDEFINED })
            }
            Op::Slct { d, a, b, c, float, ftz } => (d, self.slct([a, b, c], float, ftz)),
            Op::HalfExtreme { kind, d, a, b } => (d, self.of_two(a, b, |a, b| half::extreme(kind, a, b))),
            Op::CvtHalf { cvt, ftz, d, a, b } => (d, self.of_two(a, b, |a, b| half::convert(cvt, ftz, a, b))),
            Op::CvtTf32 { d, a } => (d, self.of_one(a, tensor::to_tf32)),
            Op::Testp { test, ty, d, a } => (d, self.of_one(a, |a| u64::from(float::testp(test, ty, a)))),
            Op::Cvta { to: false, space, d, a } => (d, self.of_one(a, |a| memory::generic(space, a))),
            Op::Cvta { to: true, space, d, a } => (d, self.of_one(a, |a| memory::specific(space, a))),
            Op::Mapa { space, narrow, d, a, b } => {
                let address = self.map(space, self.value(a)?, self.value(b)?)?;
                (d, Bits::new(if narrow { memory::narrow(address) } else { address }))
            }
            Op::Isspacep { space, d, a } => (d, self.of_one(a, |a| u64::from(self.is_in(space, a)))),
            Op::Clock { d } => (d, Bits::new(self.clock)),
            Op::Timer { d } => (d, Bits::new(self.clock + self.ahead)),
            _ => return Err(Cause::Unsupported("an instruction of no family".to_owned()).into()),
        })
    }

    #[inline]
    fn of_one(&self, a: Slot, f: impl Fn(u64) -> u64) -> Bits {
        match self.bits(a) {
            Bits { value, undefined: 0 } => Bits::new(f(value)),
            _ => Bits::UNDEFINED,
        }
    }

    #[inline]
    fn of_two(&self, a: Slot, b: Slot, f: impl Fn(u64, u64) -> u64) -> Bits {
        let (a, b) = (self.bits(a), self.bits(b));
        if a.undefined | b.undefined == 0 { Bits::new(f(a.value, b.value)) } else { Bits::UNDEFINED }
    }

    #[inline]
    fn mad(&self, half: Half, ty: IntTy, a: Slot, b: Slot, c: Option<Slot>) -> Bits {
        let (a, b, c) = (self.bits(a), self.bits(b), c.map_or(Bits::new(0), |c| self.bits(c)));
        if a.undefined | b.undefined | c.undefined == 0 {
            Bits::new(int::mad(half, ty, a.value, b.value, c.value))
        } else {
            undefined::mad(half, ty, a, b, c)
        }
    }

    fn slct(&self, [a, b, c]: [Slot; 3], float: bool, ftz: bool) -> Bits {
        let (a, b, c) = (self.bits(a), self.bits(b), self.bits(c));
        let is_first = match (c.undefined, float) {
            (0, true) => float::flush(f32::from_bits(c.value as u32), ftz) >= 0.0,
            (0, false) => c.value as u32 as i32 >= 0,
            _ => return undefined::either(a, b),
        };
        if is_first { a } else { b }
    }

    fn pack(&self, parts: &[Slot], bits: u32) -> Bits {
        let mut all = Bits::new(0);
        for (i, &part) in parts.iter().enumerate() {
            let part = self.bits(part).and(u64::MAX >> (64 - bits)).map(|raw| raw << (i as u32 * bits));
            all = Bits { value: all.value | part.value, undefined: all.undefined | part.undefined };
        }
        all
    }

    /// Writes the result of a comparison, if it is known, combined with a predicate.
    #[inline]
    fn setp(&mut self, out: &SetpOut, result: Option<bool>) {
        let (mut p, mut q) = match result {
            Some(result) => (Bits::new(u64::from(result)), Bits::new(u64::from(!result))),
            None => (Bits::UNDEFINED.and(1), Bits::UNDEFINED.and(1)),
        };
        if let Some((op, c, inverted)) = out.combine {
            let c = self.bits(c).and(1);
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
    }

    /// Loads a value. Returns the address if other threads may store there.
    fn ld(&mut self, ld: &Ld) -> Exec<Option<u64>> {
        let bytes = u64::from(ld.ty.bits() / 8);
        if let Some(policy) = ld.policy {
            self.value(policy)?;
        }
        let place = self.place(&ld.at, bytes * ld.d.len() as u64, Access::Load)?;
        let address =
            if ld.is_strong { Some(self.value(ld.at.base)?.wrapping_add_signed(ld.at.offset)) } else { None };
        for (i, &(d, d_bits)) in ld.d.iter().enumerate() {
            let raw = self.load(place.plus(i as u64 * bytes), bytes as usize);
            if raw.undefined != 0 {
                let address = self.value(ld.at.base)?.wrapping_add_signed(ld.at.offset) + i as u64 * bytes;
                self.note(ld.at.space.name(), address);
            }
            let value = match ld.ty {
                Ty::Int(ty @ IntTy { signed: true, .. }) => raw.map(|raw| convert::extend(ty, raw, d_bits)),
                _ => raw,
            };
            self.frame.set_bits(d, value);
        }
        Ok(address)
    }

    fn st(&mut self, st: &St) -> Exec {
        let bytes = u64::from(st.ty.bits() / 8);
        if let Some(policy) = st.policy {
            self.value(policy)?;
        }
        let place = self.place(&st.at, bytes * st.values.len() as u64, Access::Store)?;
        for (i, &value) in st.values.iter().enumerate() {
            let value = self.bits(value);
            self.store(place.plus(i as u64 * bytes), bytes as usize, value);
        }
        Ok(())
    }

    /// Checks the prefetched memory, 16 bytes at a time.
    fn prefetch(&mut self, at: Addr, bytes: Slot) -> Exec {
        let bytes = self.value(bytes)?;
        if !bytes.is_multiple_of(16) {
            return Err(Cause::Unsupported(format!("a prefetch of {bytes} bytes")).into());
        }
        for done in (0..bytes).step_by(16) {
            self.place(&Addr { offset: at.offset + done as i64, ..at }, 16, Access::Load)?;
        }
        Ok(())
    }

    /// `add.cc`, `subc` and similar.
    fn carry(
        &mut self,
        op: CarryOp,
        ty: IntTy,
        d: Slot,
        [a, b, c]: [Slot; 3],
        (carry_in, carry_out): (bool, bool),
    ) -> Exec {
        let mask = u128::from(ty.mask());
        let wide = |x: u64| u128::from(x) & mask;
        let [a, b, c] = [a, b, c].map(|slot| self.bits(slot));
        let is_unknown = carry_in && *self.carry == Carry::Undefined;
        if is_unknown || a.undefined | b.undefined | c.undefined != 0 {
            if carry_out {
                *self.carry = Carry::Undefined;
            }
            self.frame.set_bits(d, Bits::UNDEFINED);
            return Ok(());
        }
        let (a, b, c) = (a.value, b.value, c.value);
        let is_sub = op == CarryOp::Sub;
        let flag = match (*self.carry, is_sub) {
            _ if !carry_in => 0,
            (Carry::Addition(flag), false) | (Carry::Subtraction(flag), true) => u128::from(flag),
            // The flag itself is set where a subtraction did not borrow: the long division of libNVVM's 128-bit integers
            // adds it up to decide when to stop.
            (Carry::Subtraction(borrow), false) => u128::from(!borrow),
            (Carry::Unset, _) => return Err(Cause::Carry("no instruction wrote it").into()),
            (Carry::Undefined, _) => 0,
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
