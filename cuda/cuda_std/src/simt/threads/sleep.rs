//! Waiting until another thread changes a number, without being ordered after it.
//!
//! What the standard library has for it orders: the one that wakes a thread comes before what that thread does next. On
//! Linux a `futex` is called as it is, which the sanitizers do not take for an order. Miri does, and takes turns
//! instead; other systems sleep for a while.

use core::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The longest sleep: how late a thread sees that the grid has been stopped.
const LONGEST: Duration = Duration::from_millis(800);

/// How long a thread sleeps unless it is woken: the time it takes to wake others.
const BETWEEN_LOOKS: Duration = Duration::from_micros(20);

/// What a thread sleeps at until it is rung for.
#[derive(Default)]
pub(super) struct Bell(AtomicU32);

impl Bell {
    /// How often it has been rung: to be asked before the thread looks whether it has to wait.
    pub fn rings(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps until it is rung more often, or for a while.
    pub fn wait(&self, rings: u32) {
        while_is(&self.0, rings);
    }

    /// Wakes the one that sleeps here.
    pub fn ring(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        wake(&self.0, 1);
    }
}

/// Sleeps while the number is `seen`, or until it may have changed.
pub(super) fn while_is(number: &AtomicU32, seen: u32) {
    if cfg!(miri) {
        return yield_now();
    }
    system::while_is(number, seen);
}

/// Lets other threads run before a thread looks again at what they write.
pub(super) fn between_looks() {
    if cfg!(miri) {
        return yield_now();
    }
    std::thread::sleep(BETWEEN_LOOKS);
}

/// Lets other threads run.
pub(super) fn yield_now() {
    // SAFETY: the call has no arguments. Miri takes a fourth of the steps for it that it takes for the standard library's.
    #[cfg(all(miri, unix))]
    unsafe {
        libc::sched_yield()
    };
    #[cfg(not(all(miri, unix)))]
    std::thread::yield_now();
}

/// Wakes as many of those that sleep at the number.
pub(super) fn wake(number: &AtomicU32, threads: i32) {
    if !cfg!(miri) {
        system::wake(number, threads);
    }
}

#[cfg(target_os = "linux")]
mod system {
    use super::{AtomicU32, LONGEST};

    pub(super) fn while_is(number: &AtomicU32, seen: u32) {
        let longest = libc::timespec { tv_sec: 0, tv_nsec: LONGEST.subsec_nanos().into() };
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the number and the time live as long as the call; it reads them and nothing else (futex(2)). Why it
        // returns makes no difference: the caller looks again.
        unsafe { libc::syscall(libc::SYS_futex, number.as_ptr(), operation, seen, &raw const longest) };
    }

    pub(super) fn wake(number: &AtomicU32, threads: i32) {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the number's address is all that the call uses (futex(2)).
        unsafe { libc::syscall(libc::SYS_futex, number.as_ptr(), operation, threads) };
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{AtomicU32, LONGEST};

    pub(super) fn while_is(_number: &AtomicU32, _seen: u32) {
        std::thread::sleep(LONGEST / 1600);
    }

    pub(super) fn wake(_number: &AtomicU32, _threads: i32) {}
}
