//! Memory that the host and a GPU share.
//!
//! The source is the CUDA driver API's reference, sections "Memory Management" and "Unified Addressing".

use std::ffi::{c_int, c_uint};
use std::ptr::NonNull;

use cust::device::{Device, DeviceAttribute as Attribute};
use cust::error::{CudaError, CudaResult};
use cust::sys::{self, CUmemLocation};

use super::super::allocation_error::RawAllocError;
use super::super::error::DeviceError;
use super::super::placement::{Advice, FreeMemory, Place};
use super::found::address_of;
use super::gpu::CudaDevice;
use super::lane::Lane;
use super::memory::pointer_to;

impl CudaDevice {
    /// Allocates `bytes` uninitialised bytes, at least one, that host and device share.
    pub fn alloc_unified(&self, bytes: usize) -> Result<NonNull<u8>, RawAllocError> {
        /// `CU_MEM_ATTACH_GLOBAL`: for all streams.
        const GLOBAL: c_uint = 1;
        const ACTION: &str = "allocating unified memory";
        self.enter()?;
        self.drain_if_limited()?;
        self.check_sharing(ACTION)?;
        // The driver would keep moving pages back and forth if there were more than fits.
        let memory @ FreeMemory { free, .. } = self.memory()?;
        if bytes > free {
            let reason = "all of it must have room on the device".to_owned();
            return Err(RawAllocError::Full { reason, memory: Some(memory) });
        }
        let mut address = 0;
        // SAFETY: the out parameter is valid and the context current.
        match unsafe { sys::cuMemAllocManaged(&mut address, bytes, GLOBAL) }.ok() {
            Err(error @ CudaError::OutOfMemory) => {
                return Err(RawAllocError::Full { reason: error.to_string(), memory: Some(memory) });
            }
            allocated => self.check_shared(allocated, ACTION)?,
        }
        pointer_to(std::ptr::with_exposed_provenance_mut(address as usize))
    }

    /// Fails if the host must not touch such memory while a kernel runs.
    fn check_sharing(&self, action: &'static str) -> Result<(), DeviceError> {
        let ordinal = self.ordinal;
        let device = self.check(Device::get_device(ordinal), || format!("getting CUDA device {ordinal}"))?;
        let needed = [
            (Attribute::ManagedMemory, "the driver has none for this device"),
            (
                Attribute::ConcurrentManagedAccess,
                "host and device cannot use it at the same time (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0)",
            ),
        ];
        for (attribute, reason) in needed {
            let value = match device.get_attribute(attribute) {
                // The driver is too old to know it.
                Err(CudaError::InvalidValue | CudaError::NotSupported) => 0,
                value => self.check(value, || format!("asking for {attribute:?}"))?,
            };
            if value == 0 {
                let (device, reason) = (self.name.clone(), reason.to_owned());
                return Err(DeviceError::NoUnifiedMemory { action, device, reason });
            }
        }
        Ok(())
    }

    /// Queues a move of the bytes to a place.
    ///
    /// # Safety
    /// The bytes are part of an allocation of [`Self::alloc_unified`].
    pub unsafe fn prefetch(
        &self,
        lane: &Lane,
        at: *mut u8,
        bytes: usize,
        to: Place,
    ) -> Result<(), DeviceError> {
        self.enter()?;
        let (location, stream) = (self.location(to), self.stream_of(lane).as_inner());
        // SAFETY: the caller's memory; the context is current.
        let status = unsafe { sys::cuMemPrefetchAsync_v2(address_of(at), bytes, location, 0, stream) };
        self.check_shared(status.ok(), "prefetching unified memory")
    }

    /// Tells the driver how the bytes will be used.
    ///
    /// # Safety
    /// The bytes are part of an allocation of [`Self::alloc_unified`].
    pub unsafe fn advise(&self, at: *mut u8, bytes: usize, advice: Advice) -> Result<(), DeviceError> {
        self.enter()?;
        let (number, place) = match advice {
            // The driver ignores the place.
            Advice::ReadMostly => (1, Place::Device),
            Advice::PreferredPlace(place) => (3, place),
            Advice::AccessedBy(place) => (5, place),
        };
        // SAFETY: the caller's memory; the context is current.
        let status = unsafe { sys::cuMemAdvise_v2(address_of(at), bytes, number, self.location(place)) };
        self.check_shared(status.ok(), "advising of unified memory")
    }

    fn location(&self, place: Place) -> CUmemLocation {
        match place {
            Place::Host => CUmemLocation::host(),
            Place::Device => CUmemLocation::device(c_int::try_from(self.ordinal).unwrap_or(c_int::MAX)),
        }
    }

    /// Converts the driver's result. A missing function or an unsupported operation is not a fault of the device.
    fn check_shared(&self, result: CudaResult<()>, action: &'static str) -> Result<(), DeviceError> {
        match result {
            Err(status @ (CudaError::StubLibrary | CudaError::NotSupported)) => {
                Err(DeviceError::NoUnifiedMemory {
                    action,
                    device: self.name.clone(),
                    reason: status.to_string(),
                })
            }
            result => self.check(result, || format!("{action} on {}", self.name)),
        }
    }
}
