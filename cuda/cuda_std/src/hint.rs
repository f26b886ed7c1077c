//! Hints to the compiler and the hardware; they change no value.

/// Prefetches `bytes` bytes of global memory at `ptr` into L2, without waiting. One thread does it for all.
///
/// Compiled for a compute capability before 9.0, and on the host, it does nothing.
///
/// # Safety
/// `ptr` is aligned to 16 bytes, `bytes` is a multiple of 16 and not 0, and the memory may be read.
#[doc(alias = "cp.async.bulk.prefetch.L2.global")]
#[inline(always)]
pub unsafe fn prefetch_l2<T>(ptr: *const T, bytes: u32) {
    #[cfg(all(target_arch = "nvptx64", target_feature = "sm_90"))]
    // SAFETY: the caller guarantees valid memory.
    unsafe {
        core::arch::asm!("cp.async.bulk.prefetch.L2.global [{}], {};", in(reg64) ptr, in(reg32) bytes,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "nvptx64", target_feature = "sm_90")))]
    let _ = (ptr, bytes);
}

/// Prefetches the cache line at `ptr` for a thread that reads it soon, on the host. On the device, where other warps run
/// while one waits, it does nothing. Any address will do.
#[inline(always)]
pub fn prefetch_line<T>(ptr: *const T) {
    #[cfg(all(not(target_arch = "nvptx64"), target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction needs SSE, which every x86-64 has, and never faults.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(ptr.cast());
    }
    #[cfg(not(all(not(target_arch = "nvptx64"), target_arch = "x86_64", not(miri))))]
    let _ = ptr;
}

/// Returns `value`, hidden from the compiler. It costs no instruction. A loop with the counter `i = opaque(i + step)`
/// is not unrolled: use it where unrolled iterations would take registers that other warps need.
#[inline(always)]
pub fn opaque<T: Opaque>(value: T) -> T {
    #[cfg(target_arch = "nvptx64")]
    {
        value.hidden()
    }
    #[cfg(not(target_arch = "nvptx64"))]
    core::hint::black_box(value)
}

/// The types that [`opaque()`] takes: `usize` and `u32`.
pub trait Opaque: Copy {
    #[doc(hidden)]
    #[cfg(target_arch = "nvptx64")]
    fn hidden(self) -> Self;
}

macro_rules! opaque {
    ($($ty:ident: $class:ident),*) => {$(
        impl Opaque for $ty {
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            fn hidden(mut self) -> Self {
                // SAFETY: there is no instruction, and the register keeps its value.
                unsafe {
                    core::arch::asm!("/* {} */", inout($class) self, options(pure, nomem, nostack, preserves_flags));
                }
                self
            }
        }
    )*};
}

opaque! { usize: reg64, u32: reg32 }

#[cfg(all(target_arch = "nvptx64", any(target_feature = "sm_90a", target_feature = "sm_100a")))]
mod device {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.setmaxnreg.dec.sync.aligned.u32"]
        pub(super) fn fewer_registers(registers: u32);
        #[link_name = "llvm.nvvm.setmaxnreg.inc.sync.aligned.u32"]
        pub(super) fn more_registers(registers: u32);
    }
}

macro_rules! registers {
    ($($(#[$doc:meta])* $name:ident = $ptx:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// Compiled for other architectures than `sm_90a` and `sm_100a`, whose modules run only on that GPU, and on the
        /// host, it does nothing. ptxas obeys it in a `#[kernel(max_threads = ..)]`.
        ///
        /// # Safety
        /// All warps of a warpgroup (4 consecutive warps, the first a multiple of 4) reach this same call, with the
        /// threads of each warp converged.
        #[doc(alias = $ptx)]
        #[inline(always)]
        pub unsafe fn $name<const REGISTERS: u32>() {
            const { assert!(REGISTERS >= 24 && REGISTERS <= 256 && REGISTERS.is_multiple_of(8), "24 to 256, by 8") };
            #[cfg(all(target_arch = "nvptx64", any(target_feature = "sm_90a", target_feature = "sm_100a")))]
            // SAFETY: the caller promises that all threads execute this.
            unsafe {
                device::$name(REGISTERS);
            }
        }
    )*};
}

registers! {
    /// Reduces each thread of the warpgroup to `REGISTERS` registers, 24 to 256 by 8, and frees the others for
    /// warpgroups that request more (PTX ISA, `setmaxnreg`).
    fewer_registers = "setmaxnreg.dec";
    /// Waits until the block has enough free registers, then gives each thread of the warpgroup `REGISTERS`, 24 to 256
    /// by 8 (PTX ISA, `setmaxnreg`).
    more_registers = "setmaxnreg.inc";
}
