//! The content of a tensor map.
//!
//! Only the driver knows the encoding of a GPU's tensor map in 128 bytes. For all other devices, `cuda_std` encodes them as
//! words: a mark; the address; rank, bytes of an element, swizzle and whether copies round to TF32, a byte each; five sizes;
//! the strides of the four outer dimensions; and the box by halves of words.

/// The first word of a map.
const MARK: u64 = u64::from_le_bytes(*b"cpu-tmap");
/// Maximum dimensions of a tensor.
const RANK: usize = 5;

/// The permutation of a box's 16-byte units in shared memory: within rows of this many bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Swizzle {
    #[default]
    None,
    Bytes32,
    Bytes64,
    Bytes128,
}

impl Swizzle {
    pub const ALL: [Swizzle; 4] = [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128];

    /// The bytes of a row; `None` without a swizzle.
    pub fn row(self) -> Option<u64> {
        (self != Swizzle::None).then_some(16 << self as u64)
    }

    /// The alignment of a shared memory address where the pattern starts.
    pub fn alignment(self) -> u64 {
        self.row().map_or(128, |row| 8 * row)
    }

    /// Swizzles `address` of shared memory. The row of 128 bytes decides, counted from `base`.
    pub fn place(self, address: u64, base: u64) -> u64 {
        let units = self.row().map_or(1, |row| row / 16);
        address ^ (((address >> 7).wrapping_sub(base) & (units - 1)) << 4)
    }
}

/// A tensor in global memory, and the box that each copy moves. All lists start with the innermost dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorMap {
    /// Bytes of an element.
    pub element: u64,
    /// Whether a copy to shared memory rounds `f32` to the nearest TF32 number, ties to even.
    pub is_rounded: bool,
    pub address: u64,
    pub sizes: Vec<u64>,
    /// Bytes from one element to the next in each dimension except the innermost.
    pub strides: Vec<u64>,
    /// Elements of the box in each dimension. With a swizzle, its innermost row has the bytes of the swizzle.
    pub tile: Vec<u32>,
    pub swizzle: Swizzle,
}

impl TensorMap {
    /// Decodes the words of a map; `None` if they are none.
    pub fn decode(words: [u64; 16]) -> Option<TensorMap> {
        let [rank, element, swizzle, is_rounded, ..] = words[2].to_le_bytes();
        let rank = usize::from(rank);
        let is_map = words[0] == MARK && (1..=RANK).contains(&rank);
        is_map.then(|| TensorMap {
            element: element.into(),
            is_rounded: is_rounded == 1,
            address: words[1],
            sizes: words[3..3 + rank].to_vec(),
            strides: words[8..7 + rank].to_vec(),
            tile: (0..rank).map(|i| (words[12 + i / 2] >> (32 * (i % 2))) as u32).collect(),
            swizzle: Swizzle::ALL[usize::from(swizzle) % 4],
        })
    }

    /// The extents of the tensors of all maps in a parameter: the first byte, and the end. `cuda_std` has checked that each
    /// tensor fits its buffer.
    pub fn extents(parameter: &[u8]) -> impl Iterator<Item = (u64, u64)> {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte));
        let map =
            move |bytes: &[u8]| TensorMap::decode(core::array::from_fn(|i| word(&bytes[8 * i..8 * i + 8])));
        parameter.windows(128).step_by(8).filter_map(map).map(|map| {
            let dimensions = map.sizes.iter().skip(1).zip(&map.strides);
            let last: u64 = dimensions.map(|(&size, &stride)| (size - 1).saturating_mul(stride)).sum();
            (map.address, map.address + last + map.sizes[0] * map.element)
        })
    }
}
