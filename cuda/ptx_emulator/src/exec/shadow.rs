//! Memory that tracks which of its bits are undefined.

use core::ops::Range;

use super::bits::Bits;

/// Bytes, with a mask of their undefined bits; undefined bits hold zeros.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    values: Vec<u8>,
    undefined: Vec<u8>,
}

impl Memory {
    /// Creates `bytes` undefined bytes.
    pub fn new(bytes: usize) -> Memory {
        Memory { values: vec![0; bytes], undefined: vec![u8::MAX; bytes] }
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Truncates the memory, or extends it by undefined bytes.
    pub fn resize(&mut self, bytes: usize) {
        self.values.resize(bytes, 0);
        self.undefined.resize(bytes, u8::MAX);
    }

    /// Writes whole bytes.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        self.values[at..][..bytes.len()].copy_from_slice(bytes);
        self.undefined[at..][..bytes.len()].fill(0);
    }

    /// Makes the bytes undefined.
    pub fn forget(&mut self, range: Range<usize>) {
        self.values[range.clone()].fill(0);
        self.undefined[range].fill(u8::MAX);
    }

    /// Copies `bytes` bytes of `from`, including undefined bits.
    pub fn copy(&mut self, at: usize, from: &Memory, from_at: usize, bytes: usize) {
        self.values[at..][..bytes].copy_from_slice(&from.values[from_at..][..bytes]);
        self.undefined[at..][..bytes].copy_from_slice(&from.undefined[from_at..][..bytes]);
    }

    /// Loads one, two, four or eight bytes.
    #[inline]
    pub fn load(&self, at: usize, bytes: usize) -> Bits {
        Bits { value: read(&self.values, at, bytes), undefined: read(&self.undefined, at, bytes) }
    }

    /// Writes the low `bytes` bytes of a value.
    #[inline]
    pub fn store(&mut self, at: usize, bytes: usize, bits: Bits) {
        write(&mut self.values, at, bytes, bits.value);
        write(&mut self.undefined, at, bytes, bits.undefined);
    }
}

#[inline]
fn read(memory: &[u8], at: usize, bytes: usize) -> u64 {
    fn array<const N: usize>(memory: &[u8], at: usize) -> [u8; N] {
        let mut all = [0; N];
        all.copy_from_slice(&memory[at..at + N]);
        all
    }
    match bytes {
        1 => u64::from(memory[at]),
        2 => u64::from(u16::from_le_bytes(array(memory, at))),
        4 => u64::from(u32::from_le_bytes(array(memory, at))),
        _ => u64::from_le_bytes(array(memory, at)),
    }
}

#[inline]
fn write(memory: &mut [u8], at: usize, bytes: usize, value: u64) {
    match bytes {
        1 => memory[at] = value as u8,
        2 => memory[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes()),
        4 => memory[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes()),
        _ => memory[at..at + 8].copy_from_slice(&value.to_le_bytes()),
    }
}
