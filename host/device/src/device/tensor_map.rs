//! Tensor maps for device buffers.

use cuda_std::launch::{PtrArg, PtrMutArg, Residence};
use cuda_std::tensor::{ElementType, Swizzle, TensorElement, TensorMap, TensorMapError, TensorMapSpec};
use cust::tensor::{TensorDataType, TensorMapParameters, TensorSwizzle};

use super::error::DeviceError;
use super::handle::{Backend, Device};
use super::owners;

impl Device {
    /// Makes the map of a tensor in `buffer` that kernels read. Kernels take it by value as a [`TensorMap`]. Keep the buffer
    /// alive and unchanged as long as a kernel uses the map. Streams don't track accesses through maps, so work on several
    /// streams needs events.
    ///
    /// ```
    /// use cuda_std::tensor::{Swizzle, TensorMapSpec};
    /// use ferrowarp::device::{Device, DeviceError};
    ///
    /// let device = Device::cpu();
    /// let matrix = device.alloc_zeroed::<f32>(128 * 96)?;
    /// // 96 rows of 128 columns, in tiles of 64 rows and 32 columns, which are 128 bytes.
    /// let spec = TensorMapSpec::new::<f32>([128, 96], [32, 64]).with_swizzle(Swizzle::Bytes128);
    /// let map = device.tensor_map(&matrix, &spec)?;
    ///
    /// let too_long = TensorMapSpec::new::<f32>([128, 97], [32, 64]);
    /// assert!(device.tensor_map(&matrix, &too_long).is_err());
    /// # Ok::<(), DeviceError>(())
    /// ```
    ///
    /// # Errors
    /// The description breaks a rule of tensor maps or does not fit the buffer, the buffer is on another device, or the driver
    /// refuses the map.
    pub fn tensor_map<T: TensorElement, const RANK: usize>(
        &self,
        buffer: impl PtrArg<T>,
        spec: &TensorMapSpec<RANK>,
    ) -> Result<TensorMap, DeviceError> {
        let (residence, bytes) = (buffer.residence(), buffer.byte_len());
        self.map_memory(buffer.as_raw_ptr().cast_mut(), bytes, residence, spec)
    }

    /// Same as [`tensor_map`](Self::tensor_map), for a tensor that kernels write. Keep the buffer alive, and do not access
    /// it otherwise, as long as a kernel uses the map.
    ///
    /// ```
    /// use cuda_std::tensor::TensorMapSpec;
    /// use ferrowarp::device::{Device, DeviceError};
    ///
    /// let device = Device::cpu();
    /// let mut rows = device.alloc_zeroed::<u8>(256)?;
    /// let map = device.tensor_map_mut(&mut rows, &TensorMapSpec::new::<u8>([64, 4], [64, 4]))?;
    /// # Ok::<(), DeviceError>(())
    /// ```
    ///
    /// # Errors
    /// Same as for [`tensor_map`](Self::tensor_map).
    pub fn tensor_map_mut<T: TensorElement, const RANK: usize>(
        &self,
        mut buffer: impl PtrMutArg<T>,
        spec: &TensorMapSpec<RANK>,
    ) -> Result<TensorMap, DeviceError> {
        let (residence, bytes) = (buffer.residence(), buffer.byte_len());
        self.map_memory(buffer.as_raw_mut_ptr(), bytes, residence, spec)
    }

    fn map_memory<T: TensorElement, const RANK: usize>(
        &self,
        pointer: *mut T,
        bytes: Option<usize>,
        residence: Residence,
        spec: &TensorMapSpec<RANK>,
    ) -> Result<TensorMap, DeviceError> {
        let is_elsewhere = residence != self.residence() || owners::is_of_another(self.id(), pointer.addr());
        if residence != Residence::Unchecked && is_elsewhere {
            return Err(DeviceError::TensorMapElsewhere { device: self.name(), buffer: residence });
        }
        let refused = |reason| DeviceError::TensorMap { device: self.name(), reason };
        if T::TYPE != spec.element.in_memory() {
            return Err(refused(TensorMapError::Element { spec: spec.element, buffer: T::TYPE }));
        }
        let bytes = bytes.map_or(u64::MAX, |bytes| bytes as u64);
        match &self.inner.backend {
            Backend::Cpu(_) => spec.encode_raw(pointer.cast(), bytes).map_err(refused),
            Backend::Cuda(cuda) => {
                spec.check(pointer.addr(), bytes).map_err(refused)?;
                cuda.recheck(self.encode_for_gpu(pointer.addr() as u64, spec))
            }
        }
    }

    /// Lets the driver encode a checked description.
    fn encode_for_gpu<const RANK: usize>(
        &self,
        address: u64,
        spec: &TensorMapSpec<RANK>,
    ) -> Result<TensorMap, DeviceError> {
        let strides: [u64; RANK] = std::array::from_fn(|dimension| spec.stride_bytes(dimension));
        let parameters = TensorMapParameters {
            data_type: data_type(spec.element),
            address,
            sizes: &spec.sizes,
            strides: &strides[1..],
            tile: &spec.tile,
            swizzle: match spec.swizzle {
                Swizzle::None => TensorSwizzle::None,
                Swizzle::Bytes32 => TensorSwizzle::Bytes32,
                Swizzle::Bytes64 => TensorSwizzle::Bytes64,
                Swizzle::Bytes128 => TensorSwizzle::Bytes128,
            },
        };
        let encoded = parameters.encode().map_err(|status| DeviceError::Driver {
            action: format!("encoding {spec:?} on {}", self.name()),
            status,
        })?;
        Ok(TensorMap::from_words(encoded.words))
    }
}

/// The driver's name for a type.
fn data_type(element: ElementType) -> TensorDataType {
    match element {
        ElementType::U8 => TensorDataType::U8,
        ElementType::U16 => TensorDataType::U16,
        ElementType::U32 => TensorDataType::U32,
        ElementType::I32 => TensorDataType::I32,
        ElementType::U64 => TensorDataType::U64,
        ElementType::I64 => TensorDataType::I64,
        ElementType::F16 => TensorDataType::F16,
        ElementType::F32 => TensorDataType::F32,
        ElementType::F64 => TensorDataType::F64,
        ElementType::Bf16 => TensorDataType::Bf16,
        ElementType::Tf32 => TensorDataType::Tf32,
    }
}
