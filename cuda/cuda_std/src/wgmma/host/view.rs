//! An operand in shared memory: where its bytes are, and which numbers they hold.

use super::super::Number;
use super::super::element::e4m3;
use crate::simt::proxy::CHUNK;
use crate::simt::shared::BlockShared;

/// Bytes of a row of a panel.
const ROW: usize = 128;

/// One instruction's share of an operand in panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    panel: *const u8,
    /// Whether a row's elements are along K.
    is_k_major: bool,
    /// The first row, in a panel with elements along K.
    first: u32,
    /// Rows of A or columns of B.
    count: usize,
    /// Rows of each panel.
    rows: usize,
    /// The number of instructions' K by which it is further along.
    step: u32,
}

impl View {
    pub(in super::super) fn k_major(panel: *const u8, first: u32, count: usize, rows: usize) -> Self {
        Self { panel, is_k_major: true, first, count, rows, step: 0 }
    }

    pub(in super::super) fn mn_major(panel: *const u8, count: usize, rows: usize) -> Self {
        Self { panel, is_k_major: false, first: 0, count, rows, step: 0 }
    }

    pub(in super::super) fn step(self, steps: u32) -> Self {
        Self { step: self.step + steps, ..self }
    }

    /// Checks that it is in a panel of the block's shared memory.
    pub(super) fn check(&self, shared: &BlockShared) -> Result<(), String> {
        let (panel, rows, step) = (self.panel.addr(), self.rows, self.step);
        if !panel.is_multiple_of(1024) {
            return Err(format!(
                "in a panel at {panel:#x}; align it to 1024 bytes, in dynamic shared memory by \
                 shared::dynamic_shared_mem_aligned()"
            ));
        }
        let panels = if self.is_k_major { 1 } else { self.count.div_ceil(ROW / 2) };
        if !shared.holds(panel, panels * rows * ROW) {
            return Err(format!(
                "of {panels} panels of {rows} rows at {panel:#x}, which are not all in the block's shared memory"
            ));
        }
        let steps = if self.is_k_major { 4 } else { rows / 16 };
        if step as usize >= steps {
            return Err(format!("of step {step}, but its panel has {steps} steps along K"));
        }
        if self.is_k_major {
            let first = self.first as usize;
            if !first.is_multiple_of(8) || first + self.count > rows {
                return Err(format!(
                    "of {} rows from row {first} on in a panel of {rows}; begin at a multiple of 8, and end in the panel",
                    self.count
                ));
            }
        }
        Ok(())
    }

    /// Returns its 16-byte chunks in order: for each row those along K, or for each K those along the columns.
    pub(crate) fn chunks(self) -> impl Iterator<Item = *const u8> {
        let per_row = if self.is_k_major { 2 } else { self.count / 8 };
        let rows = if self.is_k_major { self.count } else { 16 };
        (0..rows).flat_map(move |row| (0..per_row).map(move |chunk| self.chunk(row, chunk)))
    }

    /// Returns where chunk `chunk` of row `row` is, counted among those that the instruction reads.
    fn chunk(self, row: usize, chunk: usize) -> *const u8 {
        let (panel, row, chunk) = if self.is_k_major {
            (0, self.first as usize + row, self.step as usize * 2 + chunk)
        } else {
            (chunk / 8, self.step as usize * 16 + row, chunk % 8)
        };
        self.panel.wrapping_add((panel * self.rows + row) * ROW + (chunk ^ (row % 8)) * CHUNK)
    }

    /// Reads its chunks from memory.
    ///
    /// # Safety
    /// The view was checked, and no other OS thread writes the memory.
    pub(super) unsafe fn read(self) -> Vec<[u8; CHUNK]> {
        // SAFETY: the block's shared memory, which the executor has initialised.
        self.chunks().map(|chunk| unsafe { chunk.cast::<[u8; CHUNK]>().read() }).collect()
    }

    /// Calls `f` with position, K and value of each number in the chunks that [`read`](Self::read) returned.
    #[inline(always)]
    pub(super) fn decode(self, number: Number, chunks: &[[u8; CHUNK]], mut f: impl FnMut(usize, usize, f32)) {
        let in_chunk = CHUNK / bytes_of(number);
        let per_row = if self.is_k_major { 2 } else { self.count / 8 };
        for (row, chunks) in chunks.chunks_exact(per_row).enumerate() {
            for (at, chunk) in chunks.iter().enumerate() {
                numbers(number, chunk, |i, value| {
                    let along = at * in_chunk + i;
                    if self.is_k_major { f(row, along, value) } else { f(along, row, value) }
                });
            }
        }
    }
}

/// Returns the size of a number in bytes.
pub(super) fn bytes_of(number: Number) -> usize {
    match number {
        Number::F16 | Number::Bf16 => 2,
        Number::Tf32 => 4,
        Number::E4m3 => 1,
    }
}

/// Returns the number of columns of A that one instruction multiplies.
pub(super) fn k_of(number: Number) -> usize {
    32 / bytes_of(number)
}

/// Calls `f` with number and value of each number in `bytes`.
#[inline(always)]
pub(super) fn numbers(number: Number, bytes: &[u8], mut f: impl FnMut(usize, f32)) {
    match number {
        Number::F16 | Number::Bf16 => {
            for (i, &pair) in bytes.as_chunks::<2>().0.iter().enumerate() {
                f(i, number_16(number, u16::from_le_bytes(pair)));
            }
        }
        Number::Tf32 => {
            for (i, &word) in bytes.as_chunks::<4>().0.iter().enumerate() {
                f(i, tf32(u32::from_le_bytes(word)));
            }
        }
        Number::E4m3 => {
            for (i, &byte) in bytes.iter().enumerate() {
                f(i, e4m3::from_bits(byte).to_f32());
            }
        }
    }
}

#[inline(always)]
fn number_16(number: Number, bits: u16) -> f32 {
    if number == Number::Bf16 {
        return f32::from_bits(u32::from(bits) << 16);
    }
    let magnitude = u32::from(bits & 0x7fff);
    // As an f32, the bits have an exponent that is too small by the difference of the biases.
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23);
    let special = if magnitude >= 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled.to_bits() | special | u32::from(bits & 0x8000) << 16)
}

/// Returns the part of an `f32` that a tensor core reads.
fn tf32(bits: u32) -> f32 {
    f32::from_bits(bits & 0xffff_e000)
}
