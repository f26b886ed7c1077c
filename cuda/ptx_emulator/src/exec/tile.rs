//! A box of a tensor: maps bytes of shared memory to bytes of global memory.

use crate::tensor_map::TensorMap;

/// Bytes of shared memory that a swizzle keeps together. A box begins at a multiple of them.
pub(super) const UNIT: u64 = 16;

/// A box at a position in its tensor.
#[derive(Debug)]
pub(crate) struct Tile {
    pub map: TensorMap,
    /// Coordinates of its first element, the innermost first.
    pub at: Vec<i64>,
}

/// Contiguous bytes, within 16 bytes of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// From the start of the box in shared memory, without a swizzle.
    pub offset: u64,
    /// The address in global memory; `None` outside the tensor.
    pub address: Option<u64>,
    pub bytes: u64,
}

impl Tile {
    /// Bytes of the box in shared memory.
    pub fn bytes(&self) -> u64 {
        self.map.element * self.map.tile.iter().map(|&tile| u64::from(tile)).product::<u64>()
    }

    /// The offset in shared memory of byte `offset` of the box, which starts at `start`.
    pub fn place(&self, start: usize, offset: u64) -> usize {
        self.map.swizzle.place(start as u64 + offset, 0) as usize
    }

    /// Calls `with` for all bytes of the box, run by run.
    pub fn runs<E>(&self, mut with: impl FnMut(Run) -> Result<(), E>) -> Result<(), E> {
        let TensorMap { element, address, sizes, strides, tile, .. } = &self.map;
        let row_bytes = u64::from(tile[0]) * element;
        // Bytes of the row within the tensor.
        let element_bytes = *element as i64;
        let start = (-self.at[0] * element_bytes).clamp(0, row_bytes as i64) as u64;
        let end = ((sizes[0] as i64 - self.at[0]) * element_bytes).clamp(0, row_bytes as i64) as u64;
        let rows: u64 = tile[1..].iter().map(|&tile| u64::from(tile)).product();
        for row in 0..rows {
            let (mut rest, mut base, mut is_within) = (row, *address as i64, true);
            for (dimension, &tile) in tile.iter().enumerate().skip(1) {
                let at = self.at[dimension] + (rest % u64::from(tile)) as i64;
                rest /= u64::from(tile);
                is_within &= (0..sizes[dimension] as i64).contains(&at);
                base = base.wrapping_add(at.wrapping_mul(strides[dimension - 1] as i64));
            }
            let base = base + self.at[0] * element_bytes;
            let (start, end) = if is_within { (start, end) } else { (row_bytes, row_bytes) };
            for unit in (0..row_bytes).step_by(UNIT as usize) {
                let cuts = [unit, start.clamp(unit, unit + UNIT), end.clamp(unit, unit + UNIT), unit + UNIT];
                for (i, cut) in cuts.windows(2).enumerate() {
                    let (from, bytes) = (cut[0], cut[1].saturating_sub(cut[0]));
                    let address = (i == 1).then_some((base + from as i64) as u64);
                    if bytes > 0 {
                        with(Run { offset: row * row_bytes + from, address, bytes })?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The bytes within the tensor.
    pub fn bytes_within(&self) -> u64 {
        let mut bytes = 0;
        let count = |run: Run| {
            bytes += if run.address.is_some() { run.bytes } else { 0 };
            Ok::<(), ()>(())
        };
        self.runs(count).unwrap_or_default();
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor_map::Swizzle;

    #[test]
    fn a_box_over_an_edge() {
        let map = TensorMap {
            element: 4,
            is_rounded: false,
            address: 1024,
            sizes: vec![5, 2],
            strides: vec![32],
            tile: vec![8, 2],
            swizzle: Swizzle::None,
        };
        let tile = Tile { map, at: vec![-1, 1] };
        let mut runs = Vec::new();
        let keep = |run: Run| {
            runs.push((run.offset, run.address, run.bytes));
            Ok::<(), ()>(())
        };
        tile.runs(keep).unwrap();
        let outside = |offset, bytes| (offset, None, bytes);
        assert_eq!(
            runs,
            [
                outside(0, 4),
                (4, Some(1056), 12),
                (16, Some(1068), 8),
                outside(24, 8),
                outside(32, 16),
                outside(48, 16)
            ]
        );
        assert_eq!((tile.bytes(), tile.bytes_within()), (64, 20));
    }
}
