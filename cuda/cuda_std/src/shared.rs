//! Shared memory of the threads of one block.
//!
//! A block's shared memory is uninitialised when the block starts. Threads order their accesses to it with
//! [`crate::thread::sync_threads`], or [`crate::warp::sync_warp`] within a warp.

mod pointer;

pub use pointer::SharedPtr;

/// Returns a pointer `*mut T` to `N` elements of the running block's shared memory: `shared_array![f32; 32 * 32]`.
///
/// Every evaluation of one `shared_array!` in the source gives the same memory to all threads of a block, and different
/// memory to every other block. The elements are uninitialised when the block starts; nothing drops them. The array is
/// aligned like `T`: for 16-byte accesses use elements of [`f32x4`](crate::mem::f32x4), not `f32`. `T` and `N` cannot
/// name type or const parameters of the surrounding function (E0401): write `#[shared(N)]` before a parameter of a
/// [kernel with instances](macro@crate::kernel), or pass the pointer. On the CPU executor each block has its own array, so
/// blocks run in parallel. A write just after the end of an array is
/// [`FaultKind::BeyondShared`](crate::simt::FaultKind::BeyondShared) there.
///
/// The macro itself is safe. Accesses through the pointer are not: the kernel must order those of different threads
/// with barriers.
#[doc(alias = "__shared__", alias = ".shared")]
#[macro_export]
macro_rules! shared_array {
    ($ty:ty; $len:expr) => {{
        #[cfg(target_arch = "nvptx64")]
        {
            #[$crate::address_space(shared)]
            static mut STORAGE: [::core::mem::MaybeUninit<$ty>; $len] =
                [const { ::core::mem::MaybeUninit::uninit() }; $len];
            (&raw mut STORAGE).cast::<$ty>()
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            // An item, as on the device: so the host too refuses parameters of the surrounding function.
            const _: usize = ::core::mem::size_of::<[$ty; $len]>();
            // A byte that can change has an address that no other static shares.
            static KEY: ::core::sync::atomic::AtomicU8 = ::core::sync::atomic::AtomicU8::new(0);
            $crate::shared::__slot::<$ty, { $len }>(&KEY)
        }
    }};
}

/// The memory of one `shared_array!` in the running block.
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
#[inline]
#[track_caller]
pub fn __slot<T, const N: usize>(key: &'static core::sync::atomic::AtomicU8) -> *mut T {
    let array = crate::simt::shared::Array {
        key: core::ptr::from_ref(key).addr(),
        bytes: size_of::<[T; N]>(),
        align: align_of::<T>(),
        location: core::panic::Location::caller(),
    };
    crate::simt::context::current("shared_array!", |context| context.shared().static_slot(array)).cast()
}

/// The symbol that the builder turns into the block's dynamic shared memory.
#[cfg(target_arch = "nvptx64")]
mod device {
    #[repr(C, align(16))]
    pub(super) struct Dynamic {}

    #[allow(improper_ctypes, reason = "the builder gives the symbol its type; only its address is used")]
    unsafe extern "C" {
        #[link_name = "__ferrowarp_dynamic_shared"]
        pub(super) static DYNAMIC: Dynamic;
    }
}

/// Returns the start of the block's dynamic shared memory, aligned to 16 bytes: the same address at every call.
///
/// The launch sets the size in bytes; [`crate::mem::dynamic_smem_size`] returns it. The memory is uninitialised when
/// the block starts.
#[doc(alias = "extern __shared__", alias = ".extern .shared")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn dynamic_shared_mem<T>() -> *mut T {
    const { assert!(align_of::<T>() <= 16, "dynamic shared memory is aligned to 16 bytes only") };
    #[cfg(target_arch = "nvptx64")]
    {
        (&raw const device::DYNAMIC).cast_mut().cast()
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        crate::simt::context::current("shared::dynamic_shared_mem", |context| context.shared().dynamic().0)
            .cast()
    }
}

/// Returns the first address of the block's dynamic shared memory that is aligned like `T`, to at most 1024 bytes. It
/// is the same at every call, and at the same offset in all blocks.
///
/// It lies less than `align_of::<T>()` bytes after the start, so request that many more bytes at the launch.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn dynamic_shared_mem_aligned<T>() -> *mut T {
    const { assert!(align_of::<T>() <= 1024, "at most 1024 bytes") };
    let start = dynamic_shared_mem::<u8>();
    #[cfg(target_arch = "nvptx64")]
    let padding = {
        let padding: u32;
        // SAFETY: the instructions compute an address. Generic addresses of shared memory have the alignment of shared ones.
        unsafe {
            core::arch::asm!(
                "{{ .reg .b64 address; cvta.to.shared.u64 address, {start}; cvt.u32.u64 {padding}, address; }}",
                start = in(reg64) start,
                padding = out(reg32) padding,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        padding.wrapping_neg() as usize & (align_of::<T>() - 1)
    };
    #[cfg(not(target_arch = "nvptx64"))]
    let padding = start.addr().wrapping_neg() & (align_of::<T>() - 1);
    start.wrapping_add(padding).cast()
}
