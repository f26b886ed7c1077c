//! Printing from kernels.
//!
//! [`print!`](crate::print) and [`println!`](crate::println) format like those of `std`; on the device they format into
//! a `String` on its heap. [`print()`] writes an existing string, and `vprintf`, which only the device has, formats
//! numbers as C does. They need no heap and much less code.

use core::ffi::CStr;
#[cfg(target_arch = "nvptx64")]
use core::ffi::{c_char, c_void};

#[cfg(target_arch = "nvptx64")]
unsafe extern "C" {
    /// C's `vprintf`. The CUDA driver prints when the kernel ends. `format` is a NUL-terminated text, `arguments` a
    /// `repr(C)` struct of the values, where `f32` is widened to `f64` and small integers to 32 bits. Returns the
    /// number of arguments, or a negative number.
    ///
    /// # Safety
    /// The struct has the arguments that the format names.
    pub fn vprintf(format: *const u8, arguments: *const c_void) -> i32;

    /// Ends the launch with `CUDA_ERROR_ASSERT` and writes the NUL-terminated texts to the host's standard error.
    /// `char_size` is the size of a character: 1.
    ///
    /// # Safety
    /// The texts end with a NUL.
    pub fn __assertfail(
        message: *const u8,
        file: *const u8,
        line: u32,
        function: *const u8,
        char_size: usize,
    );
}

/// Writes `text` to the host's standard output. On a CUDA device it appears when the host synchronises.
#[doc(alias = "printf")]
#[inline(always)]
pub fn print(text: &CStr) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the text ends with a NUL.
        unsafe { print_c(text.as_ptr()) };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    std::print!("{}", text.to_string_lossy());
}

/// Writes a text. The format is a constant, so a percent sign in the text does no harm.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
unsafe fn print_c(text: *const c_char) {
    // SAFETY: the format takes one text, to which the arguments point.
    unsafe {
        vprintf(c"%s".as_ptr().cast(), (&raw const text).cast::<c_void>());
    }
}

/// Formats like `std`'s macro, and writes to the host's standard output.
///
/// A text that is not constant is built in a `String` on the device's heap; if the heap is full, the kernel panics. The
/// driver gets the whole text at once, or in parts if it contains a NUL. So texts of different threads do not mix. They
/// appear when the host synchronises. On the host this is `std`'s own macro.
#[cfg(target_arch = "nvptx64")]
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => {
        // Nested, so that a text without arguments stays one constant.
        $crate::io::__print(::core::format_args!("{}\0", ::core::format_args!($($arg)*)))
    };
}

/// [`print!`](crate::print), and a newline.
#[cfg(target_arch = "nvptx64")]
#[macro_export]
macro_rules! println {
    () => {
        $crate::print!("\n")
    };
    ($($arg:tt)*) => {
        $crate::io::__print(::core::format_args!("{}\n\0", ::core::format_args!($($arg)*)))
    };
}

/// Writes a text that ends with a NUL, without the NUL.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
#[inline(always)]
pub fn __print(text: core::fmt::Arguments<'_>) {
    match text.as_str() {
        Some(text) => write(text),
        None => write_formatted(text),
    }
}

#[cfg(target_arch = "nvptx64")]
#[inline(never)]
fn write_formatted(text: core::fmt::Arguments<'_>) {
    write(&alloc::fmt::format(text));
}

/// Writes a text that ends with a NUL, in one call if it contains no other NUL.
#[cfg(target_arch = "nvptx64")]
fn write(text: &str) {
    let mut rest = text.as_bytes();
    while let Some(end) = rest.iter().position(|&byte| byte == 0) {
        // SAFETY: the rest contains a NUL, which ends the text.
        unsafe { print_c(rest.as_ptr().cast()) };
        rest = &rest[end + 1..];
        if !rest.is_empty() {
            let nul = 0_i32;
            // SAFETY: the format takes one character, to which the arguments point.
            unsafe { vprintf(c"%c".as_ptr().cast(), (&raw const nul).cast::<c_void>()) };
        }
    }
}
