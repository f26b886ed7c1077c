//! Results of the driver, and errors of this crate.

use std::ffi::{CStr, c_char, c_int};
use std::fmt;

use crate::{load, sys};

/// The result of a driver function: any code, including those of newer drivers that have no name in this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
#[must_use]
pub struct CUresult(pub c_int);

/// Why a call failed. The driver's codes are constants with upstream's names, such as [`CudaError::NoDevice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The driver's result.
    #[error("{0}")]
    Driver(CUresult),
    /// More bytes than an address can count.
    #[error(
        "allocating {elements} elements of {element_bytes} bytes failed: the size overflows; allocate less"
    )]
    InvalidMemoryAllocation {
        /// Requested elements.
        elements: usize,
        /// Size of one element in bytes.
        element_bytes: usize,
    },
    /// A copy between memories of different lengths.
    #[error("copying {from} elements to memory of {to} elements failed: the lengths must be equal")]
    DifferentLengths {
        /// Elements of the source.
        from: usize,
        /// Elements of the destination.
        to: usize,
    },
    /// A text with a NUL byte, which would end it early for the driver.
    #[error("{what} has a NUL byte at position {at}, where the driver would end the string; remove the byte")]
    NulByte {
        /// The text.
        what: &'static str,
        /// The offset of the byte.
        at: usize,
    },
    /// A global variable is read as a type of another size.
    #[error(
        "the global variable has {found} bytes, but the requested type has {expected}; use the variable's type"
    )]
    SymbolSize {
        /// Bytes of the variable.
        found: usize,
        /// Bytes of the type.
        expected: usize,
    },
}

impl CudaError {
    /// [`CUresult::FORKED`].
    #[expect(non_upper_case_globals, reason = "the other codes are named so")]
    pub const Forked: CudaError = CudaError::Driver(CUresult::FORKED);
}

/// The result of most functions here.
pub type CudaResult<T> = Result<T, CudaError>;

/// The driver's codes: cuda.h's name, upstream's name, the number.
macro_rules! codes {
    ($($name:ident $upstream:ident = $number:literal;)*) => {
        #[expect(missing_docs, reason = "the CUDA driver API's reference explains each of them")]
        impl CUresult {
            $(pub const $name: CUresult = CUresult($number);)*
        }

        #[expect(non_upper_case_globals, reason = "upstream's are variants of an enum")]
        impl CudaError {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                pub const $upstream: CudaError = CudaError::Driver(CUresult::$name);
            )*
        }
    };
}

