//! The rules of `wgmma` for registers and shared memory: no access while it is pending, and fences before it.

use core::cell::Cell;

use super::bits::Bits;
use crate::instr::Slot;

/// The highest bit of a register that is a pending accumulator; its undefined bits are all set, too.
const PENDING: u64 = 1 << 63;

/// Identifies a register among the pending accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The PTX line of the first `wgmma`.
    pub line: u32,
    /// The number of its accumulators.
    pub sums: u32,
    /// The index in the instruction's list.
    pub index: u32,
}

impl Token {
    /// The register's content. The lowest bit is zero, so that it differs from [`Bits::UNWRITTEN`].
    pub fn bits(self) -> Bits {
        let Token { line, sums, index } = self;
        let value = PENDING
            | u64::from(line & 0xff_ffff) << 32
            | u64::from(sums & 0x7f_ffff) << 9
            | u64::from(index) << 1;
        Bits { value, undefined: u64::MAX }
    }

    /// The token in a register, if it is one.
    #[inline]
    pub fn of(bits: Bits) -> Option<Token> {
        let Bits { value, undefined } = bits;
        if value & undefined & PENDING == 0 || bits == Bits::UNWRITTEN {
            return None;
        }
        let field = |shift: u32, mask: u64| (value >> shift & mask) as u32;
        Some(Token { line: field(32, 0xff_ffff), sums: field(9, 0x7f_ffff), index: field(1, 0xff) })
    }
}

/// A forbidden access to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clash {
    /// A read of an unwritten register.
    Unwritten(Slot),
    /// A read of an accumulator of the pending `wgmma` of this line.
    Read(Slot, u32),
    /// A write to such an accumulator.
    Written(Slot, u32),
    /// A write to an element of A of such a `wgmma`.
    Operand(Slot, u32),
}

/// The register accesses of a function that has `wgmma`.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The number of executed `wgmma.fence`s.
    pub fences: u32,
    /// By register, one plus the fences before the last access.
    accessed: Vec<Cell<u32>>,
    /// By register, one plus the fences before the last write.
    written: Vec<u32>,
    /// By register, the pending `wgmma`s that read it as an element of A, and the line of the last one.
    held: Vec<(u16, u32)>,
}

impl Watch {
    pub fn new(registers: usize, fences: u32) -> Watch {
        let accessed = vec![Cell::new(0); registers];
        Watch { fences, accessed, written: vec![0; registers], held: vec![(0, 0); registers] }
    }

    #[inline]
    pub fn read(&self, slot: Slot) {
        self.accessed[slot as usize].set(self.fences + 1);
    }

    /// Records a write over `old`, and returns the fault if it is forbidden.
    #[inline]
    pub fn write(&mut self, slot: Slot, old: Bits) -> Option<Clash> {
        let at = slot as usize;
        self.accessed[at].set(self.fences + 1);
        self.written[at] = self.fences + 1;
        match (Token::of(old), self.held[at]) {
            (Some(token), _) => Some(Clash::Written(slot, token.line)),
            (None, (count, line)) if count > 0 => Some(Clash::Operand(slot, line)),
            _ => None,
        }
    }

    /// Whether a register may become an accumulator: it was not accessed since the last fence.
    pub fn is_fenced(&self, slot: Slot) -> bool {
        self.fences > 0 && self.accessed[slot as usize].get() <= self.fences
    }

    /// Whether a register may be read as an element of A: it was not written since the last fence.
    pub fn is_written_before_fence(&self, slot: Slot) -> bool {
        self.fences > 0 && self.written[slot as usize] <= self.fences
    }

    /// Records that a `wgmma` of this line begins to read a register.
    pub fn hold(&mut self, slot: Slot, line: u32) {
        let held = &mut self.held[slot as usize];
        *held = (held.0 + 1, line);
    }

    /// Records that a `wgmma` has read a register.
    pub fn release(&mut self, slot: Slot) {
        self.held[slot as usize].0 -= 1;
    }
}

/// The shared memory that pending `wgmma`s read.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// For each 16 bytes, the number of `wgmma`s and the line of the last one; empty before the first.
    units: Vec<(u16, u32)>,
    /// The offset of a forbidden store, and the line of the `wgmma`.
    pub clash: Option<(usize, u32)>,
}

impl Pins {
    /// Bytes of a unit.
    pub const UNIT: usize = 16;

    /// Records that a thread or a copy writes bytes of one unit.
    #[inline]
    pub fn write(&mut self, at: usize) {
        if let Some(&(count, line)) = self.units.get(at / Self::UNIT)
            && count > 0
        {
            self.clash = Some((at, line));
        }
    }

    /// Records that a `wgmma` of this line begins to read these units, in memory of `bytes` bytes.
    pub fn hold(&mut self, units: &[u32], line: u32, bytes: usize) {
        self.units.resize(bytes.div_ceil(Self::UNIT), (0, 0));
        for &unit in units {
            let (count, _) = self.units[unit as usize];
            self.units[unit as usize] = (count + 1, line);
        }
    }

    /// Records that a `wgmma` has read these units.
    pub fn release(&mut self, units: &[u32]) {
        units.iter().for_each(|&unit| self.units[unit as usize].0 -= 1);
    }
}
