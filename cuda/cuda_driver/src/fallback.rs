//! What the symbols answer while no driver is loaded.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::atomic::Ordering;

use crate::symbols;

/// `CUDA_SUCCESS`.
const SUCCESS: c_int = 0;
/// `CUDA_ERROR_STUB_LIBRARY`: the code of a driver library that is there only to link against.
pub(crate) const STUB_LIBRARY: c_int = 34;

/// Answers for every function of a driver that is not there.
pub(crate) extern "C" fn stub() -> c_int {
    STUB_LIBRARY
}

/// `cuInit` before anything is loaded: loads the driver and passes the call on.
pub(crate) extern "C" fn load_and_init(flags: c_uint) -> c_int {
    if crate::load().is_err() {
        return STUB_LIBRARY;
    }
    let init = symbols::init_slot().load(Ordering::Acquire);
    // SAFETY: `load` succeeded, so the slot holds the driver's cuInit, whose C signature this is.
    let init: unsafe extern "C" fn(c_uint) -> c_int = unsafe { std::mem::transmute(init) };
    // SAFETY: cuInit may be called at any time, with any flags; a wrong flag is an error code.
    unsafe { init(flags) }
}

/// `cuGetErrorName` without a driver. cust formats its errors through it and panics when it fails.
///
/// # Safety
/// `text` is null or valid for a write.
pub(crate) unsafe extern "C" fn error_name(_code: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: the caller's contract is the callee's.
    unsafe { answer(c"CUDA_ERROR_STUB_LIBRARY".as_ptr(), text) }
}

/// `cuGetErrorString` without a driver.
///
/// # Safety
/// `text` is null or valid for a write.
pub(crate) unsafe extern "C" fn error_string(_code: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: the caller's contract is the callee's.
    unsafe { answer(c"no CUDA driver library is loaded".as_ptr(), text) }
}

/// # Safety
/// `to` is null or valid for a write.
unsafe fn answer(text: *const c_char, to: *mut *const c_char) -> c_int {
    if !to.is_null() {
        // SAFETY: not null, so valid for a write by the caller's contract.
        unsafe { to.write(text) };
    }
    SUCCESS
}
