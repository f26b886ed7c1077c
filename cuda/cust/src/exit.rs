//! Leaving the process without the driver's farewell.

use std::ffi::c_int;

unsafe extern "C" {
    fn _exit(code: c_int) -> !;
}

/// Ends the process with this code and runs no exit handler, among which are the driver's: those wait for a kernel that
/// never ends. The operating system takes the GPU's memory and the kernel away with the process.
///
/// Nothing is flushed, and no destructor runs: write out what must be kept before.
pub fn exit_at_once(code: u8) -> ! {
    // SAFETY: the C library's function has no precondition, and no Rust value is used afterwards.
    unsafe { _exit(c_int::from(code)) }
}
