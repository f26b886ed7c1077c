//! The atomics on the host: those of `core`, which have only one scope, the whole system.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::simt::context;

/// A number of 32 or 64 bits in memory that several threads access.
pub(super) trait Cell: Copy {
    /// # Safety
    /// `ptr` is valid and aligned, and all concurrent accesses are atomic.
    unsafe fn load(ptr: *mut Self, ordering: Ordering) -> Self;

    /// # Safety
    /// Same as for `load`.
    unsafe fn store(ptr: *mut Self, value: Self, ordering: Ordering);

    /// Writes `new` if the bits equal those of `current`; returns the previous value.
    ///
    /// # Safety
    /// Same as for `load`.
    unsafe fn compare_and_swap(ptr: *mut Self, current: Self, new: Self, ordering: Ordering) -> Self;

    /// Replaces the value by `f(value)`; returns the previous value.
    ///
    /// # Safety
    /// Same as for `load`.
    unsafe fn update(ptr: *mut Self, ordering: Ordering, f: impl Fn(Self) -> Self) -> Self;
}

macro_rules! cells {
    ($($ty:ty: $atomic:ty, |$value:ident| $to:expr, |$bits:ident| $from:expr;)*) => {$(
        impl Cell for $ty {
            #[inline]
            unsafe fn load(ptr: *mut Self, ordering: Ordering) -> Self {
                context::check_time();
                // SAFETY: the caller guarantees a valid pointer.
                let $bits = unsafe { <$atomic>::from_ptr(ptr.cast()) }.load(ordering);
                $from
            }

            #[inline]
            unsafe fn store(ptr: *mut Self, $value: Self, ordering: Ordering) {
                context::check_time();
                // SAFETY: the caller guarantees a valid pointer.
                unsafe { <$atomic>::from_ptr(ptr.cast()) }.store($to, ordering);
            }

            #[inline]
            unsafe fn compare_and_swap(ptr: *mut Self, current: Self, new: Self, ordering: Ordering) -> Self {
                context::check_time();
                // SAFETY: the caller guarantees a valid pointer.
                let cell = unsafe { <$atomic>::from_ptr(ptr.cast()) };
                let current = { let $value = current; $to };
                let new = { let $value = new; $to };
                let (Ok($bits) | Err($bits)) = cell.compare_exchange(current, new, ordering, on_failure(ordering));
                $from
            }

            #[inline]
            unsafe fn update(ptr: *mut Self, ordering: Ordering, f: impl Fn(Self) -> Self) -> Self {
                context::check_time();
                // SAFETY: the caller guarantees a valid pointer.
                let cell = unsafe { <$atomic>::from_ptr(ptr.cast()) };
                let mut old = cell.load(Ordering::Relaxed);
                loop {
                    let new = { let $value = f({ let $bits = old; $from }); $to };
                    match cell.compare_exchange_weak(old, new, ordering, Ordering::Relaxed) {
                        Ok($bits) => return $from,
                        Err(changed) => old = changed,
                    }
                }
            }
        }
    )*};
}

cells! {
    u32: AtomicU32, |value| value, |bits| bits;
    i32: AtomicU32, |value| value.cast_unsigned(), |bits| bits.cast_signed();
    f32: AtomicU32, |value| value.to_bits(), |bits| f32::from_bits(bits);
    u64: AtomicU64, |value| value, |bits| bits;
    i64: AtomicU64, |value| value.cast_unsigned(), |bits| bits.cast_signed();
    f64: AtomicU64, |value| value.to_bits(), |bits| f64::from_bits(bits);
}

/// Returns the load's ordering for a compare-and-swap that does not store.
fn on_failure(ordering: Ordering) -> Ordering {
    match ordering {
        Ordering::Release => Ordering::Relaxed,
        Ordering::AcqRel => Ordering::Acquire,
        other => other,
    }
}
