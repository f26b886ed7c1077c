//! [`TensorMap`]: the content of a tensor map, and the emulator's encoding.
//!
//! Only the driver knows the encoding of a GPU's tensor map in 128 bytes. The emulator has an encoding of its own.

use crate::error::EmulatorError;

/// Maximum dimensions of a tensor.
const RANK: usize = 5;
/// The first bytes of an encoded map.
const MARK: [u8; 8] = *b"ptxemuTM";
/// The first bytes of a map that the executor of `cuda_std` reads. Host code encodes such maps for all devices except GPUs.
const EXECUTOR_MARK: [u8; 8] = *b"cpu-tmap";

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorElement {
    /// `u8`, and 8-bit numbers.
    U8,
    /// `u16`.
    U16,
    /// `u32`.
    U32,
    /// `i32`.
    I32,
    /// `u64`.
    U64,
    /// `i64`.
    I64,
    /// `f16`.
    F16,
    /// `bf16`.
    Bf16,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
    /// `f32`, which a copy to shared memory rounds to the nearest TF32 number, ties to even.
    Tf32,
}

impl TensorElement {
    const ALL: [TensorElement; 11] = [
        TensorElement::U8,
        TensorElement::U16,
        TensorElement::U32,
        TensorElement::I32,
        TensorElement::U64,
        TensorElement::I64,
        TensorElement::F16,
        TensorElement::Bf16,
        TensorElement::F32,
        TensorElement::F64,
        TensorElement::Tf32,
    ];

    /// Bytes of an element.
    pub fn bytes(self) -> u64 {
        match self {
            TensorElement::U8 => 1,
            TensorElement::U16 | TensorElement::F16 | TensorElement::Bf16 => 2,
            TensorElement::U32 | TensorElement::I32 | TensorElement::F32 | TensorElement::Tf32 => 4,
            TensorElement::U64 | TensorElement::I64 | TensorElement::F64 => 8,
        }
    }
}

/// The permutation of a box's 16-byte units in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Swizzle {
    /// No permutation.
    #[default]
    None,
    /// Within rows of 32 bytes.
    Bytes32,
    /// Within rows of 64 bytes.
    Bytes64,
    /// Within rows of 128 bytes.
    Bytes128,
}

impl Swizzle {
    const ALL: [Swizzle; 4] = [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128];

    /// The bytes of a row; `None` without a swizzle.
    pub fn row(self) -> Option<u64> {
        match self {
            Swizzle::None => None,
            Swizzle::Bytes32 => Some(32),
            Swizzle::Bytes64 => Some(64),
            Swizzle::Bytes128 => Some(128),
        }
    }

    /// The alignment of a shared memory address where the pattern starts.
    pub fn alignment(self) -> u64 {
        self.row().map_or(128, |row| 8 * row)
    }

    /// Swizzles `address` of shared memory. The row of 128 bytes decides, counted from `base`.
    pub(crate) fn place(self, address: u64, base: u64) -> u64 {
        let units = self.row().map_or(1, |row| row / 16);
        address ^ (((address >> 7).wrapping_sub(base) & (units - 1)) << 4)
    }
}

/// Eight bytes from `at`, as a number.
fn word(bytes: &[u8; 128], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte))
}

/// The content of a tensor map: a tensor in global memory, and the box that each copy moves. All lists start with the
/// innermost dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// The type of the elements.
    pub element: TensorElement,
    /// The address of the first element, a multiple of 16.
    pub address: u64,
    /// Elements of each dimension, one to five.
    pub sizes: Vec<u64>,
    /// Bytes from one element to the next in each dimension except the innermost, multiples of 16.
    pub strides: Vec<u64>,
    /// Elements of the box in each dimension, at most 256; the innermost row is a multiple of 16 bytes.
    pub tile: Vec<u32>,
    /// The layout of the box in shared memory. With a swizzle, its innermost row has the bytes of the swizzle.
    pub swizzle: Swizzle,
}

impl TensorMap {
    /// Encodes the map in the 128 bytes that a kernel in the emulator takes, aligned to 64.
    ///
    /// # Errors
    /// [`EmulatorError::TensorMap`]: a GPU rejects a size, stride or address, or the emulator does not support the box.
    pub fn encode(&self) -> Result<[u8; 128], EmulatorError> {
        self.check().map_err(|reason| EmulatorError::TensorMap { reason })?;
        let mut bytes = [0; 128];
        bytes[..8].copy_from_slice(&MARK);
        bytes[8..16].copy_from_slice(&self.address.to_le_bytes());
        let position = |found: Option<usize>| found.unwrap_or_default() as u8;
        bytes[16] = self.sizes.len() as u8;
        bytes[17] = position(TensorElement::ALL.iter().position(|&element| element == self.element));
        bytes[18] = position(Swizzle::ALL.iter().position(|&swizzle| swizzle == self.swizzle));
        let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        self.sizes.iter().enumerate().for_each(|(i, &size)| put(24 + 8 * i, size));
        self.strides.iter().enumerate().for_each(|(i, &stride)| put(64 + 8 * i, stride));
        for (i, &tile) in self.tile.iter().enumerate() {
            bytes[96 + 4 * i..100 + 4 * i].copy_from_slice(&tile.to_le_bytes());
        }
        Ok(bytes)
    }

