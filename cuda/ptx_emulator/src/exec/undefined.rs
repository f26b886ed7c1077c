//! Undefined bits: bits that were never written.
//!
//! Compilers move, mask and compute with bits that a path leaves undefined, such as the bytes next to an enum's tag, and
//! never use the result. So registers and memory track which of their bits are undefined, and instructions pass that on: a
//! bit of a result is undefined if it may depend on an undefined bit of an operand. Moves, logic, shifts, additions,
//! comparisons, and instructions that pick bytes or bits are followed bit by bit; other results are undefined as a whole.
//! Branching on an undefined bit, using one in an address or passing it to other threads is an error. Undefined bits hold
//! zeros.
//!
//! Reading a register that the thread has not written is a separate error, even if a mask follows: ptxas infers what a
//! register may hold from the paths that write it, and drops masks that seem to do nothing there.

use super::Exec;
use super::int;
use super::thread::Cx;
use super::watch::Clash;
use crate::error::Cause;
use crate::instr::{BitOp, Cmp, Half, IntOp, IntTy, IntUnary, Slot};

/// A value, and a mask of its undefined bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bits {
    pub value: u64,
    pub undefined: u64,
}

impl Bits {
    /// All bits undefined.
    pub const UNDEFINED: Bits = Bits { value: 0, undefined: u64::MAX };

    /// The content of a register that its thread has not written. No result equals it: its undefined bits would be zeros.
    pub const UNWRITTEN: Bits = Bits { value: u64::MAX, undefined: u64::MAX };

    #[inline]
    pub fn new(value: u64) -> Bits {
        Bits { value, undefined: 0 }
    }

    /// Keeps the bits of `mask`; the others become zeros.
    #[inline]
    pub fn and(self, mask: u64) -> Bits {
        Bits { value: self.value & mask, undefined: self.undefined & mask }
    }

    #[inline]
    pub fn map(self, both: impl Fn(u64) -> u64) -> Bits {
        Bits { value: both(self.value), undefined: both(self.undefined) }
    }

    /// A value with the bits in `undefined` undefined.
    fn of(value: u64, undefined: u64) -> Bits {
        Bits { value: value & !undefined, undefined }
    }

    /// The largest number that it may be; [`Self::value`] is the smallest.
    fn largest(self) -> u64 {
        self.value | self.undefined
    }
}

/// The bits of `a op b`, with undefined operands.
pub(super) fn binary(op: IntOp, ty: IntTy, a: Bits, b: Bits) -> Bits {
    let a = a.and(ty.mask());
    let b = if matches!(op, IntOp::Shl | IntOp::Shr) { b.and(0xffff_ffff) } else { b.and(ty.mask()) };
    // Undefined bits hold zeros, so a one is always a known one.
    let bits = match op {
        // Undefined, unless the other bit is a known zero.
        IntOp::And => {
            let undefined = (a.undefined & (b.undefined | b.value)) | (b.undefined & (a.undefined | a.value));
            Bits::of(a.value & b.value, undefined)
        }
        // Undefined, unless the other bit is a known one.
        IntOp::Or => Bits::of(a.value | b.value, (a.undefined & !b.value) | (b.undefined & !a.value)),
        IntOp::Xor => Bits::of(a.value ^ b.value, a.undefined | b.undefined),
        // The carry into a bit grows with the operands: it is known where those of the least and the largest sum agree.
        IntOp::Add => {
            let (least, most) = (a.value.wrapping_add(b.value), a.largest().wrapping_add(b.largest()));
            Bits::of(least, (least ^ most) | a.undefined | b.undefined)
        }
        IntOp::Sub => {
            let (least, most) = (a.value.wrapping_sub(b.largest()), a.largest().wrapping_sub(b.value));
            Bits::of(least, (least ^ most) | a.undefined | b.undefined)
        }
        IntOp::MulLo => product(a, b),
        IntOp::Shl | IntOp::Shr if b.undefined == 0 => {
            let shift = |raw| int::binary(op, ty, raw, b.value).unwrap_or_default();
            a.map(shift)
        }
        _ => Bits::UNDEFINED,
    };
    bits.and(ty.mask())
}

/// The low 64 bits of a product.
fn product(a: Bits, b: Bits) -> Bits {
    match (a, b) {
        (_, Bits { value, undefined: 0 }) if value.is_power_of_two() => {
            a.map(|raw| raw << value.trailing_zeros())
        }
        (Bits { value, undefined: 0 }, _) if value.is_power_of_two() => {
            b.map(|raw| raw << value.trailing_zeros())
        }
        // Bits below the lowest undefined bit do not depend on it.
        _ => {
            let lowest = (a.undefined | b.undefined).trailing_zeros();
            Bits::of(a.value.wrapping_mul(b.value), u64::MAX.checked_shl(lowest).unwrap_or(0))
        }
    }
}

/// `mul.wide` and `mad`.
pub(super) fn mad(half: Half, ty: IntTy, a: Bits, b: Bits, c: Bits) -> Bits {
    let wide =
        |bits: Bits| bits.and(ty.mask()).map(|raw| if ty.signed { ty.sign_extend(raw) as u64 } else { raw });
    match half {
        Half::Lo => binary(IntOp::Add, ty, product(a, b), c),
        Half::Hi => Bits::UNDEFINED.and(ty.mask()),
        Half::Wide => {
            let twice = IntTy { bits: 2 * ty.bits, signed: false };
            binary(IntOp::Add, twice, product(wide(a), wide(b)), c)
        }
    }
}

