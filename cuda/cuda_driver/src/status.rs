//! The driver's answers, by cuda.h of CUDA 13.0.

use std::ffi::{CStr, c_char, c_int};
use std::fmt;

/// What a function of the driver answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
#[must_use]
pub struct Status(pub c_int);

impl Status {
    /// `CUDA_SUCCESS`.
    pub const SUCCESS: Status = Status(0);
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    pub const OUT_OF_MEMORY: Status = Status(2);
    /// `CUDA_ERROR_NOT_INITIALIZED`.
    pub const NOT_INITIALIZED: Status = Status(3);
    /// `CUDA_ERROR_DEINITIALIZED`: the driver is shutting down.
    pub const DEINITIALIZED: Status = Status(4);
    /// `CUDA_ERROR_STUB_LIBRARY`: no driver is loaded, or it lacks the function.
    pub const STUB_LIBRARY: Status = Status(crate::fallback::STUB_LIBRARY);
    /// `CUDA_ERROR_DEVICE_UNAVAILABLE`.
    pub const DEVICE_UNAVAILABLE: Status = Status(46);
    /// `CUDA_ERROR_NO_DEVICE`.
    pub const NO_DEVICE: Status = Status(100);
    /// `CUDA_ERROR_INVALID_DEVICE`.
    pub const INVALID_DEVICE: Status = Status(101);
    /// `CUDA_ERROR_INVALID_CONTEXT`.
    pub const INVALID_CONTEXT: Status = Status(201);
    /// `CUDA_ERROR_ECC_UNCORRECTABLE`: the GPU's memory lost a bit that its check could not restore.
    pub const ECC_UNCORRECTABLE: Status = Status(214);
    /// `CUDA_ERROR_NVLINK_UNCORRECTABLE`.
    pub const NVLINK_UNCORRECTABLE: Status = Status(220);
    /// `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`: the PTX is newer than the driver.
    pub const UNSUPPORTED_PTX_VERSION: Status = Status(222);
    /// `CUDA_ERROR_CONTAINED`: a fault of the hardware that the GPU kept to the process.
    pub const CONTAINED: Status = Status(226);
    /// `CUDA_ERROR_NOT_FOUND`: a module has no symbol of that name.
    pub const NOT_FOUND: Status = Status(500);
    /// `CUDA_ERROR_NOT_READY`: the work asked about has not ended. No error.
    pub const NOT_READY: Status = Status(600);
    /// `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub const ILLEGAL_ADDRESS: Status = Status(700);
    /// `CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES`: too many threads for the kernel's registers, and the like. The context
    /// stays whole.
    pub const LAUNCH_OUT_OF_RESOURCES: Status = Status(701);
    /// `CUDA_ERROR_LAUNCH_TIMEOUT`: the driver's own watchdog, of a GPU that drives a screen.
    pub const LAUNCH_TIMEOUT: Status = Status(702);
    /// `CUDA_ERROR_CONTEXT_IS_DESTROYED`.
    pub const CONTEXT_IS_DESTROYED: Status = Status(709);
    /// `CUDA_ERROR_ASSERT`.
    pub const ASSERT: Status = Status(710);
    /// `CUDA_ERROR_HARDWARE_STACK_ERROR`.
    pub const HARDWARE_STACK_ERROR: Status = Status(714);
    /// `CUDA_ERROR_ILLEGAL_INSTRUCTION`.
    pub const ILLEGAL_INSTRUCTION: Status = Status(715);
    /// `CUDA_ERROR_MISALIGNED_ADDRESS`.
    pub const MISALIGNED_ADDRESS: Status = Status(716);
    /// `CUDA_ERROR_INVALID_ADDRESS_SPACE`.
    pub const INVALID_ADDRESS_SPACE: Status = Status(717);
    /// `CUDA_ERROR_INVALID_PC`.
    pub const INVALID_PC: Status = Status(718);
    /// `CUDA_ERROR_LAUNCH_FAILED`: an exception without a code of its own, a trap among them.
    pub const LAUNCH_FAILED: Status = Status(719);
    /// `CUDA_ERROR_TENSOR_MEMORY_LEAK`.
    pub const TENSOR_MEMORY_LEAK: Status = Status(721);
    /// `CUDA_ERROR_MPS_CLIENT_TERMINATED`.
    pub const MPS_CLIENT_TERMINATED: Status = Status(810);
    /// `CUDA_ERROR_EXTERNAL_DEVICE`.
    pub const EXTERNAL_DEVICE: Status = Status(911);
    /// `CUDA_ERROR_UNKNOWN`: the driver's answer when the GPU no longer answers it.
    pub const UNKNOWN: Status = Status(999);