codes! {
    CUDA_ERROR_INVALID_VALUE InvalidValue = 1;
    CUDA_ERROR_OUT_OF_MEMORY OutOfMemory = 2;
    CUDA_ERROR_NOT_INITIALIZED NotInitialized = 3;
    CUDA_ERROR_DEINITIALIZED Deinitialized = 4;
    CUDA_ERROR_STUB_LIBRARY StubLibrary = 34;
    CUDA_ERROR_DEVICE_UNAVAILABLE DeviceUnavailable = 46;
    CUDA_ERROR_NO_DEVICE NoDevice = 100;
    CUDA_ERROR_INVALID_DEVICE InvalidDevice = 101;
    CUDA_ERROR_INVALID_IMAGE InvalidImage = 200;
    CUDA_ERROR_INVALID_CONTEXT InvalidContext = 201;
    CUDA_ERROR_NO_BINARY_FOR_GPU NoBinaryForGpu = 209;
    CUDA_ERROR_ECC_UNCORRECTABLE EccUncorrectable = 214;
    CUDA_ERROR_UNSUPPORTED_LIMIT UnsupportedLimit = 215;
    CUDA_ERROR_INVALID_PTX InvalidPtx = 218;
    CUDA_ERROR_NVLINK_UNCORRECTABLE NvlinkUncorrectable = 220;
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION UnsupportedPtxVersion = 222;
    CUDA_ERROR_CONTAINED Contained = 226;
    CUDA_ERROR_INVALID_SOURCE InvalidSource = 300;
    CUDA_ERROR_FILE_NOT_FOUND FileNotFound = 301;
    CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND SharedObjectSymbolNotFound = 302;
    CUDA_ERROR_SHARED_OBJECT_INIT_FAILED SharedObjectInitFailed = 303;
    CUDA_ERROR_OPERATING_SYSTEM OperatingSystemError = 304;
    CUDA_ERROR_INVALID_HANDLE InvalidHandle = 400;
    CUDA_ERROR_NOT_FOUND NotFound = 500;
    CUDA_ERROR_NOT_READY NotReady = 600;
    CUDA_ERROR_ILLEGAL_ADDRESS IllegalAddress = 700;
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES LaunchOutOfResources = 701;
    CUDA_ERROR_LAUNCH_TIMEOUT LaunchTimeout = 702;
    CUDA_ERROR_CONTEXT_IS_DESTROYED ContextIsDestroyed = 709;
    CUDA_ERROR_ASSERT AssertError = 710;
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED HostMemoryAlreadyRegistered = 712;
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED HostMemoryNotRegistered = 713;
    CUDA_ERROR_HARDWARE_STACK_ERROR HardwareStackError = 714;
    CUDA_ERROR_ILLEGAL_INSTRUCTION IllegalInstruction = 715;
    CUDA_ERROR_MISALIGNED_ADDRESS MisalignedAddress = 716;
    CUDA_ERROR_INVALID_ADDRESS_SPACE InvalidAddressSpace = 717;
    CUDA_ERROR_INVALID_PC InvalidProgramCounter = 718;
    CUDA_ERROR_LAUNCH_FAILED LaunchFailed = 719;
    CUDA_ERROR_NOT_PERMITTED NotPermitted = 800;
    CUDA_ERROR_NOT_SUPPORTED NotSupported = 801;
    CUDA_ERROR_MPS_CLIENT_TERMINATED MpsClientTerminated = 810;
    CUDA_ERROR_EXTERNAL_DEVICE ExternalDevice = 911;
    CUDA_ERROR_UNKNOWN UnknownError = 999;
}

impl CUresult {
    /// The call succeeded.
    pub const CUDA_SUCCESS: CUresult = CUresult(0);

    /// The driver was started before this process was forked, so it was not called. Not a code of the driver.
    pub const FORKED: CUresult = CUresult(-1);

    /// `Ok` for success, or the code as an error.
    ///
    /// # Errors
    /// [`CudaError::Driver`] with the code if it is not [`CUresult::CUDA_SUCCESS`].
    pub fn ok(self) -> CudaResult<()> {
        if self == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(CudaError::Driver(self)) }
    }

    /// The code's name in cuda.h, if the driver knows it.
    pub fn name(self) -> Option<String> {
        // SAFETY: the out parameter is valid for the call.
        text_of(|text| unsafe { sys::cuGetErrorName(self, text) })
    }

    /// The driver's description of the code, if it knows it.
    pub fn description(self) -> Option<String> {
        // SAFETY: the out parameter is valid for the call.
        text_of(|text| unsafe { sys::cuGetErrorString(self, text) })
    }
}

impl fmt::Display for CUresult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::CUDA_ERROR_STUB_LIBRARY {
            return match load() {
                Err(error) => {
                    write!(f, "CUDA_ERROR_STUB_LIBRARY (34): no CUDA driver library is loaded: {error}")
                }
                Ok(driver) => write!(
                    f,
                    "CUDA_ERROR_STUB_LIBRARY (34): {} lacks the function; update the NVIDIA driver",
                    driver.library().display()
                ),
            };
        }
        if *self == CUresult::FORKED {
            return f.write_str(
                "the CUDA driver was started before this process was forked, and it works only in the process that started \
                 it; start it after the fork, or start another program instead",
            );
        }
        let name = self.name().unwrap_or_else(|| "an unknown CUDA error".to_owned());
        write!(f, "{name} ({})", self.0)?;
        match self.description() {
            Some(description) => write!(f, ": {description}"),
            None => Ok(()),
        }
    }
}

fn text_of(get: impl FnOnce(*mut *const c_char) -> CUresult) -> Option<String> {
    let mut text: *const c_char = std::ptr::null();
    if get(&mut text) != CUresult::CUDA_SUCCESS || text.is_null() {
        return None;
    }
    // SAFETY: on success the driver returns a NUL-terminated string that lives as long as the driver.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
