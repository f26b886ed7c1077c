//! Atomic numbers.
//!
//! `core::sync::atomic` compiles on the device too, but its read-modify-write operations lose their ordering and have
//! device scope; these types keep ordering and scope. There are three scopes: `Block...` for the threads of one block,
//! `Atomic...` for the device, `System...` for all devices and the host. A wider scope costs more. All work in global
//! and in shared memory. [`AtomicF32::from_ptr`] and its counterparts borrow an element of a buffer as an atomic. On
//! the host, every scope is the whole system.
//!
//! Avoid locks inside a block: they hang on the CPU executor. There, a thread runs until its next barrier or
//! warp operation. If it spins until another thread of its block changes a number, it runs until the launch's
//! [time limit](crate::simt::Executor::with_time_limit), or forever. To wait for a word that another block
//! stores, use [`grid::wait_until`](crate::grid::wait_until).

#[cfg(not(target_arch = "nvptx64"))]
mod host;
pub mod intrinsics;
pub mod mid;

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering;
use pastey::paste;

/// Returns an ordering that is strong enough for both outcomes of a compare-and-swap.
#[inline(always)]
fn strongest(success: Ordering, failure: Ordering) -> Ordering {
    match (success, failure) {
        (Ordering::SeqCst, _) | (_, Ordering::SeqCst) => Ordering::SeqCst,
        (Ordering::Release, Ordering::Acquire) => Ordering::AcqRel,
        (Ordering::Relaxed, Ordering::Acquire) => Ordering::Acquire,
        (success, _) => success,
    }
}

