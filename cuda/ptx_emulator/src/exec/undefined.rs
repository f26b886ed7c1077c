//! Bits that nothing was written to.
//!
//! Compilers move and mask what a path leaves undefined, the bytes beside an enum's tag say, and never look at it.
//! Registers therefore know which of their bits are undefined, and instructions pass that on: those that move, mask and
//! shift bit by bit, all others as a wholly undefined result. To branch on an undefined bit, to store it or to use it
//! in an address, in the carry chain or among threads is an error. Undefined bits hold zeros.

use super::thread::Cx;
use super::{Exec, int};
use crate::error::Cause;
use crate::instr::{IntOp, IntTy, Src};

/// A value, and a one for each of its bits that is undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    pub value: u64,
    pub undefined: u64,
}

impl Bits {
    /// Nothing of it is defined.
    pub const UNDEFINED: Bits = Bits { value: 0, undefined: u64::MAX };

    pub fn new(value: u64) -> Bits {
        Bits { value, undefined: 0 }
    }

    /// The bits of `mask` alone; the others are zeros.
    pub fn and(self, mask: u64) -> Bits {
        Bits { value: self.value & mask, undefined: self.undefined & mask }
    }

    pub fn map(self, both: impl Fn(u64) -> u64) -> Bits {
        Bits { value: both(self.value), undefined: both(self.undefined) }
    }
}

/// The bits of `a op b`, where some are undefined.
pub(super) fn binary(op: IntOp, ty: IntTy, a: Bits, b: Bits) -> Bits {
    let a = a.and(ty.mask());
    let b = if matches!(op, IntOp::Shl | IntOp::Shr) { b.and(0xffff_ffff) } else { b.and(ty.mask()) };
    // Zeros stand for undefined bits, so that a one is always a known one.
    let (value, undefined) = match op {
        // Undefined, unless the other bit is a known zero.
        IntOp::And => {
            let undefined = (a.undefined & (b.undefined | b.value)) | (b.undefined & (a.undefined | a.value));
            (a.value & b.value, undefined)
        }
        // Undefined, unless the other bit is a known one.
        IntOp::Or => (a.value | b.value, (a.undefined & !b.value) | (b.undefined & !a.value)),
        IntOp::Xor => (a.value ^ b.value, a.undefined | b.undefined),
        IntOp::Shl | IntOp::Shr if b.undefined == 0 => {
            let shift = |raw| int::binary(op, ty, raw, b.value).unwrap_or_default();
            (shift(a.value), shift(a.undefined))
        }
        _ => (0, u64::MAX),
    };
    Bits { value: value & !undefined, undefined }.and(ty.mask())
}

impl Cx<'_> {
    /// A source with its undefined bits.
    #[inline]
    pub fn bits(&self, src: Src) -> Exec<Bits> {
        match src {
            Src::Reg(slot) => Ok(self.frame.bits(slot)),
            _ => self.value(src).map(Bits::new),
        }
    }

    /// The error of reading an undefined bit.
    #[cold]
    pub fn unset(&self, src: Src) -> Box<Cause> {
        let function = &self.grid.module.functions[self.frame.function];
        let name = match src {
            Src::Reg(slot) => function.registers[slot as usize].clone(),
            _ => "of no name".to_owned(),
        };
        Cause::Unset(name).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_bits_stay_known() {
        let ty = IntTy { bits: 16, signed: false };
        let half = Bits { value: 0x0012, undefined: 0xff00 };
        let cases = [
            (IntOp::And, Bits::new(0x00ff), Bits::new(0x12)),
            (IntOp::And, Bits::new(0x0fff), Bits { value: 0x12, undefined: 0x0f00 }),
            (IntOp::Or, Bits::new(0xff00), Bits::new(0xff12)),
            (IntOp::Or, Bits::new(0xf001), Bits { value: 0xf013, undefined: 0x0f00 }),
            (IntOp::Xor, Bits::new(0x0010), Bits { value: 0x0002, undefined: 0xff00 }),
            (IntOp::Shl, Bits::new(8), Bits::new(0x1200)),
            (IntOp::Shr, Bits::new(8), Bits { value: 0, undefined: 0x00ff }),
        ];
        for (op, with, expected) in cases {
            assert_eq!(binary(op, ty, half, with), expected, "{op:?} {with:?}");
        }
        assert_eq!(binary(IntOp::Add, ty, half, Bits::new(1)), Bits::UNDEFINED.and(0xffff));
        let signed = IntTy { bits: 16, signed: true };
        assert_eq!(binary(IntOp::Shr, signed, half, Bits::new(8)), Bits { value: 0, undefined: 0xffff });
    }
}
