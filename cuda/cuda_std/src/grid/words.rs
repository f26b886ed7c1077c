//! Loads and stores of the words that blocks exchange.

use core::sync::atomic::Ordering;

use crate::atomic::mid;

/// Stores `value` for threads of other blocks. A thread that sees it in a [`wait_until`](super::wait_until) with
/// `Ordering::Acquire` sees all that this thread did and had seen before. After a barrier of the block, that includes
/// what the block did (PTX ISA, `st.release.gpu`, "memory consistency model").
///
/// # Safety
/// `word` is valid for writes and aligned. While other threads may access it, only atomic instructions do.
#[doc(alias = "st.release.gpu")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn store_release(word: *mut u32, value: u32) {
    // SAFETY: the caller guarantees a valid pointer.
    unsafe { mid::atomic_store_32_device(word, Ordering::Release, value) }
}

/// Stores `value` for other blocks, unordered: other stores may be seen before or after it (PTX ISA, `st.relaxed.gpu`).
///
/// # Safety
/// Same as for [`store_release`].
#[doc(alias = "st.relaxed.gpu")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn store_relaxed(word: *mut u32, value: u32) {
    // SAFETY: the caller guarantees a valid pointer.
    unsafe { mid::atomic_store_32_device(word, Ordering::Relaxed, value) }
}

/// Stores four words for threads of other blocks with one instruction. Each word is stored whole, but another thread may see
/// some of them before the others. Other stores are not ordered either (PTX ISA, `st.relaxed.gpu.v4`, "vector data-types").
///
/// # Safety
/// `words` is valid for writes and aligned to 16 bytes (the executor panics if it is not). While other threads may
/// access the words, only atomic instructions do.
#[doc(alias = "st.relaxed.gpu.v4")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn store_all(words: *mut [u32; 4], values: [u32; 4]) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller guarantees a valid pointer.
    unsafe {
        let [x, y, z, w] = values;
        core::arch::asm!(
            "st.relaxed.gpu.v4.b32 [{ptr}], {{{x}, {y}, {z}, {w}}};",
            ptr = in(reg64) words, x = in(reg32) x, y = in(reg32) y, z = in(reg32) z, w = in(reg32) w,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        check_aligned("store_all", words);
        let first = words.cast::<u32>();
        for (i, value) in values.into_iter().enumerate() {
            // SAFETY: `i` is below 4, in the caller's words.
            unsafe { mid::atomic_store_32_device(first.add(i), Ordering::Relaxed, value) };
        }
    }
}

/// Loads four words that other blocks store with one instruction: each whole, unordered (PTX ISA, `ld.relaxed.gpu.v4`).
///
/// # Safety
/// `words` is valid for reads and aligned to 16 bytes (the executor panics if it is not). While other threads may store
/// the words, only atomic instructions access them.
#[doc(alias = "ld.relaxed.gpu.v4")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load_all(words: *const [u32; 4]) -> [u32; 4] {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller guarantees a valid pointer. The load may see another thread's store each time, so it is not `pure`.
    unsafe {
        let (x, y, z, w);
        core::arch::asm!(
            "ld.relaxed.gpu.v4.b32 {{{x}, {y}, {z}, {w}}}, [{ptr}];",
            x = out(reg32) x, y = out(reg32) y, z = out(reg32) z, w = out(reg32) w, ptr = in(reg64) words,
            options(nostack, preserves_flags),
        );
        [x, y, z, w]
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        check_aligned("load_all", words);
        let first = words.cast::<u32>().cast_mut();
        // SAFETY: `i` is below 4, in the caller's words.
        core::array::from_fn(|i| unsafe { mid::atomic_load_32_device(first.add(i), Ordering::Relaxed) })
    }
}

#[cfg(not(target_arch = "nvptx64"))]
#[inline]
#[track_caller]
fn check_aligned(name: &str, words: *const [u32; 4]) {
    assert!(
        words.addr().is_multiple_of(16),
        "grid::{name}: the address {words:p} is not a multiple of 16; begin at one, for 4 words are one access"
    );
}
