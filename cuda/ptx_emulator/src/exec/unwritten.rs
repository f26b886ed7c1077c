//! Undefined bits in global memory.
//!
//! A launch's memory belongs to its host, so a store of undefined bits must write some number. Structures are copied with
//! their padding, so the store itself is not a fault. The undefined bits are replaced with a pattern that is a NaN in every
//! float format and an unlikely integer. The launch records where they are, and code that compares results can ask for that.

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::bits::Bits;

/// Replaces undefined bits, at even and at odd addresses.
const PATTERN: u64 = 0x7ff5_7ff5_7ff5_7ff5;

/// The undefined bits of a byte, and the instruction that stored them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub undefined: u8,
    pub function: usize,
    pub pc: usize,
}

/// The undefined bits in global memory, by address.
#[derive(Debug, Default)]
pub(crate) struct Unwritten {
    any: Cell<bool>,
    bytes: RefCell<BTreeMap<u64, Stored>>,
}

impl Unwritten {
    /// The undefined bits by address.
    pub fn into_bytes(self) -> BTreeMap<u64, Stored> {
        self.bytes.into_inner()
    }

    /// The bits of a loaded value, with those that are undefined.
    #[inline]
    pub fn loaded(&self, address: u64, bytes: usize, value: u64) -> Bits {
        if self.any.get() { self.find(address, bytes, value) } else { Bits::new(value) }
    }

    fn find(&self, address: u64, bytes: usize, value: u64) -> Bits {
        let all = self.bytes.borrow();
        let within = all.range(address..address + bytes as u64);
        let undefined =
            within.fold(0, |mask, (at, stored)| mask | u64::from(stored.undefined) << (8 * (at - address)));
        Bits { value: value & !undefined, undefined }
    }

    /// The value to store for `bits`; its undefined bits are remembered.
    #[inline]
    pub fn stored(&self, address: u64, bytes: usize, bits: Bits, by: (usize, usize)) -> u64 {
        if !self.any.get() && bits.undefined == 0 { bits.value } else { self.note(address, bytes, bits, by) }
    }

    fn note(&self, address: u64, bytes: usize, bits: Bits, (function, pc): (usize, usize)) -> u64 {
        let mut all = self.bytes.borrow_mut();
        for (at, undefined) in (address..).zip(bits.undefined.to_le_bytes()).take(bytes) {
            match undefined {
                0 => all.remove(&at),
                _ => all.insert(at, Stored { undefined, function, pc }),
            };
        }
        self.any.set(!all.is_empty());
        let pattern = PATTERN.rotate_right(8 * (address % 8) as u32);
        bits.value | (pattern & bits.undefined)
    }
}
