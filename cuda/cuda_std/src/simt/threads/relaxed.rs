//! State that threads share without being ordered by it.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::sleep;

/// A number whose readers see the last value written, although no access orders anything.
///
/// A relaxed load may see an old value; a relaxed read-modify-write sees the last one (C++ standard, "order and
/// consistency": atomic read-modify-write operations), so that is what a read is here.
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

    /// Adds, wrapping; the number afterwards.
    #[inline]
    pub fn add(&self, value: u64) -> u64 {
        self.0.fetch_add(value, Ordering::Relaxed).wrapping_add(value)
    }

    /// Subtracts, wrapping; the number afterwards.
    #[inline]
    pub fn sub(&self, value: u64) -> u64 {
        self.add(value.wrapping_neg())
    }
}

/// A lock that keeps others out and orders nothing. What it guards is [`Relaxed64`].
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

    /// Others may have asked for it; the swap has discarded that.
    #[cold]
    fn wait(&self) {
        while self.0.swap(Self::WANTED, Ordering::Relaxed) != Self::FREE {
            sleep::while_is(&self.0, Self::WANTED);
        }
    }

    /// Lets another one take it.
    #[inline]
    pub fn free(&self) {
        if self.0.swap(Self::FREE, Ordering::Relaxed) == Self::WANTED {
            sleep::wake(&self.0, 1);
        }
    }
}
