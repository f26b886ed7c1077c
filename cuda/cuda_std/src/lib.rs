//! The device library for Ferrowarp kernels, with the names and conventions of Rust-CUDA's `cuda_std`.
//!
//! On the target `nvptx64`, each function is one PTX instruction or one libdevice call. On the host, the same function is
//! a request to the SIMT executor ([`simt`]), which runs the kernel with the complete CUDA model: grid, blocks, warps of
//! 32 lanes, barriers, shuffles, votes, shared memory and atomics.

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(
        abi_ptx,
        abi_unadjusted,
        alloc_error_handler,
        allow_internal_unstable,
        stdarch_nvptx,
        link_llvm_intrinsics,
        asm_experimental_arch,
        optimize_attribute
    )
)]
#![cfg_attr(miri, feature(thread_local))]
#![cfg_attr(
    target_arch = "nvptx64",
    allow(
        internal_features,
        reason = "LLVM intrinsics are the only way to a PTX instruction, and `__kernel_entry!` spares users a feature"
    )
)]

// On the host, this is the `alloc` of `std`.
extern crate alloc;

// The macros refer to this crate as `cuda_std`, also in its own modules and tests.
extern crate self as cuda_std;

pub mod atomic;
pub mod barrier;
pub mod bulk;
pub mod cluster;
pub mod fastmath;
pub mod float;
pub mod grid;
pub mod half;
pub mod hint;
pub mod intrinsics;
pub mod io;
#[cfg(not(target_arch = "nvptx64"))]
pub mod launch;
pub mod mem;
pub mod misc;
pub mod mma;
#[cfg(target_arch = "nvptx64")]
mod panic;
pub mod panic_record;
#[doc(hidden)]
pub mod param;
pub mod pipeline;
pub mod prelude;
pub mod ptr;
pub mod share;
pub mod shared;
#[cfg(not(target_arch = "nvptx64"))]
pub mod simt;
#[cfg(target_arch = "nvptx64")]
mod symbols;
pub mod tensor;
#[cfg(not(target_arch = "nvptx64"))]
pub mod testing;
pub mod thread;
mod vector;
pub mod warp;
pub mod wgmma;

pub use self::half::{bf16, f16};
// These are the compiler's own macros, so a glob import of this crate or its prelude does not make them ambiguous. In a
// kernel they report which assertion failed, without the values.
pub use core::{assert_eq, assert_ne};
/// # Examples
/// ```
/// use cuda_std::launch::LaunchConfig;
/// use cuda_std::simt::Executor;
/// use cuda_std::{KernelArgs, kernel, thread};
///
/// #[derive(Clone, Copy, KernelArgs)]
/// #[repr(C)]
/// pub struct Saxpy {
///     y: *mut f32,
///     x: *const f32,
///     len: u32,
///     factor: f32,
/// }
///
/// /// y += factor * x
/// ///
/// /// # Safety
/// /// `y` and `x` hold `len` elements; one thread each.
/// #[kernel]
/// pub unsafe fn saxpy(args: Saxpy) {
///     let i = thread::index_1d();
///     if i < args.len {
///         // SAFETY: `i` is an element, and this thread's.
///         unsafe { *args.y.add(i as usize) += args.factor * *args.x.add(i as usize) };
///     }
/// }
///
/// let (x, mut y) = ([1.0, 2.0, 3.0], [10.0; 3]);
/// let args = SaxpyHost { y: &mut y, x: &x, len: 3, factor: 2.0 };
/// // SAFETY: both have 3 elements, and the grid has a thread for each.
/// unsafe { saxpy::launch(&Executor::new(), LaunchConfig::cover(3, 32), args) }?;
/// assert_eq!(y, [12.0, 14.0, 16.0]);
/// # Ok::<(), cuda_std::launch::LaunchError>(())
/// ```
pub use cuda_std_macros::KernelArgs;
pub use cuda_std_macros::{address_space, externally_visible, gpu_only, kernel};
pub use float::{FloatExt, GpuFloat};
/// Vectors and matrices, in any version from 0.22 to 0.34. If your crate depends on `glam` too, make both the same
/// version: `cargo update -p glam@0.34.2 --precise VERSION`.
#[cfg(feature = "glam")]
pub use glam;
#[cfg(not(target_arch = "nvptx64"))]
pub use std::{print, println};
#[cfg(feature = "vek")]
#[deprecated(note = "use `glam`, as Rust-CUDA advises too")]
pub use vek;

/// The entry point of a kernel. Only this macro names the calling convention, so crates that use `#[kernel]` need
/// no feature.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
#[macro_export]
#[allow_internal_unstable(abi_ptx)]
macro_rules! __kernel_entry {
    ({$($before:tt)*} fn $name:ident {$($generics:tt)*} ($($params:tt)*) {$($bounds:tt)*} $body:block) => {
        $($before)* unsafe extern "ptx-kernel" fn $name $($generics)* ($($params)*) $($bounds)* $body
    };
}
