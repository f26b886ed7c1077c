//! State that threads share without being ordered by it.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::sleep;

/// A number whose readers see the last value written, although no access orders anything.
///
/// A relaxed load may see an old value; a relaxed read-modify-write sees the last one (C++ standard, "order and
/// consistency": atomic read-modify-write operations), so every read here is one.
#[derive(Default)]
pub(super) struct Relaxed64(AtomicU64);

impl Relaxed64 {
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.fetch_add(0, Ordering::Relaxed)
    }

    #[inline]
    pub fn set(&self, value: u64) {
        self.0.swap(value, Ordering::Relaxed);
    }

    /// Adds, wrapping; returns the new number.
    #[inline]
    pub fn add(&self, value: u64) -> u64 {
        self.0.fetch_add(value, Ordering::Relaxed).wrapping_add(value)
    }

    /// Subtracts, wrapping; returns the new number.
    #[inline]
    pub fn sub(&self, value: u64) -> u64 {
        self.add(value.wrapping_neg())
    }
}

/// A lock that excludes other threads but orders nothing. It guards [`Relaxed64`] numbers.
#[derive(Default)]
pub(super) struct Relaxed32(AtomicU32);

impl Relaxed32 {
    const FREE: u32 = 0;
    const TAKEN: u32 = 1;
    /// Taken, and others may sleep until it is free.
    const WANTED: u32 = 2;

    /// Waits until it is free, and takes it.
    #[inline]
    pub fn take(&self) {
        if self.0.swap(Self::TAKEN, Ordering::Relaxed) != Self::FREE {
            self.wait();
        }
    }

    /// Other threads may wait for it, which the swap has discarded.
    #[cold]
    fn wait(&self) {
        while self.0.swap(Self::WANTED, Ordering::Relaxed) != Self::FREE {
            sleep::while_is(&self.0, Self::WANTED);
        }
    }

    /// Releases it.
    #[inline]
    pub fn free(&self) {
        if self.0.swap(Self::FREE, Ordering::Relaxed) == Self::WANTED {
            sleep::wake(&self.0, 1);
        }
    }
}
