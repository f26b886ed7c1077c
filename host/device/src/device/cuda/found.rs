//! The driver's devices, and its results.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_std::launch::{Dim3, Limits};
use cust::CudaFlags;
use cust::device::{Device, DeviceAttribute as Attribute};
use cust::error::{CudaError, CudaResult};

use super::super::arch;
use super::super::error::DeviceError;

/// The variables that make every launch wait for its end, so that a fault belongs to it: ours and the driver's.
const SYNC_VARIABLES: [&str; 2] = ["FERROWARP_SYNC", "CUDA_LAUNCH_BLOCKING"];

/// Whether one of [`SYNC_VARIABLES`] is set.
pub(in super::super) fn waits_for_each_launch() -> Result<bool, DeviceError> {
    let mut waits = false;
    for name in SYNC_VARIABLES {
        match std::env::var_os(name).unwrap_or_default().to_string_lossy() {
            value if value == "1" => waits = true,
            value if value.is_empty() || value == "0" => {}
            value => {
                let expected = "1 to wait for each launch or to 0";
                return Err(DeviceError::Variable { name, value: value.into_owned(), expected });
            }
        }
    }
    Ok(waits)
}

/// A device before its context is created.
pub(in super::super) struct Found {
    pub(super) device: Device,
    pub ordinal: u32,
    /// Its name, and the architecture that `FERROWARP_ARCH` limits it to.
    pub name: String,
    pub major: u32,
    pub minor: u32,
    /// The compute capability whose code it uses: its own, or an older one that `FERROWARP_ARCH` names.
    pub code: (u32, u32),
}

/// Loads and initialises the driver and counts its devices.
///
/// # Errors
/// The driver is missing or does not start. No devices are not an error: the count is 0.
pub(in super::super) fn count_devices() -> Result<u32, DeviceError> {
    cust::load()?;
    match cust::init(CudaFlags::empty()) {
        Err(CudaError::NoDevice) => return Ok(0),
        started => driver(started, || "starting the CUDA driver".to_owned())?,
    }
    driver(Device::num_devices(), || "counting the CUDA devices".to_owned())
}

/// Finds the device with this ordinal.
///
/// # Errors
/// There is no driver or no such device, or it runs no architecture that `FERROWARP_ARCH` names.
pub(in super::super) fn find(ordinal: u32) -> Result<Found, DeviceError> {
    let count = count_devices()?;
    if ordinal >= count {
        return Err(DeviceError::NoDevice { ordinal, count });
    }
    let device = driver(Device::get_device(ordinal), || format!("getting CUDA device {ordinal}"))?;
    let mut name = driver(device.name(), || format!("asking for the name of CUDA device {ordinal}"))?;
    let major = attribute(device, Attribute::ComputeCapabilityMajor)?;
    let minor = attribute(device, Attribute::ComputeCapabilityMinor)?;
    let limited = arch::limit(&name, major, minor)?.filter(|code| *code != (major, minor));
    if let Some((major, minor)) = limited {
        name = format!("{name} as compute_{major}{minor}");
    }
    Ok(Found { device, ordinal, name, major, minor, code: limited.unwrap_or((major, minor)) })
}

pub(super) fn attribute(device: Device, attribute: Attribute) -> Result<u32, DeviceError> {
    let value = driver(device.get_attribute(attribute), || format!("asking for {attribute:?}"))?;
    Ok(u32::try_from(value).unwrap_or(0))
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Converts the driver's result, with `action` in the error.
pub(super) fn driver<T>(result: CudaResult<T>, action: impl FnOnce() -> String) -> Result<T, DeviceError> {
    result.map_err(|status| DeviceError::Driver { action: action(), status })
}

pub(super) fn limits(found: &Found) -> Result<Limits, DeviceError> {
    let get = |which| attribute(found.device, which);
    let (major, minor) = found.code;
    let of_code = Limits::of_gpu(10 * major + minor);
    let mut limits = Limits {
        max_grid: Dim3::new(
            get(Attribute::MaxGridDimX)?,
            get(Attribute::MaxGridDimY)?,
            get(Attribute::MaxGridDimZ)?,
        ),
        max_block: Dim3::new(
            get(Attribute::MaxBlockDimX)?,
            get(Attribute::MaxBlockDimY)?,
            get(Attribute::MaxBlockDimZ)?,
        ),
        max_threads_per_block: get(Attribute::MaxThreadsPerBlock)?,
        max_dynamic_shared_bytes: get(Attribute::MaxSharedMemoryPerBlockOptin)?,
        max_resident_threads: u64::from(get(Attribute::MultiprocessorCount)?)
            * u64::from(get(Attribute::MaxThreadsPerMultiprocessor)?),
        ..of_code
    };
    if found.code != (found.major, found.minor) {
        let own = Limits::of_gpu(10 * found.major + found.minor);
        limits.max_cluster = limits.max_cluster.min(own.max_cluster);
        limits.max_dynamic_shared_bytes =
            limits.max_dynamic_shared_bytes.min(of_code.max_dynamic_shared_bytes);
    }
    Ok(limits)
}

/// The device address in a buffer's pointer.
pub(super) fn address_of(pointer: *mut u8) -> u64 {
    pointer.expose_provenance() as u64
}
