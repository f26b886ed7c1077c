//! Matrix descriptors (PTX ISA, "Shared Memory Matrix Layout", "Matrix Descriptor Format").

use super::product::{Matrix, depth};
use crate::error::Cause;
use crate::exec::bits::Bits;
use crate::exec::grid::Exec;
use crate::exec::space::{Access, Place};
use crate::exec::thread::Cx;
use crate::exec::watch::Pins;
use crate::instr::{Space, Ty};
use crate::tensor_map::Swizzle;

/// The defined bits of a descriptor.
const KNOWN: u64 = 0x3fff | 0x3fff << 16 | 0x3fff << 32 | 7 << 49 | 3 << 62;
/// Bytes that a swizzle keeps together.
const UNIT: u64 = 16;

/// An operand in shared memory: 64 rows of A, or `n` columns of B.
#[derive(Debug)]
pub(crate) struct Operand {
    /// The descriptor.
    pub raw: u64,
    pub count: usize,
    /// Whether rows of A, or columns of B, are innermost instead of k.
    pub trans: bool,
    pub ty: Ty,
}

/// The fields of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Descriptor {
    start: u64,
    /// The leading and the stride byte offset.
    leading: u64,
    stride: u64,
    /// The row of 128 bytes, of eight, where the pattern starts.
    base: u64,
    swizzle: Swizzle,
}

impl Descriptor {
    fn decode(raw: u64) -> Result<Descriptor, String> {
        if raw & !KNOWN != 0 {
            return Err(format!("the descriptor {raw:#x} has bits that mean nothing: {:#x}", raw & !KNOWN));
        }
        let field = |shift: u32| (raw >> shift & 0x3fff) << 4;
        let swizzle = match raw >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::Bytes128,
            2 => Swizzle::Bytes64,
            _ => Swizzle::Bytes32,
        };
        let base = raw >> 49 & 7;
        if swizzle == Swizzle::None && base != 0 {
            return Err(format!("the descriptor {raw:#x} has base offset {base} and no swizzle"));
        }
        Ok(Descriptor { start: field(0), leading: field(16), stride: field(32), base, swizzle })
    }

    /// The address of 16 bytes of the matrix without a swizzle. `major` counts units of 16 bytes along the innermost
    /// dimension, `minor` elements along the other: rows or columns with k innermost, else k.
    fn unit(&self, trans: bool, major: u64, minor: u64) -> u64 {
        let Descriptor { start, leading, stride, .. } = *self;
        let (group, within) = (minor / 8, minor % 8);
        start
            + match (self.swizzle.row(), trans) {
                (None, false) => within * UNIT + group * stride + major * leading,
                (None, true) => within * UNIT + group * leading + major * stride,
                (Some(row), false) => within * row + group * stride + major * UNIT,
                (Some(row), true) => {
                    let units = row / UNIT;
                    within * row + group * stride + major / units * leading + major % units * UNIT
                }
            }
    }
}

impl Operand {
    /// Reads the matrix, and appends the units of shared memory that it lies in.
    pub fn read(&self, cx: &Cx<'_>, negates: bool, units: &mut Vec<u32>) -> Exec<Matrix> {
        let refuse = |reason: String| Cause::Wgmma(reason).into();
        let descriptor = Descriptor::decode(self.raw).map_err(refuse)?;
        let (in_unit, k) = ((UNIT / self.ty.bytes()) as usize, depth(self.ty));
        // Units along the innermost dimension, and elements along the other.
        let (majors, minors) = match self.trans {
            false => (k / in_unit, self.count),
            true => (self.count / in_unit, k),
        };
        if let Some(row) = descriptor.swizzle.row() {
            let (within, bytes) = (descriptor.start % row, majors as u64 * UNIT);
            if within != 0 && within + bytes > row {
                return Err(refuse(format!(
                    "an operand of {bytes} bytes that starts at byte {within} of a swizzled row of {row}"
                )));
            }
        }
        let mut matrix = Matrix::new(self.count, k);
        for minor in 0..minors {
            for major in 0..majors {
                let linear = descriptor.unit(self.trans, major as u64, minor as u64);
                let address = descriptor.swizzle.place(linear, descriptor.base);
                let place = cx.place_of(Space::Shared, address, UNIT, Access::Load)?;
                let Place::Shared(at) = place else { continue };
                if !cx.shared.unfenced.are_fenced(at, UNIT as usize) {
                    return Err(refuse(format!(
                        "shared memory at {address:#x} was written by threads with no fence.proxy.async since; execute one before \
                         the barrier that the warpgroup waits at"
                    )));
                }
                units.push((at / Pins::UNIT) as u32);
                let halves = [cx.load(place, 8), cx.load(place.plus(8), 8)];
                for i in 0..in_unit {
                    let (line, k) = match self.trans {
                        false => (minor, major * in_unit + i),
                        true => (major * in_unit + i, minor),
                    };
                    matrix.set(line, k, element(self.ty, halves, i), (self.ty, negates));
                }
            }
        }
        Ok(matrix)
    }
}

/// Element `i` of 16 bytes.
#[inline]
fn element(ty: Ty, halves: [Bits; 2], i: usize) -> Bits {
    let byte = i * ty.bytes() as usize;
    halves[byte / 8].map(|raw| raw >> (8 * (byte % 8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_descriptor() {
        let raw = 0x1234u64 | 0x0100 << 16 | 0x0040 << 32 | 5 << 49 | 1 << 62;
        let expected = Descriptor {
            start: 0x12340,
            leading: 0x1000,
            stride: 0x400,
            base: 5,
            swizzle: Swizzle::Bytes128,
        };
        assert_eq!(Descriptor::decode(raw), Ok(expected));
        assert!(Descriptor::decode(1 << 14).is_err() && Descriptor::decode(1 << 49).is_err());
    }
}
