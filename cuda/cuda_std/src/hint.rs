//! What a kernel may tell the caches; none of it changes a value.

/// Asks L2 to fetch `bytes` bytes of global memory from `ptr` on, and waits for nothing. One thread asks for all.
///
/// Compiled for a compute capability before 9.0, and on the host, it does nothing.
///
/// # Safety
/// `ptr` is a multiple of 16, `bytes` too and not 0; the bytes are memory that may be read.
#[doc(alias = "cp.async.bulk.prefetch.L2.global")]
#[inline(always)]
pub unsafe fn prefetch_l2<T>(ptr: *const T, bytes: u32) {
    #[cfg(all(target_arch = "nvptx64", target_feature = "sm_90"))]
    // SAFETY: the caller's memory.
    unsafe {
        core::arch::asm!("cp.async.bulk.prefetch.L2.global [{}], {};", in(reg64) ptr, in(reg32) bytes,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "nvptx64", target_feature = "sm_90")))]
    let _ = (ptr, bytes);
}