macro_rules! atomics {
    ($($name:ident($ty:ident, $bits:ident, $width:literal, $scope:ident, $kind:ident $(, $unsafe:ident)?), $what:literal, $who:literal, $safety:literal;)*) => {$(
        #[doc = concat!("A `", stringify!($ty), "` that ", $what, " change at once.")]
        #[repr(transparent)]
        pub struct $name {
            value: UnsafeCell<$ty>,
        }

        // SAFETY: all access to the value through a shared reference is atomic.
        unsafe impl Sync for $name {}

        impl $name {
            /// Creates an atomic that holds `value`.
            pub const fn new(value: $ty) -> Self {
                Self { value: UnsafeCell::new(value) }
            }

            /// Borrows the number at `ptr` as an atomic.
            ///
            /// # Safety
            /// - `ptr` is valid for reads and writes for the lifetime, and aligned.
            #[doc = concat!("- Until the lifetime ends only ", $who, " access the number, and only atomically, \
                or with a barrier in between.")]
            #[inline(always)]
            pub const unsafe fn from_ptr<'a>(ptr: *mut $ty) -> &'a Self {
                // SAFETY: the caller guarantees a valid pointer; the type is transparent over the number.
                unsafe { &*ptr.cast::<Self>() }
            }

            /// Returns a pointer to the number.
            #[inline(always)]
            pub const fn as_ptr(&self) -> *mut $ty {
                self.value.get()
            }

            /// Consumes the atomic and returns the number.
            #[inline(always)]
            pub const fn into_inner(self) -> $ty {
                self.value.into_inner()
            }
        }

        atomics! { @words $name $ty $bits $width $scope [$($unsafe)?] $safety }
        atomics! { @fetch $name $ty $scope [$($unsafe)?] $safety
            /// Adds `value`; returns the previous number. Integers wrap.
            #[doc(alias = "atom.add")]
            fetch_add = add;
            /// Subtracts `value`; returns the previous number. Integers wrap.
            fetch_sub = sub;
            /// Applies a bitwise and with `value`; returns the previous number.
            #[doc(alias = "atom.and")]
            fetch_and = and;
            /// Applies a bitwise or with `value`; returns the previous number.
            #[doc(alias = "atom.or")]
            fetch_or = or;
            /// Applies a bitwise exclusive or with `value`; returns the previous number.
            #[doc(alias = "atom.xor")]
            fetch_xor = xor;
            /// Replaces the number by `value`; returns the previous number.
            #[doc(alias = "atom.exch")]
            swap = exch;
        }
        atomics! { @$kind $name $ty $scope [$($unsafe)?] $safety }
    )*};
    (@float $($rest:tt)*) => {};
    (@int $name:ident $ty:ident $scope:ident $unsafe:tt $safety:literal) => {
        atomics! { @fetch $name $ty $scope $unsafe $safety
            /// Replaces the number by `value` if that is smaller; returns the previous number.
            #[doc(alias = "atom.min")]
            fetch_min = min;
            /// Replaces the number by `value` if that is larger; returns the previous number.
            #[doc(alias = "atom.max")]
            fetch_max = max;
        }
    };
    (@fetch $name:ident $ty:ident $scope:ident $unsafe:tt $safety:literal
        $($(#[$doc:meta])* $method:ident = $op:ident;)*) => {
        impl $name {
            $(atomics! { @method $ty $scope $unsafe $safety [$(#[$doc])*] $method $op })*
        }
    };
    (@method $ty:ident $scope:ident [$($unsafe:ident)?] $safety:literal [$(#[$doc:meta])*] $method:ident $op:ident) => {paste!{
        $(#[$doc])*
        ///
        #[doc = $safety]
        #[inline(always)]
        pub $($unsafe)? fn $method(&self, value: $ty, ordering: Ordering) -> $ty {
            // SAFETY: the reference is valid, and all accesses through it are atomic.
            unsafe { mid::[<atomic_fetch_ $op _ $ty _ $scope>](self.as_ptr(), ordering, value) }
        }
    }};
    (@words $name:ident $ty:ident $bits:ident $width:literal $scope:ident [$($unsafe:ident)?] $safety:literal) => {paste!{
        impl $name {
            /// Reads the number.
            ///
            #[doc = $safety]
            ///
            /// # Panics
            /// If `ordering` is `Release` or `AcqRel`.
            #[doc(alias = "ld.relaxed", alias = "ld.acquire")]
            #[inline(always)]
            pub $($unsafe)? fn load(&self, ordering: Ordering) -> $ty {
                let bits: $bits =
                    // SAFETY: the reference is valid, and all accesses through it are atomic.
                    unsafe { mid::[<atomic_load_ $width _ $scope>](self.as_ptr().cast(), ordering) };
                $ty::from_ne_bytes(bits.to_ne_bytes())
            }

            /// Writes the number.
            ///
            #[doc = $safety]
            ///
            /// # Panics
            /// If `ordering` is `Acquire` or `AcqRel`.
            #[doc(alias = "st.relaxed", alias = "st.release")]
            #[inline(always)]
            pub $($unsafe)? fn store(&self, value: $ty, ordering: Ordering) {
                let bits = $bits::from_ne_bytes(value.to_ne_bytes());
                // SAFETY: the reference is valid, and all accesses through it are atomic.
                unsafe { mid::[<atomic_store_ $width _ $scope>](self.as_ptr().cast(), ordering, bits) }
            }

            /// Writes `new` if the bits equal those of `current`. Returns the previous number, as `Ok` if `new` was
            /// written. One instruction serves both outcomes, so it has the stronger of the two orderings.
            ///
            #[doc = $safety]
            ///
            /// # Errors
            /// The previous number, if it is not `current`.
            #[doc(alias = "atom.cas")]
            #[inline(always)]
            pub $($unsafe)? fn compare_exchange(
                &self,
                current: $ty,
                new: $ty,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$ty, $ty> {
                let ordering = strongest(success, failure);
                // SAFETY: the reference is valid, and all accesses through it are atomic.
                let old = unsafe {
                    mid::[<atomic_compare_and_swap_ $ty _ $scope>](self.as_ptr(), current, new, ordering)
                };
                if old.to_ne_bytes() == current.to_ne_bytes() { Ok(old) } else { Err(old) }
            }
        }
    }};
}

atomics! {
    AtomicU32(u32, u32, 32, device, int), "threads of the device", "threads of the device", "";
    AtomicI32(i32, u32, 32, device, int), "threads of the device", "threads of the device", "";
    AtomicU64(u64, u64, 64, device, int), "threads of the device", "threads of the device", "";
    AtomicI64(i64, u64, 64, device, int), "threads of the device", "threads of the device", "";
    AtomicF32(f32, u32, 32, device, float), "threads of the device", "threads of the device", "";
    AtomicF64(f64, u64, 64, device, float), "threads of the device", "threads of the device", "";
    BlockAtomicU32(u32, u32, 32, block, int, unsafe), "the threads of one block", "threads of one block", "# Safety\nOnly threads of one block access the number meanwhile.";
    BlockAtomicI32(i32, u32, 32, block, int, unsafe), "the threads of one block", "threads of one block", "# Safety\nOnly threads of one block access the number meanwhile.";
    BlockAtomicU64(u64, u64, 64, block, int, unsafe), "the threads of one block", "threads of one block", "# Safety\nOnly threads of one block access the number meanwhile.";
    BlockAtomicI64(i64, u64, 64, block, int, unsafe), "the threads of one block", "threads of one block", "# Safety\nOnly threads of one block access the number meanwhile.";
    BlockAtomicF32(f32, u32, 32, block, float, unsafe), "the threads of one block", "threads of one block", "# Safety\nOnly threads of one block access the number meanwhile.";
    BlockAtomicF64(f64, u64, 64, block, float, unsafe), "the threads of one block", "threads of one block", "# Safety\nOnly threads of one block access the number meanwhile.";
    SystemAtomicU32(u32, u32, 32, system, int), "devices and host", "devices and the host", "";
    SystemAtomicI32(i32, u32, 32, system, int), "devices and host", "devices and the host", "";
    SystemAtomicU64(u64, u64, 64, system, int), "devices and host", "devices and the host", "";
    SystemAtomicI64(i64, u64, 64, system, int), "devices and host", "devices and the host", "";
    SystemAtomicF32(f32, u32, 32, system, float), "devices and host", "devices and the host", "";
    SystemAtomicF64(f64, u64, 64, system, float), "devices and host", "devices and the host", "";
}
