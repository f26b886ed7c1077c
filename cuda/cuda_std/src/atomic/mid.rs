//! Atomic operations with an ordering argument, one per operation, type and scope.
//!
//! Rust's orderings map to the PTX memory model as follows: relaxed, acquire, release and acq_rel are qualifiers of the
//! instruction; SeqCst is `fence.sc` at the same scope before the acquire form (for a store, before the relaxed form),
//! as CUDA compiles its own C++ atomics.
//!
//! Pointers have the safety contract of [`super::intrinsics`].

use super::intrinsics;
use core::sync::atomic::Ordering;
use pastey::paste;

/// Panics on an ordering that the operation cannot have.
#[cold]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn refuse(message: &'static str) -> ! {
    panic!("{message}")
}

macro_rules! atomic_scopes {
    ($($scope:ident $what:literal;)*) => {paste!{$(
        #[doc = concat!("Orders this thread's memory accesses before and after, as the threads of ", $what, " see them.")]
        ///
        /// `Relaxed` does nothing; `SeqCst` is `fence.sc`; the others are `fence.acq_rel`.
        #[inline(always)]
        pub fn [<$scope _thread_fence>](ordering: Ordering) {
            // SAFETY: a fence has no precondition.
            unsafe {
                match ordering {
                    Ordering::Relaxed => {}
                    Ordering::SeqCst => intrinsics::[<fence_sc_ $scope>](),
                    _ => intrinsics::[<fence_acqrel_ $scope>](),
                }
            }
        }

        atomic_scopes! { @words $scope 32 u32, 64 u64 }
        atomic_scopes! { @fetch $scope
            and u32, and u64, and i32, and i64, and f32, and f64,
            or u32, or u64, or i32, or i64, or f32, or f64,
            xor u32, xor u64, xor i32, xor i64, xor f32, xor f64,
            add u32, add u64, add i32, add i64, add f32, add f64,
            min u32, min u64, min i32, min i64,
            max u32, max u64, max i32, max i64,
            exch u32, exch u64, exch i32, exch i64, exch f32, exch f64,
            inc u32, dec u32
        }
        atomic_scopes! { @sub $scope
            u32 |value| value.wrapping_neg(), u64 |value| value.wrapping_neg(),
            i32 |value| value.wrapping_neg(), i64 |value| value.wrapping_neg(),
            f32 |value| -value, f64 |value| -value
        }
        atomic_scopes! { @cas $scope u32, u64, i32, i64, f32, f64 }
    )*}};
    (@words $scope:ident $($width:literal $ty:ident),*) => {paste!{$(
        #[doc = concat!("Reads a `", stringify!($ty), "`.")]
        ///
        /// # Safety
        /// See [`intrinsics`].
        ///
        /// # Panics
        /// If `ordering` is `Release` or `AcqRel`, which a load cannot have.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn [<atomic_load_ $width _ $scope>](ptr: *mut $ty, ordering: Ordering) -> $ty {
            // SAFETY: the caller guarantees a valid pointer.
            unsafe {
                match ordering {
                    Ordering::Relaxed => intrinsics::[<atomic_load_relaxed_ $width _ $scope>](ptr),
                    Ordering::Acquire => intrinsics::[<atomic_load_acquire_ $width _ $scope>](ptr),
                    Ordering::SeqCst => {
                        intrinsics::[<fence_sc_ $scope>]();
                        intrinsics::[<atomic_load_acquire_ $width _ $scope>](ptr)
                    }
                    _ => refuse("an atomic load is Relaxed, Acquire or SeqCst"),
                }
            }
        }

        #[doc = concat!("Writes a `", stringify!($ty), "`.")]
        ///
        /// # Safety
        /// See [`intrinsics`].
        ///
        /// # Panics
        /// If `ordering` is `Acquire` or `AcqRel`, which a store cannot have.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn [<atomic_store_ $width _ $scope>](ptr: *mut $ty, ordering: Ordering, value: $ty) {
            // SAFETY: the caller guarantees a valid pointer.
            unsafe {
                match ordering {
                    Ordering::Relaxed => intrinsics::[<atomic_store_relaxed_ $width _ $scope>](ptr, value),
                    Ordering::Release => intrinsics::[<atomic_store_release_ $width _ $scope>](ptr, value),
                    Ordering::SeqCst => {
                        intrinsics::[<fence_sc_ $scope>]();
                        intrinsics::[<atomic_store_relaxed_ $width _ $scope>](ptr, value);
                    }
                    _ => refuse("an atomic store is Relaxed, Release or SeqCst"),
                }
            }
        }
    )*}};
    (@fetch $scope:ident $($op:ident $ty:ident),*) => {paste!{$(
        #[doc = concat!("The operation `", stringify!($op), "` on a `", stringify!($ty), "`; returns the value before.")]
        ///
        /// # Safety
        /// See [`intrinsics`].
        #[inline(always)]
        pub unsafe fn [<atomic_fetch_ $op _ $ty _ $scope>](ptr: *mut $ty, ordering: Ordering, value: $ty) -> $ty {
            // SAFETY: the caller guarantees a valid pointer.
            unsafe {
                match ordering {
                    Ordering::Relaxed => intrinsics::[<atomic_fetch_ $op _relaxed_ $ty _ $scope>](ptr, value),
                    Ordering::Acquire => intrinsics::[<atomic_fetch_ $op _acquire_ $ty _ $scope>](ptr, value),
                    Ordering::Release => intrinsics::[<atomic_fetch_ $op _release_ $ty _ $scope>](ptr, value),
                    Ordering::AcqRel => intrinsics::[<atomic_fetch_ $op _acqrel_ $ty _ $scope>](ptr, value),
                    _ => {
                        intrinsics::[<fence_sc_ $scope>]();
                        intrinsics::[<atomic_fetch_ $op _acquire_ $ty _ $scope>](ptr, value)
                    }
                }
            }
        }
    )*}};
    (@sub $scope:ident $($ty:ident |$value:ident| $negated:expr),*) => {paste!{$(
        #[doc = concat!("Subtracts from a `", stringify!($ty), "` by adding the negated value; returns the value before.")]
        ///
        /// # Safety
        /// See [`intrinsics`].
        #[inline(always)]
        pub unsafe fn [<atomic_fetch_sub_ $ty _ $scope>](ptr: *mut $ty, ordering: Ordering, $value: $ty) -> $ty {
            // SAFETY: the caller guarantees a valid pointer.
            unsafe { [<atomic_fetch_add_ $ty _ $scope>](ptr, ordering, $negated) }
        }
    )*}};
    (@cas $scope:ident $($ty:ident),*) => {paste!{$(
        /// Writes `new` if the bits equal those of `current`; returns the previous value.
        ///
        /// # Safety
        /// See [`intrinsics`].
        #[inline(always)]
        pub unsafe fn [<atomic_compare_and_swap_ $ty _ $scope>](
            ptr: *mut $ty,
            current: $ty,
            new: $ty,
            ordering: Ordering,
        ) -> $ty {
            // SAFETY: the caller guarantees a valid pointer.
            unsafe {
                match ordering {
                    Ordering::Relaxed => intrinsics::[<atomic_fetch_cas_relaxed_ $ty _ $scope>](ptr, current, new),
                    Ordering::Acquire => intrinsics::[<atomic_fetch_cas_acquire_ $ty _ $scope>](ptr, current, new),
                    Ordering::Release => intrinsics::[<atomic_fetch_cas_release_ $ty _ $scope>](ptr, current, new),
                    Ordering::AcqRel => intrinsics::[<atomic_fetch_cas_acqrel_ $ty _ $scope>](ptr, current, new),
                    _ => {
                        intrinsics::[<fence_sc_ $scope>]();
                        intrinsics::[<atomic_fetch_cas_acquire_ $ty _ $scope>](ptr, current, new)
                    }
                }
            }
        }
    )*}};
}

atomic_scopes! {
    block "its block";
    device "the device";
    system "all devices and of the host";
}
