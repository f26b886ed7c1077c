//! Loads and stores of 4, 8 and 16 bytes that are one instruction each, with cache hints; the size of the block's shared
//! memory; the device's heap.
//!
//! The compiler may split an ordinary copy of a 16-byte struct, but not these functions. The hints change the speed, never
//! the values. On the host, all of them are plain copies.
//!
//! # Safety of the loads and stores
//! - The pointer is valid for the access, as for `core::ptr::read` or `core::ptr::write`, and aligned to the
//!   type: 16 bytes for four words, 8 for two, 4 for one. (Device: a misaligned access is a fault. Executor: a panic in
//!   builds with debug assertions.)
//! - A `_global` function gets a pointer to global memory, a `_shared` one a pointer to shared memory of the block; a
//!   generic one gets either.
//! - No other thread writes the bytes of a load, or reads or writes the bytes of a store, without a barrier in between.
//! - A `_nc` load reads bytes that are not written while the kernel runs: it uses the non-coherent path (PTX ISA,
//!   `ld.global.nc`).

mod heap;

pub use crate::vector::{f32x2, f32x4, u32x2, u32x4};
pub use heap::{CUDAAllocator, GLOBAL_ALLOCATOR, free, malloc};

/// A type that the functions of this module load and store: one, two or four 32-bit words.
///
/// # Safety
/// The size is 4, 8 or 16 bytes, the alignment is the size, there is no padding, and every bit pattern is a value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a vector that one instruction moves",
    note = "use f32x4, u32x4, f32x2 or u32x2 of `cuda_std::mem`, f32 or u32"
)]
pub unsafe trait Vector: Copy {}

// SAFETY: every bit pattern of the 4 bytes is a value.
unsafe impl Vector for u32 {}
// SAFETY: every bit pattern of the 4 bytes is a value.
unsafe impl Vector for f32 {}

/// How long L2 keeps the line of an access (PTX ISA, `createpolicy`).
#[derive(Clone, Copy, Debug)]
pub struct CachePolicy {
    #[cfg(all(target_arch = "nvptx64", target_feature = "sm_80"))]
    bits: u64,
}

/// Finds misaligned accesses in builds with debug assertions. In a release build, a test for every access would keep
/// the compiler from copying a row at a time.
#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
#[inline(always)]
fn check_aligned<V>(name: &str, ptr: *const V) {
    debug_assert!(
        ptr.is_aligned(),
        "mem::{name}: the address {ptr:p} is not a multiple of {}, the alignment of the vector",
        align_of::<V>()
    );
}

/// Builds a vector from the first of these words.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn from_words<V: Vector>(words: [u32; 4]) -> V {
    // SAFETY: a vector is at most 16 bytes, and every bit pattern is a value.
    unsafe { core::mem::transmute_copy(&words) }
}

/// Returns the words of a vector, filled up with zeros.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn to_words<V: Vector>(vector: V) -> [u32; 4] {
    let mut words = [0; 4];
    // SAFETY: a vector is at most 16 bytes without padding, and the write may be unaligned.
    unsafe {
        words.as_mut_ptr().cast::<V>().write_unaligned(vector);
    }
    words
}

/// One load: `$before` goes before the instruction, `$ptx` is the instruction up to the width, `$address` the
/// address operand, and `$after` what follows it.
#[cfg(target_arch = "nvptx64")]
macro_rules! load_asm {
    ($before:literal, $ptx:literal, $address:literal, $after:literal, $class:ident $ptr:ident, [$($operand:tt)*], $($option:ident),*) => {{
        let mut words = [0_u32; 4];
        if size_of::<V>() == 16 {
            let (x, y, z, w);
            core::arch::asm!(
                concat!($before, $ptx, ".v4.b32 {{{x}, {y}, {z}, {w}}}, ", $address, $after),
                x = out(reg32) x, y = out(reg32) y, z = out(reg32) z, w = out(reg32) w,
                ptr = in($class) $ptr, $($operand)*
                options(nostack, preserves_flags, $($option),*),
            );
            words = [x, y, z, w];
        } else if size_of::<V>() == 4 {
            core::arch::asm!(
                concat!($before, $ptx, ".b32 {x}, ", $address, $after),
                x = out(reg32) words[0], ptr = in($class) $ptr, $($operand)*
                options(nostack, preserves_flags, $($option),*),
            );
        } else {
            core::arch::asm!(
                concat!($before, $ptx, ".v2.b32 {{{x}, {y}}}, ", $address, $after),
                x = out(reg32) words[0], y = out(reg32) words[1],
                ptr = in($class) $ptr, $($operand)*
                options(nostack, preserves_flags, $($option),*),
            );
        }
        from_words(words)
    }};
}

