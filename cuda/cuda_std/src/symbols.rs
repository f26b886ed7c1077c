//! Functions that the compiler calls by name and that no library on a device defines.
//!
//! Copies and fills are LLVM instructions, which become loops; comparisons of bytes are calls.

use core::ffi::c_int;

/// # Safety
/// Both pointers are valid for reads of `len` bytes.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> c_int {
    for i in 0..len {
        // SAFETY: `i` is below `len`.
        let (a, b) = unsafe { (*a.add(i), *b.add(i)) };
        if a != b {
            return c_int::from(a) - c_int::from(b);
        }
    }
    0
}

/// # Safety
/// Same as for [`memcmp`].
#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, len: usize) -> c_int {
    // SAFETY: the caller guarantees valid pointers.
    unsafe { memcmp(a, b, len) }
}

/// # Safety
/// `text` ends with a NUL.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut len = 0;
    // SAFETY: up to its NUL the text is valid.
    while unsafe { *text.add(len) } != 0 {
        len += 1;
    }
    len
}
