//! Text from kernels, and assertions.
//!
//! There is no `println!`: formatting needs `core::fmt`, whose tables of functions and buffers have no place
//! in a kernel. [`print()`] writes a text; on the device `vprintf` writes numbers in C's way.

use core::ffi::CStr;
#[cfg(target_arch = "nvptx64")]
use core::ffi::c_void;

#[cfg(target_arch = "nvptx64")]
unsafe extern "C" {
    /// C's `vprintf`, which the CUDA driver answers when the kernel ends: `format` is a NUL-terminated text,
    /// `arguments` a `repr(C)` struct of the values, where `f32` is widened to `f64` and small integers to 32
    /// bits. Returns the number of arguments, or a negative number.
    pub fn vprintf(format: *const u8, arguments: *const c_void) -> i32;
}

/// Writes `text` to the host's standard output. On a CUDA device it appears when the host synchronises.
#[doc(alias = "printf")]
#[inline(always)]
pub fn print(text: &CStr) {
    #[cfg(target_arch = "nvptx64")]
    {
        let arguments = text.as_ptr();
        // SAFETY: the format takes one text, to which the arguments point. A constant format cannot be broken
        // by a percent sign in the text.
        unsafe {
            vprintf(c"%s".as_ptr().cast(), (&raw const arguments).cast::<c_void>());
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    std::print!("{}", text.to_string_lossy());
}

/// `assert_eq!`, for kernels: on the device the panic's text is the two expressions, on the host also their
/// values.
#[macro_export]
macro_rules! assert_eq {
    ($left:expr, $right:expr $(,)?) => {{
        #[cfg(target_arch = "nvptx64")]
        if !($left == $right) {
            ::core::panic!(::core::concat!(
                "assertion failed: ", ::core::stringify!($left), " == ", ::core::stringify!($right)
            ));
        }
        #[cfg(not(target_arch = "nvptx64"))]
        ::core::assert_eq!($left, $right);
    }};
    ($left:expr, $right:expr, $($message:tt)+) => {{
        #[cfg(target_arch = "nvptx64")]
        if !($left == $right) {
            ::core::panic!($($message)+);
        }
        #[cfg(not(target_arch = "nvptx64"))]
        ::core::assert_eq!($left, $right, $($message)+);
    }};
}

/// `assert_ne!`, for kernels: on the device the panic's text is the two expressions, on the host also their
/// values.
#[macro_export]
macro_rules! assert_ne {
    ($left:expr, $right:expr $(,)?) => {{
        #[cfg(target_arch = "nvptx64")]
        if $left == $right {
            ::core::panic!(::core::concat!(
                "assertion failed: ", ::core::stringify!($left), " != ", ::core::stringify!($right)
            ));
        }
        #[cfg(not(target_arch = "nvptx64"))]
        ::core::assert_ne!($left, $right);
    }};
    ($left:expr, $right:expr, $($message:tt)+) => {{
        #[cfg(target_arch = "nvptx64")]
        if $left == $right {
            ::core::panic!($($message)+);
        }
        #[cfg(not(target_arch = "nvptx64"))]
        ::core::assert_ne!($left, $right, $($message)+);
    }};
}