pub(super) fn unary(op: IntUnary, ty: IntTy, a: Bits) -> Bits {
    let a = a.and(ty.mask());
    match op {
        IntUnary::Not => Bits::of(!a.value, a.undefined).and(ty.mask()),
        IntUnary::Neg => binary(IntOp::Sub, ty, Bits::new(0), a),
        IntUnary::Brev => a.map(|raw| int::unary(op, ty, raw)),
        // The highest set bit is known, and all undefined bits lie below it.
        IntUnary::Clz if a.undefined < a.value && a.undefined.leading_zeros() > a.value.leading_zeros() => {
            Bits::new(int::unary(op, ty, a.value))
        }
        IntUnary::Cnot if a.value != 0 => Bits::new(0),
        _ => Bits::UNDEFINED,
    }
}

/// `shf`, `prmt`, `bfe` and `lop3`.
pub(super) fn three(op: BitOp, ty: IntTy, a: Bits, b: Bits, c: Bits) -> Bits {
    let both = |b: [u64; 2]| Bits {
        value: int::three(op, ty, a.value, b[0], c.value),
        undefined: int::three(op, ty, a.undefined, b[1], c.value),
    };
    let bits = match op {
        BitOp::Lop3(table) => {
            // Whether each bit can be one and can be zero, from the rows of the table that the operands' bits may select.
            let may_be = |bits: Bits, one: bool| if one { bits.largest() } else { !bits.value };
            let row = |i: u8| may_be(a, i & 4 != 0) & may_be(b, i & 2 != 0) & may_be(c, i & 1 != 0);
            let rows =
                |one: bool| (0..8).filter(|i| (table >> i & 1 == 1) == one).fold(0, |all, i| all | row(i));
            Bits::of(rows(true), rows(true) & rows(false))
        }
        // The operands that select the bits must be known.
        BitOp::Bfe if (b.undefined | c.undefined) & 0xff == 0 => both([b.value, b.value]),
        BitOp::ShfLeft { .. } | BitOp::ShfRight { .. } | BitOp::Prmt if c.undefined & 0xffff_ffff == 0 => {
            both([b.value, b.undefined])
        }
        _ => Bits::UNDEFINED,
    };
    bits.and(ty.mask())
}

/// `bfi`, with a known position.
pub(super) fn insert(ty: IntTy, f: Bits, b: Bits, pos: Bits, len: Bits) -> Bits {
    if (pos.undefined | len.undefined) & 0xff != 0 {
        return Bits::UNDEFINED;
    }
    let both = |f, b| int::insert(ty, f, b, pos.value, len.value);
    Bits { value: both(f.value, b.value), undefined: both(f.undefined, b.undefined) }.and(ty.mask())
}

/// Whether the comparison holds; `None` if that is not known.
pub(super) fn compare(cmp: Cmp, ty: IntTy, a: Bits, b: Bits) -> Option<bool> {
    // With the highest bit flipped, signed numbers sort like unsigned ones.
    let sign = if ty.signed { 1 << (ty.bits - 1) } else { 0 };
    let [a, b] = [a, b].map(|bits| {
        let bits = bits.and(ty.mask());
        Bits::of(bits.value ^ sign, bits.undefined)
    });
    let differ = (a.value ^ b.value) & !(a.undefined | b.undefined) != 0;
    let less = a.largest() < b.value;
    let less_or_equal = a.largest() <= b.value;
    let greater = a.value > b.largest();
    let greater_or_equal = a.value >= b.largest();
    let known = |holds: bool, fails: bool| (holds || fails).then_some(holds);
    match cmp {
        Cmp::Eq => known(false, differ),
        Cmp::Ne => known(differ, false),
        Cmp::Lt => known(less, greater_or_equal),
        Cmp::Le => known(less_or_equal, greater),
        Cmp::Gt => known(greater, less_or_equal),
        Cmp::Ge => known(greater_or_equal, less),
    }
}

/// One of two values; which one is not known.
pub(super) fn either(a: Bits, b: Bits) -> Bits {
    Bits::of(a.value, a.undefined | b.undefined | (a.value ^ b.value))
}

impl Cx<'_> {
    /// The error of an undefined bit that has an effect.
    #[cold]
    pub fn undefined(&self, slot: Slot) -> Box<Cause> {
        if let Err(cause) = self.check_accesses() {
            return cause;
        }
        let function = &self.grid.module.functions[self.frame.function];
        let register = function.registers[slot as usize].clone();
        let origin = self.origin.as_ref().map_or_else(String::new, |origin| format!("; {origin}"));
        Cause::Undefined { register, origin }.into()
    }

    /// Checks that the thread has made no forbidden access to a register or to shared memory.
    #[inline]
    pub fn check_accesses(&self) -> Exec {
        match (self.frame.clash.get(), self.shared.pins.clash) {
            (None, None) => Ok(()),
            (clash, pin) => Err(self.clash(clash, pin).into()),
        }
    }

    #[cold]
    fn clash(&self, clash: Option<Clash>, pin: Option<(usize, u32)>) -> Cause {
        let name =
            |slot: Slot| self.grid.module.functions[self.frame.function].registers[slot as usize].clone();
        let pending = |slot, access, role, line| {
            let register = name(slot);
            Cause::PendingRegister { register, access, role, line }
        };
        match (clash, pin) {
            (Some(Clash::Unwritten(slot)), _) => Cause::UnwrittenRegister { register: name(slot) },
            (Some(Clash::Read(slot, line)), _) => pending(slot, "read", "an accumulator", line),
            (Some(Clash::Written(slot, line)), _) => pending(slot, "written", "an accumulator", line),
            (Some(Clash::Operand(slot, line)), _) => pending(slot, "written", "an element of A", line),
            (None, pin) => {
                let (at, line) = pin.unwrap_or_default();
                Cause::PendingOperand { address: (at % self.shared.stride()) as u64, line }
            }
        }
    }
}

#[cfg(test)]
#[path = "undefined_tests.rs"]
mod tests;
