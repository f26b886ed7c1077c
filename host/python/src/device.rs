//! The devices, each opened once in a process, and what Python asks about them.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::{Mutex, OnceLock, PoisonError};

use cuda_std::launch::Limits;
use cuda_std::simt::Executor;
use cust::CudaApiVersion;
use cust::context::CurrentContext;
use ferrowarp::device::{Device, DeviceError, PtxTarget, Stream, cpu_archs};
use pyo3::prelude::*;

use crate::failure::Failure;
use crate::operand::Place;

/// The most GPUs.
const MOST: usize = 64;

static GPUS: [OnceLock<Device>; MOST] = [const { OnceLock::new() }; MOST];

/// Whether the place is a GPU that is open and current in this thread.
pub fn is_current(place: Place) -> bool {
    let Place::Cuda(index) = place else { return false };
    let open = usize::try_from(index).ok().and_then(|index| GPUS.get(index)?.get());
    open.is_some_and(|gpu| gpu.raw_context() == CurrentContext::as_raw().ok())
}

/// The device at a place.
pub fn device(place: Place) -> Result<&'static Device, Failure> {
    static CPU: OnceLock<Device> = OnceLock::new();
    static OPENING: Mutex<()> = Mutex::new(());
    let Place::Cuda(index) = place else {
        return match CPU.get() {
            Some(cpu) => Ok(cpu),
            None => cpu().map(|cpu| CPU.get_or_init(|| cpu)).map_err(of_device),
        };
    };
    let gpu = usize::try_from(index).ok().and_then(|index| GPUS.get(index));
    let gpu = gpu
        .ok_or_else(|| Failure::of_value(format!("there is no GPU {index}; at most {MOST} are supported")))?;
    if let Some(open) = gpu.get() {
        return Ok(open);
    }
    let _opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if gpu.get().is_none() {
        let open = Device::cuda(index as u32).map_err(of_device)?;
        let _ = gpu.set(open);
    }
    Ok(gpu.get().expect("it was just opened"))
}

/// The CPU, with the kernels that a GPU of the newest architecture in `FERROWARP_ARCH` gets.
fn cpu() -> Result<Device, DeviceError> {
    let limited = |arch: PtxTarget| Executor::new().with_limits(Limits::of_gpu(arch.architecture));
    Ok(cpu_archs()?.pop().map_or_else(Device::cpu, |arch| Device::cpu_with(limited(arch))))
}

fn of_device(error: DeviceError) -> Failure {
    Failure::other(error.to_string())
}

/// Calls `work` with another library's stream of the device; null is the default stream. The CPU ignores it.
///
/// # Safety
/// `raw` is null or a stream of the primary context of the GPU that lives until the process ends.
pub unsafe fn with_stream<R>(
    place: Place,
    raw: *mut c_void,
    work: impl FnOnce(&Stream) -> Result<R, Failure>,
) -> Result<R, Failure> {
    thread_local! {
        /// The stream of the last call.
        static LAST: RefCell<Option<(Place, *mut c_void, Stream)>> = const { RefCell::new(None) };
    }
    let known = LAST.take().filter(|(of, known, _)| (*of, *known) == (place, raw));
    let last = match known {
        Some(known) => known,
        // SAFETY: the caller's contract. PyTorch orders the work.
        None => (place, raw, unsafe { Stream::borrow_raw(device(place)?, raw.cast()) }.map_err(of_device)?),
    };
    let result = work(&last.2);
    LAST.set(Some(last));
    result
}

/// The name of each GPU, its compute capability times 10 and its multiprocessors. If one cannot be opened, the last entry is the
/// reason, with zeros. The first call opens them.
pub fn devices(py: Python<'_>) -> Vec<(String, u32, usize)> {
    py.detach(|| {
        let mut all = Vec::new();
        for index in 0..MOST as i32 {
            match device(Place::Cuda(index)) {
                Ok(it) => all.push((it.name(), it.limits().capability, it.multiprocessors())),
                Err(failure) => {
                    if index == 0 {
                        all.push((failure.text().to_owned(), 0, 0));
                    }
                    break;
                }
            }
        }
        all
    })
}

/// The newest CUDA version that the driver supports, or why there is no driver.
pub fn driver() -> String {
    match CudaApiVersion::get() {
        Ok(version) => format!("{}.{}", version.major(), version.minor()),
        Err(error) => error.to_string(),
    }
}