    /// `Ok` for success, else the status as an error.
    ///
    /// # Errors
    /// The status itself when it is not [`Status::SUCCESS`].
    pub fn ok(self) -> Result<(), Status> {
        if self == Status::SUCCESS { Ok(()) } else { Err(self) }
    }

    /// The code's name in cuda.h, if the driver knows it.
    pub fn name(self) -> Option<String> {
        // SAFETY: the out parameter is valid for the call.
        text_of(|text| unsafe { cuGetErrorName(self.0, text) })
    }

    /// The driver's description of the code, if it knows it.
    pub fn description(self) -> Option<String> {
        // SAFETY: the out parameter is valid for the call.
        text_of(|text| unsafe { cuGetErrorString(self.0, text) })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name().unwrap_or_else(|| "an unknown CUDA error".to_owned());
        write!(f, "{name} ({})", self.0)?;
        match self.description() {
            Some(description) => write!(f, ": {description}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Status {}

fn text_of(get: impl FnOnce(*mut *const c_char) -> Status) -> Option<String> {
    let mut text: *const c_char = std::ptr::null();
    if get(&mut text) != Status::SUCCESS || text.is_null() {
        return None;
    }
    // SAFETY: on success the driver gives a NUL-terminated string that lives as long as the driver does.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

// The code is cust's enum in its declarations of these two, and any integer here.
unsafe extern "C" {
    fn cuGetErrorName(code: c_int, text: *mut *const c_char) -> Status;
    fn cuGetErrorString(code: c_int, text: *mut *const c_char) -> Status;
}

#[cfg(test)]
mod tests {
    use cust::sys::CUresult;

    use super::*;

    /// The codes that cust's enum has, under their names.
    macro_rules! same {
        ($($here:ident = $there:ident),* $(,)?) => {
            $(assert_eq!(Status::$here.0, CUresult::$there as c_int, stringify!($here));)*
        };
    }

    #[test]
    fn the_numbers_are_those_of_the_header() {
        same! {
            SUCCESS = CUDA_SUCCESS,
            OUT_OF_MEMORY = CUDA_ERROR_OUT_OF_MEMORY,
            NOT_INITIALIZED = CUDA_ERROR_NOT_INITIALIZED,
            DEINITIALIZED = CUDA_ERROR_DEINITIALIZED,
            STUB_LIBRARY = CUDA_ERROR_STUB_LIBRARY,
            NO_DEVICE = CUDA_ERROR_NO_DEVICE,
            INVALID_DEVICE = CUDA_ERROR_INVALID_DEVICE,
            INVALID_CONTEXT = CUDA_ERROR_INVALID_CONTEXT,
            ECC_UNCORRECTABLE = CUDA_ERROR_ECC_UNCORRECTABLE,
            NVLINK_UNCORRECTABLE = CUDA_ERROR_NVLINK_UNCORRECTABLE,
            UNSUPPORTED_PTX_VERSION = CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
            NOT_FOUND = CUDA_ERROR_NOT_FOUND,
            NOT_READY = CUDA_ERROR_NOT_READY,
            ILLEGAL_ADDRESS = CUDA_ERROR_ILLEGAL_ADDRESS,
            LAUNCH_OUT_OF_RESOURCES = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
            LAUNCH_TIMEOUT = CUDA_ERROR_LAUNCH_TIMEOUT,
            CONTEXT_IS_DESTROYED = CUDA_ERROR_CONTEXT_IS_DESTROYED,
            ASSERT = CUDA_ERROR_ASSERT,
            HARDWARE_STACK_ERROR = CUDA_ERROR_HARDWARE_STACK_ERROR,
            ILLEGAL_INSTRUCTION = CUDA_ERROR_ILLEGAL_INSTRUCTION,
            MISALIGNED_ADDRESS = CUDA_ERROR_MISALIGNED_ADDRESS,
            INVALID_ADDRESS_SPACE = CUDA_ERROR_INVALID_ADDRESS_SPACE,
            INVALID_PC = CUDA_ERROR_INVALID_PC,
            LAUNCH_FAILED = CUDA_ERROR_LAUNCH_FAILED,
            EXTERNAL_DEVICE = CUDA_ERROR_EXTERNAL_DEVICE,
            UNKNOWN = CUDA_ERROR_UNKNOWN,
        }
    }
}
