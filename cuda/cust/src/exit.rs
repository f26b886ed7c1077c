//! Ends the process without the driver's exit handlers.

use std::ffi::c_int;

unsafe extern "C" {
    fn _exit(code: c_int) -> !;
}

/// Ends the process with this code and runs no exit handler. The driver's exit handlers would wait for a kernel that never
/// ends. The operating system frees the GPU's memory and stops the kernel with the process.
///
/// Nothing is flushed, and no destructor runs: first write everything that must be kept.
pub fn exit_at_once(code: u8) -> ! {
    // SAFETY: the C library's function has no precondition, and no Rust value is used afterwards.
    unsafe { _exit(c_int::from(code)) }
}
