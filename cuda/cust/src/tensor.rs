//! Tensor maps: descriptions of tensors in device memory for the TMA unit (compute capability 9.0 and later). Not upstream.

use std::ffi::c_uint;

use crate::error::{CudaError, CudaResult};
use crate::sys::{self, CUdeviceptr};

pub use crate::sys::CUtensorMap;

/// Maximum dimensions of a tensor.
const MOST_DIMENSIONS: usize = 5;

/// `CU_TENSOR_MAP_L2_PROMOTION_L2_128B` and `_256B`: L2 misses are fetched 128 or 256 bytes at a time. If rows start within the
/// lines of 128 bytes, multiplications take a sixth longer with the latter; otherwise it makes no difference.
const PROMOTIONS: [c_uint; 2] = [2, 3];

/// The type of the elements, by its number in cuda.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names of Rust's types")]
pub enum TensorDataType {
    U8 = 0,
    U16 = 1,
    U32 = 2,
    I32 = 3,
    U64 = 4,
    I64 = 5,
    F16 = 6,
    F32 = 7,
    F64 = 8,
    Bf16 = 9,
    Tf32 = 11,
}

/// The layout of a tile in shared memory, by its number in cuda.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
#[expect(missing_docs, reason = "the length of a row")]
pub enum TensorSwizzle {
    #[default]
    None = 0,
    Bytes32 = 1,
    Bytes64 = 2,
    Bytes128 = 3,
}

/// A tensor and its tiles. All lists begin with the innermost dimension.
#[derive(Clone, Copy, Debug)]
pub struct TensorMapParameters<'a> {
    /// The type of the elements.
    pub data_type: TensorDataType,
    /// The address of the tensor, a multiple of 16.
    pub address: CUdeviceptr,
    /// Elements of each dimension; there are 1 to 5.
    pub sizes: &'a [u64],
    /// Bytes between elements in each dimension except the innermost, multiples of 16.
    pub strides: &'a [u64],
    /// Elements of a tile in each dimension, 1 to 256.
    pub tile: &'a [u32],
    /// The layout of a tile in shared memory.
    pub swizzle: TensorSwizzle,
}

impl TensorMapParameters<'_> {
    /// Encodes the map, which kernels take by value. Elements outside the tensor are zero.
    ///
    /// # Errors
    /// [`CudaError::InvalidValue`] if the driver rejects a value, or a list's length does not match the dimensions;
    /// [`CudaError::StubLibrary`] if it is older than CUDA 12.0.
    pub fn encode(&self) -> CudaResult<CUtensorMap> {
        let Self { data_type, address, sizes, strides, tile, swizzle } = *self;
        let rank = sizes.len();
        if !(1..=MOST_DIMENSIONS).contains(&rank) || strides.len() != rank - 1 || tile.len() != rank {
            return Err(CudaError::InvalidValue);
        }
        let mut map = CUtensorMap { words: [0; 16] };
        let element_strides = [1; MOST_DIMENSIONS];
        let has_whole_lines = strides.iter().all(|stride| stride.is_multiple_of(128));
        // SAFETY: the out parameter and the lists are valid for the rank. The driver does not access the tensor.
        let status = unsafe {
            sys::cuTensorMapEncodeTiled(
                &mut map,
                data_type as c_uint,
                rank as c_uint,
                std::ptr::without_provenance_mut(address as usize),
                sizes.as_ptr(),
                strides.as_ptr(),
                tile.as_ptr(),
                element_strides.as_ptr(),
                0,
                swizzle as c_uint,
                PROMOTIONS[usize::from(has_whole_lines)],
                0,
            )
        };
        status.ok()?;
        Ok(map)
    }
}