/// One store, like [`load_asm`].
#[cfg(target_arch = "nvptx64")]
macro_rules! store_asm {
    ($before:literal, $ptx:literal, $address:literal, $after:literal, $class:ident $ptr:ident, $value:ident, [$($operand:tt)*]) => {{
        let [x, y, z, w] = to_words($value);
        if size_of::<V>() == 16 {
            core::arch::asm!(
                concat!($before, $ptx, ".v4.b32 ", $address, ", {{{x}, {y}, {z}, {w}}}", $after),
                x = in(reg32) x, y = in(reg32) y, z = in(reg32) z, w = in(reg32) w,
                ptr = in($class) $ptr, $($operand)*
                options(nostack, preserves_flags),
            );
        } else if size_of::<V>() == 4 {
            core::arch::asm!(
                concat!($before, $ptx, ".b32 ", $address, ", {x}", $after),
                x = in(reg32) x, ptr = in($class) $ptr, $($operand)*
                options(nostack, preserves_flags),
            );
        } else {
            core::arch::asm!(
                concat!($before, $ptx, ".v2.b32 ", $address, ", {{{x}, {y}}}", $after),
                x = in(reg32) x, y = in(reg32) y,
                ptr = in($class) $ptr, $($operand)*
                options(nostack, preserves_flags),
            );
        }
    }};
}

macro_rules! loads {
    ($($(#[$doc:meta])* $name:ident = $before:literal, $ptx:literal, $address:literal, $after:literal, [$($option:ident),*];)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// See [the module](self#safety-of-the-loads-and-stores).
        #[doc(alias = $ptx)]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name<V: Vector>(ptr: *const V) -> V {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: the caller guarantees a valid pointer. The load only reads, so it may be moved and merged like
            // any load.
            unsafe {
                load_asm!($before, $ptx, $address, $after, reg64 ptr, [], $($option),*)
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                check_aligned(stringify!($name), ptr);
                // SAFETY: the caller guarantees a valid and aligned pointer.
                unsafe { ptr.read() }
            }
        }
    )*};
}

loads! {
    /// Reads a vector from global or shared memory.
    load = "", "ld", "[{ptr}]", ";", [pure, readonly];
    /// Reads a vector from shared memory of the block.
    load_shared = "{{ .reg .b64 address; cvta.to.shared.u64 address, {ptr}; ", "ld.shared", "[address]", "; }}",
        [pure, readonly];
    /// Reads a vector from global memory.
    load_global = "", "ld.global", "[{ptr}]", ";", [pure, readonly];
    /// Reads a vector from global memory through the non-coherent path. The memory is not written while the kernel runs.
    #[doc(alias = "__ldg")]
    load_global_nc = "", "ld.global.nc", "[{ptr}]", ";", [pure, readonly];
    /// [`load_global_nc`] that does not put the line into L1: for data that is read once.
    load_global_nc_no_allocate = "", "ld.global.nc.L1::no_allocate", "[{ptr}]", ";", [pure, readonly];
    /// [`load_global_nc`] that marks the line as the last to leave L1: for data that is read again and again.
    load_global_nc_evict_last = "", "ld.global.nc.L1::evict_last", "[{ptr}]", ";", [pure, readonly];
    /// [`load_global_nc`] that lets L2 fetch 128 bytes: for data that is read in order.
    load_global_nc_prefetch_128 = "", "ld.global.nc.L2::128B", "[{ptr}]", ";", [pure, readonly];
    /// Reads from global memory and does not put the line into L1.
    load_global_no_allocate = "", "ld.global.L1::no_allocate", "[{ptr}]", ";", [pure, readonly];
    /// Reads from global memory and marks the line as the first to leave L1.
    load_global_evict_first = "", "ld.global.L1::evict_first", "[{ptr}]", ";", [pure, readonly];
    /// Reads from global memory and marks the line as the last to leave L1.
    load_global_evict_last = "", "ld.global.L1::evict_last", "[{ptr}]", ";", [pure, readonly];
    /// Reads data from global memory that is likely to be read once (streaming).
    #[doc(alias = "__ldcs")]
    load_global_streaming = "", "ld.global.cs", "[{ptr}]", ";", [pure, readonly];
    /// Reads from global memory through L2 only, so it sees other blocks' writes that the grid has ordered before it.
    #[doc(alias = "__ldcg")]
    load_global_l2 = "", "ld.global.cg", "[{ptr}]", ";", [readonly];
}

