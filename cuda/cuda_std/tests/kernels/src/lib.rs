//! One small kernel for each device function of `cuda_std`.
//!
//! The comments `//@ ptx:` above a kernel say which instructions its PTX has, and how many: the opcode from its first
//! part on, then operands, where `_` is any. `//@ sm_75:` holds for that architecture only, `//@ sm_80:` and `//@ sm_90:`
//! hold for that one and all later ones, `//@ sm_90a:` for that one only. `../ptx.rs` builds this crate and checks them.

#![allow(
    missing_docs,
    clippy::missing_safety_doc,
    reason = "the kernels are never launched; their PTX is read"
)]

/// Expands short definitions into kernels.
macro_rules! kernels {
    ($($name:ident($($arg:ident: $ty:ty),*) $body:block)*) => {
        kernels! { min_arch = 0; $($name($($arg: $ty),*) $body)* }
    };
    ($key:ident = $arch:literal; $($name:ident($($arg:ident: $ty:ty),*) $body:block)*) => {$(
        #[cuda_std::kernel($key = $arch)]
        #[allow(clippy::undocumented_unsafe_blocks, unused_unsafe, reason = "never launched; some bodies are safe")]
        pub unsafe fn $name($($arg: $ty),*) {
            unsafe { $body }
        }
    )*};
}

/// A kernel with launch bounds. `../ptx.rs` checks that it is the only one in the PTX with bounds.
///
/// # Safety
/// `out` is an element.
#[cuda_std::kernel(max_threads = 96, min_blocks = 3)]
pub unsafe fn bounded(out: *mut u32) {
    // SAFETY: the kernel's contract.
    unsafe { *out = 1 };
}

/// A kernel for the CPU only. `../ptx.rs` checks that the PTX does not have it.
///
/// # Safety
/// `out` is an element.
#[cuda_std::kernel(cpu_only)]
pub unsafe fn on_the_cpu(out: *mut u32) {
    // SAFETY: the kernel's contract.
    unsafe { *out = 7 };
}

/// Same as [`on_the_cpu`](fn@on_the_cpu), whose function exists on a GPU too.
///
/// # Safety
/// Same as for that kernel.
#[cuda_std::kernel]
pub unsafe fn calls_what_is_on_the_cpu(out: *mut u32) {
    // SAFETY: the kernel's contract.
    unsafe { on_the_cpu(out) };
}

/// Kernels, some of them for the CPU only.
///
/// # Safety
/// `out` is an element.
#[cuda_std::kernel(instances(
    adds_one = <1>;
    cpu_only = true {
        adds_two_on_the_cpu = <2>;
        adds_three = <3>, cpu_only = false;
    }
))]
pub unsafe fn adds<const N: u32>(out: *mut u32) {
    // SAFETY: the kernel's contract.
    unsafe { *out += N };
}

pub mod atomics;
pub mod barriers;
pub mod bulk;
pub mod clusters;
pub mod copies;
pub mod dependents;
pub mod grids;
pub mod halves;
pub mod math;
pub mod memory;
pub mod panics;
pub mod structs;
pub mod tensor;
pub mod threads;
pub mod warps;
pub mod wgmma;
