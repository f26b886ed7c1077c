//! What the compiler calls to compare memory and to allocate, which the device has no library for.

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

/// A heap without room: crates that could allocate are compared where they do not.
#[cfg(feature = "lz4_flex")]
mod heap {
    use core::alloc::{GlobalAlloc, Layout};

    struct Full;

    #[global_allocator]
    static HEAP: Full = Full;

    // SAFETY: it gives nothing out.
    unsafe impl GlobalAlloc for Full {
        unsafe fn alloc(&self, _: Layout) -> *mut u8 {
            core::ptr::null_mut()
        }

        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
    }
}