macro_rules! stores {
    ($($(#[$doc:meta])* $name:ident = $before:literal, $ptx:literal, $address:literal, $after:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// See [the module](self#safety-of-the-loads-and-stores).
        #[doc(alias = $ptx)]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name<V: Vector>(ptr: *mut V, value: V) {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: the caller guarantees a valid pointer.
            unsafe {
                store_asm!($before, $ptx, $address, $after, reg64 ptr, value, []);
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                check_aligned(stringify!($name), ptr);
                // SAFETY: the caller guarantees a valid and aligned pointer.
                unsafe { ptr.write(value) }
            }
        }
    )*};
}

stores! {
    /// Writes a vector to global or shared memory.
    store = "", "st", "[{ptr}]", ";";
    /// Writes a vector to shared memory of the block.
    store_shared = "{{ .reg .b64 address; cvta.to.shared.u64 address, {ptr}; ", "st.shared", "[address]", "; }}";
    /// Writes a vector to global memory.
    store_global = "", "st.global", "[{ptr}]", ";";
    /// Writes data to global memory that is unlikely to be used again soon (streaming).
    #[doc(alias = "__stcs")]
    store_global_streaming = "", "st.global.cs", "[{ptr}]", ";";
    /// Writes to global memory and keeps the line in L2 only.
    #[doc(alias = "__stcg")]
    store_global_l2 = "", "st.global.cg", "[{ptr}]", ";";
    /// Writes to global memory and through L2 to system memory.
    #[doc(alias = "__stwt")]
    store_global_write_through = "", "st.global.wt", "[{ptr}]", ";";
    /// Writes to global memory without putting the line into L1.
    store_global_no_allocate = "", "st.global.L1::no_allocate", "[{ptr}]", ";";
}

