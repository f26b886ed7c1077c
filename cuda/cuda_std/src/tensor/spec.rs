//! Descriptions of tensors on the host, and the executor's own encoding of them.

use core::fmt;

use super::{Swizzle, TensorMap};
use crate::half::{bf16, f16};
use crate::mma::tf32;
use crate::wgmma::e4m3;

/// The type of a tensor's elements. Copies move bytes, so only its size matters, except for [`Tf32`](Self::Tf32).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names of Rust's types")]
pub enum ElementType {
    U8,
    U16,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
    F64,
    Bf16,
    /// `f32`, which a copy to shared memory rounds to the nearest TF32 number, ties to even.
    Tf32,
}

impl ElementType {
    /// Its type in global memory.
    pub const fn in_memory(self) -> Self {
        match self {
            ElementType::Tf32 => ElementType::F32,
            other => other,
        }
    }

    /// Its size in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            ElementType::U8 => 1,
            ElementType::U16 | ElementType::F16 | ElementType::Bf16 => 2,
            ElementType::U32 | ElementType::I32 | ElementType::F32 | ElementType::Tf32 => 4,
            ElementType::U64 | ElementType::I64 | ElementType::F64 => 8,
        }
    }
}

/// A type of tensor elements.
pub trait TensorElement: Copy {
    /// The element type.
    const TYPE: ElementType;
}

macro_rules! elements {
    ($($ty:ty = $name:ident;)*) => {$(
        impl TensorElement for $ty {
            const TYPE: ElementType = ElementType::$name;
        }
    )*};
}

elements! {
    u8 = U8;
    i8 = U8;
    e4m3 = U8;
    u16 = U16;
    i16 = U16;
    u32 = U32;
    i32 = I32;
    u64 = U64;
    i64 = I64;
    f16 = F16;
    bf16 = Bf16;
    f32 = F32;
    tf32 = F32;
    f64 = F64;
}

/// A tensor in global memory and its tiles, from which a [`TensorMap`] is encoded: for a GPU by the driver, for the executor by
/// [`encode_for_cpu`](Self::encode_for_cpu). The innermost dimension, whose elements are neighbours in memory, comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMapSpec<const RANK: usize> {
    /// The type of the elements.
    pub element: ElementType,
    /// Elements in each dimension, 1 to 2^32.
    pub sizes: [u64; RANK],
    /// The distance of neighbours in each dimension, in elements: 1 in the innermost dimension, a multiple of 16 bytes
    /// below 2^40 bytes in the others.
    pub strides: [u64; RANK],
    /// Elements of a tile in each dimension, 1 to 256; the innermost a multiple of 16 bytes.
    pub tile: [u32; RANK],
    /// How a tile lies in shared memory.
    pub swizzle: Swizzle,
}

/// What is wrong with a [`TensorMapSpec`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorMapError {
    /// The number of dimensions.
    #[error("a tensor map has 1 to 5 dimensions, not {rank}")]
    Rank {
        /// Dimensions.
        rank: usize,
    },
    /// A size.
    #[error("the tensor has {size} elements in dimension {dimension}; pass 1 to 2^32")]
    Size {
        /// Which dimension, the innermost is 0.
        dimension: usize,
        /// Its elements.
        size: u64,
    },
    /// The stride of the innermost dimension.
    #[error("the innermost dimension has stride {stride}; its elements are neighbours, so it is 1")]
    InnermostStride {
        /// Elements.
        stride: u64,
    },
    /// The stride of another dimension.
    #[error("dimension {dimension} has a stride of {bytes} bytes; it is a multiple of 16 below 2^40")]
    Stride {
        /// Which dimension.
        dimension: usize,
        /// The stride in bytes.
        bytes: u64,
    },
    /// The size of a tile.
    #[error("the tile has {size} elements in dimension {dimension}; pass 1 to 256")]
    Tile {
        /// Which dimension.
        dimension: usize,
        /// Elements of the tile.
        size: u32,
    },
    /// The length of a tile's row.
    #[error("a row of the tile has {bytes} bytes; {}", RowRule(*.swizzle))]
    Row {
        /// Bytes of the tile's innermost dimension.
        bytes: u64,
        /// The swizzle.
        swizzle: Swizzle,
    },
    /// The tensor's address.
    #[error("the tensor begins at {address:#x}; align it to 16 bytes")]
    Address {
        /// The address.
        address: usize,
    },
    /// The tensor is longer than its buffer.
    #[error(
        "the tensor takes {needed} bytes from the buffer's start, which has {bytes}; pass smaller sizes or strides"
    )]
    Buffer {
        /// Bytes up to the tensor's last element.
        needed: u64,
        /// Bytes of the buffer.
        bytes: u64,
    },
    /// The buffer's elements have another type.
    #[error("the tensor has elements of {spec:?}, its buffer {buffer:?}; describe it with the buffer's type")]
    Element {
        /// The type of the description.
        spec: ElementType,
        /// The buffer's.
        buffer: ElementType,
    },
}

/// The rule for the length of a row.
struct RowRule(Swizzle);

impl fmt::Display for RowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.row_bytes() {
            None => f.write_str("make it a multiple of 16"),
            Some(bytes) => write!(f, "with Swizzle::Bytes{bytes} it has {bytes}"),
        }
    }
}

impl<const RANK: usize> TensorMapSpec<RANK> {
    /// Describes a tensor without gaps between its rows, and tiles without a swizzle.
    pub fn new<T: TensorElement>(sizes: [u64; RANK], tile: [u32; RANK]) -> Self {
        let mut strides = [1; RANK];
        for dimension in 1..RANK {
            strides[dimension] = sizes[dimension - 1].saturating_mul(strides[dimension - 1]);
        }
        Self { element: T::TYPE, sizes, strides, tile, swizzle: Swizzle::None }
    }

