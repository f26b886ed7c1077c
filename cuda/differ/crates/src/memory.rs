//! What the compiler calls to compare memory, which the device has no library for.

use core::ffi::{c_int, c_void};

/// C's `memcmp`.
///
/// # Safety
/// `bytes` bytes can be read at both addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcmp(a: *const c_void, b: *const c_void, bytes: usize) -> c_int {
    for i in 0..bytes {
        // SAFETY: within the bytes that the caller names.
        let (a, b) = unsafe { (*a.cast::<u8>().add(i), *b.cast::<u8>().add(i)) };
        if a != b {
            return c_int::from(a) - c_int::from(b);
        }
    }
    0
}