macro_rules! policies {
    ($($(#[$doc:meta])* $name:ident = $ptx:literal;)*) => {
        impl CachePolicy {$(
            $(#[$doc])*
            ///
            /// Compiled for a compute capability before 8.0, and on the host, the policy does nothing.
            #[doc(alias = $ptx)]
            #[inline(always)]
            pub fn $name() -> Self {
                #[cfg(all(target_arch = "nvptx64", target_feature = "sm_80"))]
                {
                    let bits;
                    // SAFETY: the instruction only computes a number.
                    unsafe {
                        core::arch::asm!(concat!($ptx, " {}, 1.0;"), out(reg64) bits,
                            options(pure, nomem, nostack, preserves_flags));
                    }
                    Self { bits }
                }
                #[cfg(not(all(target_arch = "nvptx64", target_feature = "sm_80")))]
                Self {}
            }
        )*}
    };
}

policies! {
    /// The line is the first to leave L2: for data that is used once.
    evict_first = "createpolicy.fractional.L2::evict_first.b64";
    /// The line is the last to leave L2: for data that many blocks read.
    evict_last = "createpolicy.fractional.L2::evict_last.b64";
}

// After the macros, which it uses.
mod shared;

/// Reads a vector from global memory; L2 keeps it according to `policy`.
///
/// # Safety
/// See [the module](self#safety-of-the-loads-and-stores).
#[doc(alias = "ld.global.L2::cache_hint")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load_global_with_policy<V: Vector>(ptr: *const V, policy: CachePolicy) -> V {
    #[cfg(all(target_arch = "nvptx64", target_feature = "sm_80"))]
    // SAFETY: the caller guarantees a valid pointer.
    unsafe {
        load_asm!("", "ld.global.L2::cache_hint", "[{ptr}]", ", {policy};", reg64 ptr,
            [policy = in(reg64) policy.bits,], pure, readonly)
    }
    #[cfg(not(all(target_arch = "nvptx64", target_feature = "sm_80")))]
    // SAFETY: the caller guarantees a valid pointer.
    unsafe {
        let _ = policy;
        load_global(ptr)
    }
}

/// Writes a vector to global memory; L2 keeps it according to `policy`.
///
/// # Safety
/// See [the module](self#safety-of-the-loads-and-stores).
#[doc(alias = "st.global.L2::cache_hint")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn store_global_with_policy<V: Vector>(ptr: *mut V, value: V, policy: CachePolicy) {
    #[cfg(all(target_arch = "nvptx64", target_feature = "sm_80"))]
    // SAFETY: the caller guarantees a valid pointer.
    unsafe {
        store_asm!("", "st.global.L2::cache_hint", "[{ptr}]", ", {policy};", reg64 ptr, value,
            [policy = in(reg64) policy.bits,]);
    }
    #[cfg(not(all(target_arch = "nvptx64", target_feature = "sm_80")))]
    // SAFETY: the caller guarantees a valid pointer.
    unsafe {
        let _ = policy;
        store_global(ptr, value);
    }
}

/// Adds `value` to a number in global memory, at once and unordered, without waiting for it (PTX ISA,
/// `red.relaxed.gpu.global.add.f32`). A thread's additions to one number happen in order.
///
/// # Safety
/// `ptr` points to an aligned number in global memory. Meanwhile, other threads access it only atomically.
#[doc(alias = "red.global.add.f32")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn add_global(ptr: *mut f32, value: f32) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller guarantees a valid pointer.
    unsafe {
        core::arch::asm!("red.relaxed.gpu.global.add.f32 [{ptr}], {value};", ptr = in(reg64) ptr,
            value = in(reg32) value, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    // SAFETY: the caller guarantees a valid pointer, and atomic accesses.
    unsafe {
        crate::atomic::AtomicF32::from_ptr(ptr).fetch_add(value, core::sync::atomic::Ordering::Relaxed);
    }
}

/// Returns the dynamic shared memory of the block in bytes, as the launch requested it.
#[doc(alias = "%dynamic_smem_size")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn dynamic_smem_size() -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let bytes;
        // SAFETY: reading a special register has no precondition.
        unsafe {
            core::arch::asm!("mov.u32 {}, %dynamic_smem_size;", out(reg32) bytes,
                options(pure, nomem, nostack, preserves_flags));
        }
        bytes
    }
    #[cfg(not(target_arch = "nvptx64"))]
    crate::simt::context::current("mem::dynamic_smem_size", |context| context.shared().dynamic().1)
}

/// Returns the total shared memory of the block in bytes, static and dynamic, rounded up as the device allocates it.
///
/// # Panics
/// On the executor, which does not lay out static shared memory like a device.
#[doc(alias = "%total_smem_size")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn total_smem_size() -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let bytes;
        // SAFETY: reading a special register has no precondition.
        unsafe {
            core::arch::asm!("mov.u32 {}, %total_smem_size;", out(reg32) bytes,
                options(pure, nomem, nostack, preserves_flags));
        }
        bytes
    }
    #[cfg(not(target_arch = "nvptx64"))]
    panic!("mem::total_smem_size() has no answer on the CPU; use mem::dynamic_smem_size()")
}
