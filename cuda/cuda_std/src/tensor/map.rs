//! Tensors as the device reads them.

/// A tensor in global memory and its tiles, as the device reads them: a kernel's parameter, by value. A
/// [`TensorMapSpec`](super::TensorMapSpec) creates it.
///
/// The TMA unit reads it in place, so a kernel passes it on by reference and never copies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct TensorMap {
    words: [u64; 16],
}

impl TensorMap {
    /// Creates a map from its words, as a driver encodes it.
    pub const fn from_words(words: [u64; 16]) -> Self {
        Self { words }
    }

    /// Returns its words.
    pub const fn words(&self) -> &[u64; 16] {
        &self.words
    }
}

/// How the 16-byte chunks of a tile lie in shared memory. Rows are as long as the swizzle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// In order.
    #[default]
    None,
    /// Rows of 32 bytes: chunk `c` of row `r` lies at chunk `c ^ (r / 4 % 2)`.
    Bytes32,
    /// Rows of 64 bytes: chunk `c` of row `r` lies at chunk `c ^ (r / 2 % 4)`.
    Bytes64,
    /// Rows of 128 bytes: chunk `c` of row `r` lies at chunk `c ^ (r % 8)`. It is the order of a
    /// [`Panel`](crate::wgmma::Panel).
    Bytes128,
}

impl Swizzle {
    /// Returns the alignment of a tile in shared memory, in bytes.
    pub const fn alignment(self) -> usize {
        match self {
            Swizzle::None => 128,
            Swizzle::Bytes32 => 256,
            Swizzle::Bytes64 => 512,
            Swizzle::Bytes128 => 1024,
        }
    }

    /// Returns the length of a row in bytes; `None` without a swizzle, which allows any length.
    pub const fn row_bytes(self) -> Option<usize> {
        match self {
            Swizzle::None => None,
            Swizzle::Bytes32 => Some(32),
            Swizzle::Bytes64 => Some(64),
            Swizzle::Bytes128 => Some(128),
        }
    }

    /// Returns the position of byte `offset` of a tile, from the tile's aligned start.
    pub const fn offset(self, offset: usize) -> usize {
        let bits = match self {
            Swizzle::None => 0,
            Swizzle::Bytes32 => 1,
            Swizzle::Bytes64 => 3,
            Swizzle::Bytes128 => 7,
        };
        offset ^ (offset >> 7 & bits) << 4
    }
}
