//! A device's stream, and the memory in which its kernels record panics.

use std::ffi::c_uint;
use std::path::Path;
use std::ptr;
use std::time::Duration;

use cuda_std::panic_record::PanicRecord;
use cust::error::CudaError;
use cust::module::Module;
use cust::stream::Stream;
use cust::sys;

use super::super::error::DeviceError;
use super::super::panic::{self, DevicePanic};
use super::found::driver;

/// `CU_STREAM_NON_BLOCKING`: no implicit order with the legacy default stream. cust's stream constructor drops this flag,
/// because its copies need that order.
const NON_BLOCKING: c_uint = 1;

/// The global variable with the panic record's address, in modules that can panic.
const PANIC_SLOT: &std::ffi::CStr = c"__ferrowarp_panic_slot";

/// Creates a stream in the current context.
pub(super) fn stream() -> Result<Stream, DeviceError> {
    let mut raw = ptr::null_mut();
    // SAFETY: the out parameter is valid.
    let status = unsafe { sys::cuStreamCreate(&mut raw, NON_BLOCKING) };
    driver(status.ok(), || "creating a stream".to_owned())?;
    // SAFETY: the stream was just created and has no other owner.
    Ok(unsafe { Stream::from_raw(raw) })
}

/// Page-locked memory in which a panicking kernel records the panic. Modules that can panic know its address.
pub(super) struct PanicSlot {
    record: *mut PanicRecord,
    /// Its device address.
    address: Box<u64>,
}

// SAFETY: the record is only read, and only after the device's work has ended.
unsafe impl Send for PanicSlot {}
// SAFETY: as above.
unsafe impl Sync for PanicSlot {}

impl PanicSlot {
    /// Allocates the memory.
    pub fn new() -> Result<Self, DeviceError> {
        /// `CU_MEMHOSTALLOC_DEVICEMAP`.
        const DEVICEMAP: c_uint = 2;
        let mut memory = ptr::null_mut();
        let bytes = size_of::<PanicRecord>();
        // SAFETY: the out parameter is valid and the context current.
        let status = unsafe { sys::cuMemHostAlloc(&mut memory, bytes, DEVICEMAP) };
        driver(status.ok(), || format!("allocating {bytes} bytes of page-locked memory"))?;
        let mut slot = Self { record: memory.cast(), address: Box::new(0) };
        // SAFETY: the memory was allocated with the flag that maps it; the out parameter is valid.
        let status = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut *slot.address, memory, 0) };
        driver(status.ok(), || "asking for the device's address of page-locked memory".to_owned())?;
        Ok(slot)
    }

    /// Writes its device address into a module that has the slot. It uses a stream of its own, because the device's may be
    /// part of a recording.
    pub fn tell(&self, module: &Module, path: &Path) -> Result<(), DeviceError> {
        let action = || format!("telling {} where to write its panics", path.display());
        let (mut global, mut bytes) = (0, 0);
        // SAFETY: the out parameters and the name are valid, the module is loaded.
        let status = unsafe {
            sys::cuModuleGetGlobal_v2(&mut global, &mut bytes, module.as_raw(), PANIC_SLOT.as_ptr())
        };
        if let Err(CudaError::NotFound) = status.ok() {
            return Ok(());
        }
        driver(status.ok(), action)?;
        let stream = stream()?;
        let address = (&raw const *self.address).cast();
        // SAFETY: the global is a pointer, so it has 8 bytes; the synchronisation ends the copy while the address lives.
        let status =
            unsafe { sys::cuMemcpyHtoDAsync_v2(global, address, size_of::<u64>(), stream.as_inner()) };
        driver(status.ok(), action)?;
        driver(stream.synchronize(), action)
    }

    /// The first of these slots with a recorded panic, if any, and the panic. Called after the driver has reported a fault of
    /// the context that they belong to.
    pub fn read_first(slots: &[&PanicSlot]) -> Option<(usize, DevicePanic)> {
        // The driver may report the fault a moment before the last writes through the bus have arrived.
        for _ in 0..20 {
            // SAFETY: the slots own their records, and the faulted context runs no work any more.
            let panics = slots.iter().map(|slot| unsafe { panic::read(slot.record) });
            if let Some(found) = (0..).zip(panics).find_map(|(at, panic)| Some((at, panic?))) {
                return Some(found);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }
}

impl Drop for PanicSlot {
    fn drop(&mut self) {
        // SAFETY: this object owns the memory. If this fails, it stays until the context ends.
        let _ = unsafe { sys::cuMemFreeHost(self.record.cast()) };
    }
}