    /// Decodes a map that [`encode`](Self::encode) or `cuda_std` (for its executor) has written; `None` otherwise.
    pub(crate) fn decode(bytes: &[u8; 128]) -> Option<TensorMap> {
        let rank = usize::from(bytes[16]);
        if !(1..=RANK).contains(&rank) {
            return None;
        }
        if bytes[..8] == EXECUTOR_MARK {
            return TensorMap::decode_executor(bytes, rank);
        }
        if bytes[..8] != MARK {
            return None;
        }
        let word = |at: usize| word(bytes, at);
        let map = TensorMap {
            element: *TensorElement::ALL.get(usize::from(bytes[17]))?,
            address: word(8),
            sizes: (0..rank).map(|i| word(24 + 8 * i)).collect(),
            strides: (0..rank - 1).map(|i| word(64 + 8 * i)).collect(),
            tile: (0..rank).map(|i| word(96 + 4 * i) as u32).collect(),
            swizzle: *Swizzle::ALL.get(usize::from(bytes[18]))?,
        };
        map.check().is_ok().then_some(map)
    }

    /// Decodes a map of the executor: address, rank with the bytes of an element, the swizzle and whether copies round to
    /// TF32, sizes, strides, and the box by halves of words.
    fn decode_executor(bytes: &[u8; 128], rank: usize) -> Option<TensorMap> {
        let word = |at: usize| word(bytes, 8 * at);
        let element = match (bytes[17], bytes[19]) {
            (1, 0) => TensorElement::U8,
            (2, 0) => TensorElement::U16,
            (4, 0) => TensorElement::U32,
            (8, 0) => TensorElement::U64,
            (4, 1) => TensorElement::Tf32,
            _ => return None,
        };
        let map = TensorMap {
            element,
            address: word(1),
            sizes: (0..rank).map(|i| word(3 + i)).collect(),
            strides: (0..rank - 1).map(|i| word(8 + i)).collect(),
            tile: (0..rank).map(|i| (word(12 + i / 2) >> (32 * (i % 2))) as u32).collect(),
            swizzle: *Swizzle::ALL.get(usize::from(bytes[18]))?,
        };
        map.check().is_ok().then_some(map)
    }

    /// The extents of the tensors of all executor maps in a parameter: the first byte, and the end. `cuda_std` has checked
    /// that each tensor fits its buffer.
    pub(crate) fn extents(parameter: &[u8]) -> impl Iterator<Item = (u64, u64)> {
        let maps = parameter.windows(128).step_by(8).filter(|window| window[..8] == EXECUTOR_MARK);
        maps.filter_map(|window| TensorMap::decode(window.try_into().ok()?)).map(|map| {
            let dimensions = map.sizes.iter().skip(1).zip(&map.strides);
            let last: u64 = dimensions.map(|(&size, &stride)| (size - 1).saturating_mul(stride)).sum();
            (map.address, map.address + last + map.sizes[0] * map.element.bytes())
        })
    }

    fn check(&self) -> Result<(), String> {
        let (rank, element) = (self.sizes.len(), self.element.bytes());
        if !(1..=RANK).contains(&rank) || self.strides.len() != rank - 1 || self.tile.len() != rank {
            let (strides, tile) = (self.strides.len(), self.tile.len());
            return Err(format!(
                "{rank} sizes, {strides} strides and {tile} sizes of the box; a tensor of rank r has r, r - 1 and r, r from 1 to 5"
            ));
        }
        if !self.address.is_multiple_of(16) {
            return Err(format!("the address {:#x} is not a multiple of 16", self.address));
        }
        if let Some(size) = self.sizes.iter().find(|&&size| !(1..=1 << 32).contains(&size)) {
            return Err(format!("a dimension of {size} elements; it has 1 to 2^32"));
        }
        if let Some(stride) =
            self.strides.iter().find(|&&stride| !stride.is_multiple_of(16) || stride >= 1 << 40)
        {
            return Err(format!("a stride of {stride} bytes; it is a multiple of 16 below 2^40"));
        }
        if let Some(tile) = self.tile.iter().find(|&&tile| !(1..=256).contains(&tile)) {
            return Err(format!("a box of {tile} elements in a dimension; it has 1 to 256"));
        }
        let row = u64::from(self.tile[0]) * element;
        match self.swizzle.row() {
            _ if !row.is_multiple_of(16) => {
                Err(format!("a box with rows of {row} bytes; they are a multiple of 16 bytes"))
            }
            Some(swizzled) if row != swizzled => Err(format!(
                "a box with rows of {row} bytes and a swizzle of {swizzled}; the emulator knows rows as long as the swizzle"
            )),
            _ => Ok(()),
        }
    }
}
