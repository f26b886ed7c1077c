//! The device's heap: `malloc`, `free`, and Rust's global allocator over them.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;

/// The least alignment of a block from [`malloc`], in bytes (CUDA C++ Programming Guide, "Dynamic Global Memory
/// Allocation and Operations").
const ALIGNMENT: usize = 16;

#[cfg(target_arch = "nvptx64")]
unsafe extern "C" {
    /// Allocates `bytes` uninitialised bytes of the device's heap, aligned to 16; returns null if there is no room.
    /// The heap has 8 MB, unless the host set `CU_LIMIT_MALLOC_HEAP_SIZE` before the first allocating launch. A block
    /// stays until a thread frees it, also across launches (CUDA C++ Programming Guide, "Dynamic Global Memory
    /// Allocation and Operations").
    ///
    /// # Safety
    /// Calling it is always sound. The memory may be used only within its bounds, until it is freed.
    pub fn malloc(bytes: usize) -> *mut c_void;

    /// Frees a block; does nothing for null.
    ///
    /// # Safety
    /// `block` is null or from [`malloc`], and is not used or freed again.
    pub fn free(block: *mut c_void);
}

/// Allocates `bytes` uninitialised bytes of the process's heap, aligned to 16; returns null if there is no room. On the
/// device it is the device's heap: 8 MB, unless the host set `CU_LIMIT_MALLOC_HEAP_SIZE` before the first allocating launch.
///
/// # Safety
/// Calling it is always sound. The memory may be used only within its bounds, until it is freed.
#[cfg(not(target_arch = "nvptx64"))]
pub unsafe fn malloc(bytes: usize) -> *mut c_void {
    let Some(layout) = with_header(bytes) else { return core::ptr::null_mut() };
    // SAFETY: the layout has a size: at least the header's.
    let block = unsafe { std::alloc::alloc(layout) };
    if block.is_null() {
        return block.cast();
    }
    // SAFETY: the header lies in front of the block, within the layout and aligned.
    unsafe {
        block.cast::<usize>().write(bytes);
        block.add(ALIGNMENT).cast()
    }
}

/// Frees a block; does nothing for null.
///
/// # Safety
/// `block` is null or from [`malloc`], and is not used or freed again.
#[cfg(not(target_arch = "nvptx64"))]
pub unsafe fn free(block: *mut c_void) {
    if block.is_null() {
        return;
    }
    // SAFETY: `malloc` left the size in the header in front, and this layout was the block's.
    unsafe {
        let block = block.cast::<u8>().sub(ALIGNMENT);
        if let Some(layout) = with_header(block.cast::<usize>().read()) {
            std::alloc::dealloc(block, layout);
        }
    }
}

/// Returns the layout of a block on the host, with a header for its size, which `free` needs.
#[cfg(not(target_arch = "nvptx64"))]
fn with_header(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_add(ALIGNMENT)?, ALIGNMENT).ok()
}

/// Rust's allocator over [`malloc`] and [`free`].
#[derive(Clone, Copy, Debug, Default)]
pub struct CUDAAllocator;

/// The global allocator of kernels, so that `extern crate alloc` works in them. On the host the program keeps its own.
#[cfg_attr(target_arch = "nvptx64", global_allocator)]
pub static GLOBAL_ALLOCATOR: CUDAAllocator = CUDAAllocator;

// SAFETY: the heap's blocks have the requested size and alignment, and each is freed by its own address.
unsafe impl GlobalAlloc for CUDAAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            // SAFETY: `malloc` has no precondition.
            return unsafe { malloc(layout.size()) }.cast();
        }
        // Room for the alignment, and for the block's address in front of the aligned memory, which `free` needs.
        let Some(bytes) = layout.size().checked_add(layout.align()) else { return core::ptr::null_mut() };
        // SAFETY: `malloc` has no precondition.
        let block = unsafe { malloc(bytes) }.cast::<u8>();
        if block.is_null() {
            return block;
        }
        // The next multiple after the block's start; `malloc` aligns to less than `align`, so at least 16 bytes further.
        let offset = layout.align() - (block.addr() & (layout.align() - 1));
        // SAFETY: `offset` is at most `align`, so the memory and the address in front of it lie within the block.
        unsafe {
            let aligned = block.add(offset);
            aligned.cast::<*mut u8>().sub(1).write(block);
            aligned
        }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller passes memory that `alloc` returned for this layout, which determines where its block starts.
        unsafe {
            let block =
                if layout.align() <= ALIGNMENT { memory } else { memory.cast::<*mut u8>().sub(1).read() };
            free(block.cast());
        }
    }
}
