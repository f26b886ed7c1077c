//! A tile of a tensor in global memory, and its bytes in the order of shared memory.

use core::mem::MaybeUninit;

use super::map::{Swizzle, TensorMap};

/// The first word of the executor's maps.
const MAGIC: u64 = u64::from_le_bytes(*b"cpu-tmap");

/// Bytes that a swizzle moves as a whole. A tile begins at a multiple of them.
pub(super) const CHUNK: usize = 16;

/// A map of the executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub tensor: *mut u8,
    pub rank: usize,
    /// Bytes of an element.
    pub element: usize,
    /// Whether copies to shared memory round `f32` to TF32.
    pub is_rounded: bool,
    /// 1 in dimensions that the tensor does not have.
    pub sizes: [u64; 5],
    /// In bytes; 0 in dimensions that the tensor does not have.
    pub strides: [u64; 5],
    /// 1 in dimensions that the tensor does not have.
    pub tile: [usize; 5],
    pub swizzle: Swizzle,
}

impl Decoded {
    pub fn encode(&self) -> TensorMap {
        let mut words = [0; 16];
        words[0] = MAGIC;
        words[1] = self.tensor.expose_provenance() as u64;
        let bytes = [self.rank as u8, self.element as u8, self.swizzle as u8, self.is_rounded.into()];
        words[2] = u32::from_le_bytes(bytes).into();
        words[3..8].copy_from_slice(&self.sizes);
        words[8..12].copy_from_slice(&self.strides[1..]);
        for (word, tile) in words[12..15].iter_mut().zip(self.tile.chunks(2)) {
            *word = tile.iter().rev().fold(0, |all, &size| all << 32 | size as u64);
        }
        TensorMap::from_words(words)
    }

    /// Decodes a map; returns `None` if the executor did not encode it.
    pub fn of(map: &TensorMap) -> Option<Self> {
        let words = map.words();
        if words[0] != MAGIC {
            return None;
        }
        let (element, mut strides) = ((words[2] >> 8 & 0xff) as usize, [0; 5]);
        strides[0] = element as u64;
        strides[1..].copy_from_slice(&words[8..12]);
        let half = |i: usize| (words[12 + i / 2] >> (i % 2 * 32)) as u32 as usize;
        Some(Self {
            tensor: core::ptr::with_exposed_provenance_mut(words[1] as usize),
            rank: (words[2] & 0xff) as usize,
            element,
            is_rounded: words[2] >> 24 & 1 == 1,
            sizes: core::array::from_fn(|i| words[3 + i]),
            strides,
            tile: core::array::from_fn(half),
            swizzle: match words[2] >> 16 & 0xff {
                1 => Swizzle::Bytes32,
                2 => Swizzle::Bytes64,
                3 => Swizzle::Bytes128,
                _ => Swizzle::None,
            },
        })
    }
}

/// The tile at these coordinates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    map: Decoded,
    at: [i64; 5],
}

/// A row of a tile: its bytes that lie within the tensor.
struct Row {
    /// Where the row begins in the tile.
    offset: usize,
    /// Where the bytes begin in the row.
    skip: usize,
    bytes: usize,
    tensor: *mut u8,
}

impl Tile {
    pub fn new(map: Decoded, at: &[i32]) -> Self {
        let at = core::array::from_fn(|i| at.get(i).copied().unwrap_or(0).into());
        Self { map, at }
    }

    /// Returns its swizzle in shared memory.
    pub fn swizzle(&self) -> Swizzle {
        self.map.swizzle
    }

    /// Returns whether it is of a map that rounds to TF32.
    pub fn is_rounded(&self) -> bool {
        self.map.is_rounded
    }

    /// Returns the bytes of the whole tile.
    pub fn bytes(&self) -> usize {
        self.map.tile.iter().product::<usize>() * self.map.element
    }

    /// Returns the bytes of the tensor's rows if the tile extends beyond their end and they end within a 16-byte chunk.
    pub fn ends_within_chunk(&self) -> Option<u64> {
        let Decoded { element, sizes, tile, .. } = self.map;
        let (first, len) = (self.at[0], sizes[0].cast_signed());
        let is_over = first < len && len < first + tile[0] as i64;
        let bytes = sizes[0] * element as u64;
        (is_over && !bytes.is_multiple_of(CHUNK as u64)).then_some(bytes)
    }

    /// Returns its rows.
    fn rows(&self) -> impl Iterator<Item = Row> {
        let Decoded { tensor, element, sizes, strides, tile, .. } = self.map;
        let at = self.at;
        let rows = tile[1..].iter().product::<usize>();
        // The elements of the innermost dimension within the tensor, the same in all rows.
        let first = (-at[0]).clamp(0, tile[0] as i64);
        let end = (sizes[0].cast_signed() - at[0]).clamp(first, tile[0] as i64);
        (0..rows).map(move |row| {
            let (mut rest, mut is_inside) = (row, end > first);
            let mut pointer = tensor.wrapping_offset((at[0] + first) as isize * element as isize);
            for dimension in 1..5 {
                let position = at[dimension] + (rest % tile[dimension]) as i64;
                rest /= tile[dimension];
                is_inside &= (0..sizes[dimension].cast_signed()).contains(&position);
                pointer =
                    pointer.wrapping_offset(position as isize * strides[dimension].cast_signed() as isize);
            }
            let bytes = if is_inside { (end - first) as usize * element } else { 0 };
            Row { offset: row * tile[0] * element, skip: first as usize * element, bytes, tensor: pointer }
        })
    }

