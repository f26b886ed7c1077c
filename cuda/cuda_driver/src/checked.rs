//! The driver's functions with results that any driver may return.
//!
//! cust declares `CUresult` as an enum of the codes that CUDA 11.4 knew; a newer driver's code in it would be
//! undefined behaviour. The same functions are declared here with [`Status`], which holds every code. Their
//! parameters are proven to be those of cust's declarations when this crate compiles.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;

use cust::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUfunction, CUfunction_attribute, CUjit_option,
    CUmodule, CUstream,
};

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
    /// `CUDA_ERROR_STUB_LIBRARY`: no driver is loaded, or it lacks the function.
    pub const STUB_LIBRARY: Status = Status(crate::fallback::STUB_LIBRARY);
    /// `CUDA_ERROR_NO_DEVICE`.
    pub const NO_DEVICE: Status = Status(100);
    /// `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`: the PTX is newer than the driver.
    pub const UNSUPPORTED_PTX_VERSION: Status = Status(222);
    /// `CUDA_ERROR_NOT_FOUND`: a module has no symbol of that name.
    pub const NOT_FOUND: Status = Status(500);

    /// `Ok` for success, else the status as an error.
    ///
    /// # Errors
    /// The status itself when it is not [`Status::SUCCESS`].
    pub fn ok(self) -> Result<(), Status> {
        if self == Status::SUCCESS { Ok(()) } else { Err(self) }
    }

    /// Whether the code says that a kernel, or the device under it, broke. Such an error sticks to the context:
    /// every later call in it fails (cuda.h: "this leaves the process in an inconsistent state").
    pub fn is_device_fault(self) -> bool {
        // ECC and NVLink errors; contained faults; illegal address to launch failure.
        matches!(self.0, 214 | 220 | 226 | 700 | 702 | 710 | 714..=719)
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

/// Declares functions of the driver and proves that their parameters are those of cust's declarations.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($parameter:ident: $ty:ty),* $(,)?);)*) => {
        unsafe extern "C" {
            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// As the CUDA driver API's reference says of this function.
                pub fn $name($($parameter: $ty),*) -> Status;
            )*
        }

        $(const _: unsafe extern "C" fn($($ty),*) -> cust::sys::CUresult = cust::sys::$name;)*
    };
}

functions! {
    /// Loads the driver's library if that has not happened, and initialises it. `flags` must be 0.
    fn cuInit(flags: c_uint);
    /// The newest CUDA version the driver supports, as 1000 * major + 10 * minor.
    fn cuDriverGetVersion(version: *mut c_int);

    /// How many devices there are.
    fn cuDeviceGetCount(count: *mut c_int);
    /// The handle of the device with this ordinal.
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    /// The device's name, NUL-terminated and cut to `len` bytes.
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
    /// An attribute of the device.
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);

    /// Retains the device's primary context.
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    /// Releases the device's primary context.
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    /// Makes the context the calling thread's.
    fn cuCtxSetCurrent(context: CUcontext);

    /// Creates a stream. Flag 1 is `CU_STREAM_NON_BLOCKING`.
    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    /// Waits for all work of the stream.
    fn cuStreamSynchronize(stream: CUstream);
    /// Destroys a stream.
    fn cuStreamDestroy_v2(stream: CUstream);

    /// Loads a module from NUL-terminated PTX with options of the JIT compiler.
    fn cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        options_len: c_uint,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
    );
    /// Unloads a module.
    fn cuModuleUnload(module: CUmodule);
    /// A kernel of the module.
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    /// A global variable of the module.
    fn cuModuleGetGlobal_v2(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        module: CUmodule,
        name: *const c_char,
    );
    /// An attribute of a kernel.
    fn cuFuncGetAttribute(value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction);
    /// Sets an attribute of a kernel.
    fn cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int);
    /// Launches a kernel.
    fn cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    );

    /// Allocates device memory.
    fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    /// Frees device memory.
    fn cuMemFree_v2(address: CUdeviceptr);
    /// Sets bytes of device memory.
    fn cuMemsetD8Async(address: CUdeviceptr, value: u8, bytes: usize, stream: CUstream);
    /// Copies from host to device.
    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    /// Copies from device to host.
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    /// Allocates page-locked host memory. Flag 2 is `CU_MEMHOSTALLOC_DEVICEMAP`.
    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    /// Frees page-locked host memory.
    fn cuMemFreeHost(pointer: *mut c_void);
    /// The device's address of page-locked host memory. `flags` must be 0.
    fn cuMemHostGetDevicePointer_v2(address: *mut CUdeviceptr, pointer: *mut c_void, flags: c_uint);
}
