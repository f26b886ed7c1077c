//! Devices and their attributes.

use std::ffi::c_int;

use crate::error::CudaResult;
use crate::sys::{self, CUdevice};

/// Declares the attributes, with upstream's names and the numbers of cuda.h.
macro_rules! attributes {
    ($($name:ident = $number:literal,)*) => {
        /// An attribute of a device; the CUDA driver API's reference explains them under `CUdevice_attribute`.
        #[expect(missing_docs, reason = "the reference explains each of them")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(i32)]
        pub enum DeviceAttribute {
            $($name = $number,)*
        }
    };
}

attributes! {
    MaxThreadsPerBlock = 1, MaxBlockDimX = 2, MaxBlockDimY = 3, MaxBlockDimZ = 4, MaxGridDimX = 5, MaxGridDimY = 6,
    MaxGridDimZ = 7, MaxSharedMemoryPerBlock = 8, TotalConstantMemory = 9, WarpSize = 10, MaxPitch = 11,
    MaxRegistersPerBlock = 12, ClockRate = 13, TextureAlignment = 14, MultiprocessorCount = 16, KernelExecTimeout = 17,
    Integrated = 18, CanMapHostMemory = 19, ComputeMode = 20, ConcurrentKernels = 31, EccEnabled = 32, PciBusId = 33,
    PciDeviceId = 34, TccDriver = 35, MemoryClockRate = 36, GlobalMemoryBusWidth = 37, L2CacheSize = 38,
    MaxThreadsPerMultiprocessor = 39, AsyncEngineCount = 40, UnifiedAddressing = 41, PciDomainId = 50,
    ComputeCapabilityMajor = 75, ComputeCapabilityMinor = 76, StreamPrioritiesSupported = 78,
    GlobalL1CacheSupported = 79, LocalL1CacheSupported = 80, MaxSharedMemoryPerMultiprocessor = 81,
    MaxRegistersPerMultiprocessor = 82, ManagedMemory = 83, MultiGpuBoard = 84, MultiGpuBoardGroupId = 85,
    HostNativeAtomicSupported = 86, SingleToDoublePrecisionPerfRatio = 87, PageableMemoryAccess = 88,
    ConcurrentManagedAccess = 89, ComputePreemptionSupported = 90, CanUseHostPointerForRegisteredMem = 91,
    MaxSharedMemoryPerBlockOptin = 97,
}

/// A device, by the driver's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    raw: CUdevice,
}

impl Device {
    pub(crate) fn from_raw(raw: CUdevice) -> Device {
        Device { raw }
    }

    /// The number of devices.
    pub fn num_devices() -> CudaResult<u32> {
        // SAFETY: the out parameter is valid.
        let count = sys::out(|count| unsafe { sys::cuDeviceGetCount(count) })?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// The device with this ordinal.
    ///
    /// # Errors
    /// There is no such device, or the driver is not initialised.
    pub fn get_device(ordinal: u32) -> CudaResult<Device> {
        let mut raw = 0;
        // An ordinal that does not fit a `c_int` does not exist, and neither does the largest one.
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: the out parameter is valid.
        unsafe { sys::cuDeviceGet(&mut raw, ordinal) }.ok()?;
        Ok(Device { raw })
    }

    /// All devices, in the order of their ordinals.
    pub fn devices() -> CudaResult<impl Iterator<Item = CudaResult<Device>>> {
        Ok((0..Device::num_devices()?).map(Device::get_device))
    }

    /// The size of its memory in bytes.
    pub fn total_memory(self) -> CudaResult<usize> {
        // SAFETY: the out parameter is valid.
        sys::out(|bytes| unsafe { sys::cuDeviceTotalMem_v2(bytes, self.raw) })
    }

    /// Its name.
    pub fn name(self) -> CudaResult<String> {
        let mut name = [0u8; 256];
        // SAFETY: the length is the buffer's.
        unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as c_int, self.raw) }.ok()?;
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// One of its attributes.
    pub fn get_attribute(self, attribute: DeviceAttribute) -> CudaResult<i32> {
        // SAFETY: the out parameter is valid.
        sys::out(|value| unsafe { sys::cuDeviceGetAttribute(value, attribute as c_int, self.raw) })
    }

    /// The driver's handle.
    pub fn as_raw(&self) -> CUdevice {
        self.raw
    }
}
