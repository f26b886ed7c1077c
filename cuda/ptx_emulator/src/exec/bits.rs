//! Undefined bits: bits that were never written.
//!
//! Compilers move, mask and compute with bits that a path leaves undefined, such as the bytes next to an enum's tag, and
//! never use the result. So registers and memory track which of their bits are undefined, and instructions pass that on: a
//! bit of a result is undefined if it may depend on an undefined bit of an operand. [`Pass`] has the ways.
//! Branching on an undefined bit, using one in an address or passing it to other threads is an error. Undefined bits hold
//! zeros.
//!
//! Reading a register that the thread has not written is a separate error, even if a mask follows: ptxas infers what a
//! register may hold from the paths that write it, and drops masks that seem to do nothing there.

use crate::instr::Form;

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

    /// A value with the bits in `undefined` undefined.
    pub fn of(value: u64, undefined: u64) -> Bits {
        Bits { value: value & !undefined, undefined }
    }

    /// Keeps the bits of `mask`; the others become zeros.
    #[inline]
    pub fn and(self, mask: u64) -> Bits {
        Bits { value: self.value & mask, undefined: self.undefined & mask }
    }

    #[inline]
    pub fn or(self, other: Bits) -> Bits {
        Bits { value: self.value | other.value, undefined: self.undefined | other.undefined }
    }

    #[inline]
    pub fn map(self, both: impl Fn(u64) -> u64) -> Bits {
        Bits { value: both(self.value), undefined: both(self.undefined) }
    }

    /// The largest number that it may be; [`Self::value`] is the smallest.
    pub fn largest(self) -> u64 {
        self.value | self.undefined
    }

    /// One of two values; which one is not known.
    pub fn either(self, other: Bits) -> Bits {
        Bits::of(self.value, self.undefined | other.undefined | (self.value ^ other.value))
    }
}

/// The value of an instruction with up to three defined operands; bits above the type do not count.
pub(crate) type Value = fn(&Form, u64, u64, u64) -> u64;

/// How the undefined bits of an instruction's operands pass to its result.
#[derive(Clone, Copy)]
pub(crate) enum Pass {
    /// The whole result is undefined.
    Whole,
    /// Each bit depends on the bits at its position.
    Bitwise,
    /// Bits of the first operands, this many, are picked by the others. These must be defined in the bits of the mask.
    Picks(usize, u64),
    /// A carry into a bit grows with the operands, or sinks with those marked as subtracted.
    Carry([bool; 2]),
    Special(fn(&Form, [Bits; 3]) -> Bits),
}

impl Pass {
    /// The result for operands of which some bits are undefined.
    #[cold]
    pub fn on(self, value: Value, form: &Form, operands: [Bits; 3]) -> Bits {
        let [a, b, c] = operands;
        let of = |[a, b, c]: [u64; 3]| value(form, a, b, c);
        match self {
            Pass::Whole => Bits::UNDEFINED,
            // Undefined where the results for zeros and for ones in some operands differ.
            Pass::Bitwise => {
                let least = value(form, a.value, b.value, c.value);
                let differ = (1..8).fold(0, |all, ones| {
                    let at =
                        |i: usize| if ones >> i & 1 == 1 { operands[i].largest() } else { operands[i].value };
                    all | (least ^ of([at(0), at(1), at(2)]))
                });
                Bits::of(least, differ)
            }
            Pass::Picks(from, mask) => {
                if operands[from..].iter().any(|picks| picks.undefined & mask != 0) {
                    return Bits::UNDEFINED;
                }
                let undefined = core::array::from_fn(|i| {
                    let Bits { value, undefined } = operands[i];
                    if i < from { undefined } else { value }
                });
                Bits { value: of(operands.map(|bits| bits.value)), undefined: of(undefined) }
            }
            // A carry is known where the least and the largest result agree.
            Pass::Carry([a_falls, b_falls]) => {
                let ends = |bits: Bits, falls: bool| {
                    if falls { [bits.largest(), bits.value] } else { [bits.value, bits.largest()] }
                };
                let (a_ends, b_ends) = (ends(a, a_falls), ends(b, b_falls));
                let [least, most] = [0, 1].map(|i| of([a_ends[i], b_ends[i], c.value]));
                Bits::of(least, (least ^ most) | a.undefined | b.undefined)
            }
            Pass::Special(special) => special(form, operands),
        }
    }
}