    /// The same tensor with these distances of neighbours, in elements.
    pub fn with_strides(self, strides: [u64; RANK]) -> Self {
        Self { strides, ..self }
    }

    /// The same tensor with this swizzle for its tiles in shared memory.
    pub fn with_swizzle(self, swizzle: Swizzle) -> Self {
        Self { swizzle, ..self }
    }

    /// The same tensor, but copies to shared memory round `f32` to the nearest TF32 number, ties to even. This costs no time,
    /// and tensor cores ignore the bits that are rounded away. Other elements are copied unchanged. Kernels only read it.
    pub fn rounded_to_tf32(self) -> Self {
        let element = if self.element == ElementType::F32 { ElementType::Tf32 } else { self.element };
        Self { element, ..self }
    }

    /// Returns the bytes of a tile, which a copy counts at its barrier.
    pub fn tile_bytes(&self) -> u64 {
        self.tile.iter().map(|&size| u64::from(size)).product::<u64>() * self.element.bytes()
    }

    /// Returns the bytes from the tensor's first to its last element.
    pub fn bytes(&self) -> u64 {
        let last = self.sizes.iter().zip(&self.strides);
        let last = last.map(|(size, stride)| size.saturating_sub(1).saturating_mul(*stride));
        last.fold(1, u64::saturating_add).saturating_mul(self.element.bytes())
    }

    /// Returns the stride of a dimension in bytes.
    pub fn stride_bytes(&self, dimension: usize) -> u64 {
        self.strides[dimension].saturating_mul(self.element.bytes())
    }

    /// Checks the description for a buffer of `bytes` bytes at this address of the device.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(&self, address: usize, bytes: u64) -> Result<(), TensorMapError> {
        if !(1..=5).contains(&RANK) {
            return Err(TensorMapError::Rank { rank: RANK });
        }
        for (dimension, &size) in self.sizes.iter().enumerate() {
            if !(1..=1 << 32).contains(&size) {
                return Err(TensorMapError::Size { dimension, size });
            }
        }
        if self.strides[0] != 1 {
            return Err(TensorMapError::InnermostStride { stride: self.strides[0] });
        }
        for dimension in 1..RANK {
            let bytes = self.stride_bytes(dimension);
            if bytes == 0 || !bytes.is_multiple_of(16) || bytes >= 1 << 40 {
                return Err(TensorMapError::Stride { dimension, bytes });
            }
        }
        for (dimension, &size) in self.tile.iter().enumerate() {
            if !(1..=256).contains(&size) {
                return Err(TensorMapError::Tile { dimension, size });
            }
        }
        let row = u64::from(self.tile[0]) * self.element.bytes();
        let is_row = match self.swizzle.row_bytes() {
            None => row.is_multiple_of(16),
            Some(bytes) => row == bytes as u64,
        };
        if !is_row {
            return Err(TensorMapError::Row { bytes: row, swizzle: self.swizzle });
        }
        if !address.is_multiple_of(16) {
            return Err(TensorMapError::Address { address });
        }
        if self.bytes() > bytes {
            return Err(TensorMapError::Buffer { needed: self.bytes(), bytes });
        }
        Ok(())
    }

    /// Encodes the map for the executor, for a tensor that kernels only read. The elements stay alive and unchanged as
    /// long as a kernel uses it.
    ///
    /// # Errors
    /// See [`check`](Self::check); also if the elements have another type.
    pub fn encode_for_cpu<T: TensorElement>(&self, elements: &[T]) -> Result<TensorMap, TensorMapError> {
        self.encode::<T>(elements.as_ptr().cast_mut(), size_of_val(elements))
    }

    /// Encodes the map for the executor, for a tensor that kernels may write. The elements stay alive and untouched as
    /// long as a kernel uses it.
    ///
    /// # Errors
    /// See [`check`](Self::check); also if the elements have another type.
    pub fn encode_for_cpu_mut<T: TensorElement>(
        &self,
        elements: &mut [T],
    ) -> Result<TensorMap, TensorMapError> {
        self.encode::<T>(elements.as_mut_ptr(), size_of_val(elements))
    }

    fn encode<T: TensorElement>(&self, pointer: *mut T, bytes: usize) -> Result<TensorMap, TensorMapError> {
        if T::TYPE != self.element.in_memory() {
            return Err(TensorMapError::Element { spec: self.element, buffer: T::TYPE });
        }
        self.encode_raw(pointer.cast(), bytes as u64)
    }

    /// Encodes the map for the executor, for `bytes` bytes at `pointer` that kernels access through the map.
    ///
    /// # Errors
    /// See [`check`](Self::check).
    pub fn encode_raw(&self, pointer: *mut u8, bytes: u64) -> Result<TensorMap, TensorMapError> {
        self.check(pointer.addr(), bytes)?;
        let element = self.element.bytes();
        let part = |dimension: usize| dimension < RANK;
        let five =
            |of: &dyn Fn(usize) -> u64, none| core::array::from_fn(|i| if part(i) { of(i) } else { none });
        let decoded = super::tile::Decoded {
            tensor: pointer,
            rank: RANK,
            element: element as usize,
            is_rounded: self.element == ElementType::Tf32,
            sizes: five(&|i| self.sizes[i], 1),
            strides: five(&|i| self.stride_bytes(i), 0),
            tile: five(&|i| self.tile[i].into(), 1).map(|size| size as usize),
            swizzle: self.swizzle,
        };
        Ok(decoded.encode())
    }
}