    /// Returns the bytes of a row in shared memory.
    fn row_bytes(&self) -> usize {
        self.map.tile[0] * self.map.element
    }

    /// Copies the tile to shared memory; elements outside the tensor become zero.
    ///
    /// # Safety
    /// The tensor and `shared` are valid, and `shared` is aligned for the swizzle. If the map rounds, the elements are
    /// initialised.
    pub unsafe fn load(&self, shared: *mut u8) {
        let mut buffer = vec![MaybeUninit::new(0u8); self.row_bytes()];
        for Row { offset, skip, bytes, tensor } in self.rows() {
            buffer.fill(MaybeUninit::new(0));
            // SAFETY: the bytes are within the tensor and within the row; chunks are within the tile.
            unsafe {
                if bytes > 0 {
                    core::ptr::copy_nonoverlapping(tensor.cast(), buffer[skip..].as_mut_ptr(), bytes);
                }
                if self.map.is_rounded {
                    round(&mut buffer[skip..skip + bytes]);
                }
                for (chunk, content) in buffer.chunks_exact(CHUNK).enumerate() {
                    let target = shared.add(self.map.swizzle.offset(offset + chunk * CHUNK));
                    core::ptr::copy_nonoverlapping(content.as_ptr(), target.cast(), CHUNK);
                }
            }
        }
    }

    /// Writes the tile's bytes to the tensor, except for elements outside the tensor.
    ///
    /// # Safety
    /// The tensor is valid, and `tile` has the tile's bytes.
    pub unsafe fn store(&self, tile: &[MaybeUninit<u8>]) {
        let mut buffer = vec![MaybeUninit::uninit(); self.row_bytes()];
        for Row { offset, skip, bytes, tensor } in self.rows().filter(|row| row.bytes > 0) {
            for (chunk, content) in buffer.chunks_exact_mut(CHUNK).enumerate() {
                let source = self.map.swizzle.offset(offset + chunk * CHUNK);
                content.copy_from_slice(&tile[source..source + CHUNK]);
            }
            // SAFETY: the bytes are within the tensor.
            unsafe { core::ptr::copy_nonoverlapping(buffer[skip..].as_ptr(), tensor.cast(), bytes) };
        }
    }

    /// Calls `f` with each run of the tensor's bytes within the tile.
    pub fn for_each_run(&self, mut f: impl FnMut(*mut u8, usize)) {
        self.rows().filter(|row| row.bytes > 0).for_each(|row| f(row.tensor, row.bytes));
    }
}

/// Rounds each `f32` to the nearest TF32 number, ties to even; infinity and NaN stay.
///
/// # Safety
/// The bytes are initialised.
unsafe fn round(bytes: &mut [MaybeUninit<u8>]) {
    for word in bytes.as_chunks_mut::<4>().0 {
        // SAFETY: the caller's contract.
        let bits = u32::from_ne_bytes(word.map(|byte| unsafe { byte.assume_init() }));
        if f32::from_bits(bits).is_finite() {
            let rounded = (bits + 0xfff + (bits >> 13 & 1)) & 0xffff_e000;
            *word = rounded.to_ne_bytes().map(MaybeUninit::new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::TensorMapSpec;

    #[test]
    fn maps_round_to_the_nearest_tf32() {
        #[repr(align(16))]
        struct Aligned<T>(T);
        let half = f32::EPSILON * 4096.0;
        // A tie to even on each side, above a tie, a carry into the exponent, and numbers that stay.
        let numbers = [
            1.0 + half,
            1.0 + 3.0 * half,
            -1.0 - 1.125 * half,
            2.0f32.next_down(),
            f32::MAX,
            f32::NEG_INFINITY,
            -0.0,
            f32::NAN,
        ];
        let expected =
            [1.0, 1.0 + 4.0 * half, -1.0 - 2.0 * half, 2.0, f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::NAN];
        let spec = TensorMapSpec::new::<f32>([8], [8]).rounded_to_tf32();
        let (from, mut to) = (Aligned(numbers), Aligned([0f32; 8]));
        let tile = Tile::new(Decoded::of(&spec.encode_for_cpu(&from.0).unwrap()).unwrap(), &[0]);
        assert!(tile.is_rounded());
        // SAFETY: both have the bytes of the tile.
        unsafe { tile.load(to.0.as_mut_ptr().cast()) };
        assert_eq!(to.0.map(f32::to_bits), expected.map(f32::to_bits));
    }
}
