//! A running function, and its registers.

use core::cell::Cell;

use super::bits::Bits;
use super::shadow::Memory;
use super::watch::{Clash, Token, Watch};
use crate::instr::{ParamRange, Slot};

/// A running function.
#[derive(Debug)]
pub(crate) struct Frame {
    pub function: usize,
    pub pc: usize,
    /// By slot.
    pub values: Vec<Bits>,
    /// A forbidden access to a register.
    pub clash: Cell<Option<Clash>>,
    /// The rules of `wgmma` for the registers, if the function has one.
    pub watch: Option<Box<Watch>>,
    pub params: Memory,
    /// Bytes of local memory below its own.
    pub local_base: usize,
    /// Where the caller expects the return value.
    pub result: Option<ParamRange>,
}

impl Frame {
    /// Writes a register.
    #[inline]
    pub fn set(&mut self, slot: Slot, value: u64) {
        self.set_bits(slot, Bits::new(value));
    }

    /// Writes a register that may have undefined bits.
    #[inline]
    pub fn set_bits(&mut self, slot: Slot, bits: Bits) {
        if let Some(watch) = &mut self.watch
            && let Some(clash) = watch.write(slot, self.values[slot as usize])
        {
            self.clash.set(Some(clash));
        }
        self.values[slot as usize] = bits;
    }

    /// A value with its undefined bits.
    #[inline]
    pub fn bits(&self, slot: Slot) -> Bits {
        let bits = self.values[slot as usize];
        if let Some(watch) = &self.watch {
            watch.read(slot);
        }
        if bits.value & bits.undefined == 0 { bits } else { self.refused(slot, bits) }
    }

    #[cold]
    fn refused(&self, slot: Slot, bits: Bits) -> Bits {
        self.clash.set(Some(match Token::of(bits) {
            Some(token) => Clash::Read(slot, token.line),
            None => Clash::Unwritten(slot),
        }));
        Bits::UNDEFINED
    }

    /// The content of a register, which may be a token. Does not count as an access for `wgmma`.
    #[inline]
    pub fn raw(&self, slot: Slot) -> Bits {
        self.values[slot as usize]
    }

    /// Writes a register. Does not count as an access for `wgmma`.
    #[inline]
    pub fn set_raw(&mut self, slot: Slot, bits: Bits) {
        self.values[slot as usize] = bits;
    }

    /// The contents of all its registers.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.values.iter().flat_map(|bits| [bits.value, bits.undefined])
    }
}
