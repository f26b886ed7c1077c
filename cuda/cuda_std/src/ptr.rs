//! The address space of a pointer.
//!
//! Rust pointers are generic addresses, which work for every memory. The host has one address space, so the conversions
//! change nothing there.

/// A state space of PTX that generic addresses reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressSpace {
    /// Memory of the device, which all blocks see.
    Global,
    /// Memory of a block.
    Shared,
    /// Memory that a kernel only reads.
    Constant,
    /// Memory of a thread.
    Local,
}

#[cfg(target_arch = "nvptx64")]
mod device {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.isspacep.global"]
        pub(super) fn is_global(ptr: *const u8) -> bool;
        #[link_name = "llvm.nvvm.isspacep.shared"]
        pub(super) fn is_shared(ptr: *const u8) -> bool;
        #[link_name = "llvm.nvvm.isspacep.const"]
        pub(super) fn is_const(ptr: *const u8) -> bool;
        #[link_name = "llvm.nvvm.isspacep.local"]
        pub(super) fn is_local(ptr: *const u8) -> bool;
    }
}

/// Returns whether the generic address `ptr` points to `address_space`.
///
/// # Safety
/// `ptr` is a generic address: any pointer that a function of this module has not converted.
///
/// # Panics
/// On the executor, where all memories share one address space.
#[doc(
    alias = "isspacep.global",
    alias = "isspacep.shared",
    alias = "isspacep.const",
    alias = "isspacep.local"
)]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn is_in_address_space<T>(ptr: *const T, address_space: AddressSpace) -> bool {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction only looks at the address.
    unsafe {
        let ptr = ptr.cast();
        match address_space {
            AddressSpace::Global => device::is_global(ptr),
            AddressSpace::Shared => device::is_shared(ptr),
            AddressSpace::Constant => device::is_const(ptr),
            AddressSpace::Local => device::is_local(ptr),
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = (ptr, address_space);
        panic!(
            "ptr::is_in_address_space() has no answer on the CPU, which has one address space for all memories"
        )
    }
}

macro_rules! conversions {
    ($($(#[$doc:meta])* $name:ident = $global:literal, $shared:literal, $constant:literal, $local:literal;)*) => {$(
        $(#[$doc])*
        #[doc(alias = $global, alias = $shared, alias = $constant, alias = $local)]
        #[inline(always)]
        pub unsafe fn $name<T>(ptr: *const T, address_space: AddressSpace) -> *const T {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: the instruction only computes an address.
            unsafe {
                let converted;
                match address_space {
                    AddressSpace::Global => conversions!(@asm $global, converted, ptr),
                    AddressSpace::Shared => conversions!(@asm $shared, converted, ptr),
                    AddressSpace::Constant => conversions!(@asm $constant, converted, ptr),
                    AddressSpace::Local => conversions!(@asm $local, converted, ptr),
                }
                converted
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let _ = address_space;
                ptr
            }
        }
    )*};
    (@asm $ptx:literal, $converted:ident, $ptr:ident) => {
        core::arch::asm!(concat!($ptx, " {}, {};"), out(reg64) $converted, in(reg64) $ptr,
            options(pure, nomem, nostack, preserves_flags))
    };
}

conversions! {
    /// Returns the address of `ptr` within `address_space`, for inline PTX such as `ld.shared`.
    ///
    /// # Safety
    /// - `ptr` points to `address_space`.
    /// - The result is not a generic address: Rust code does not read or write through it.
    convert_generic_to_specific_address_space =
        "cvta.to.global.u64", "cvta.to.shared.u64", "cvta.to.const.u64", "cvta.to.local.u64";
    /// Returns the generic address for the address `ptr` within `address_space`.
    ///
    /// # Safety
    /// `ptr` is an address within `address_space`, as [`convert_generic_to_specific_address_space`] returns it.
    convert_specific_address_space_to_generic =
        "cvta.global.u64", "cvta.shared.u64", "cvta.const.u64", "cvta.local.u64";
}
