//! Waiting until another thread changes a number, without being ordered after it.
//!
//! The standard library's ways to wait order: what a thread did before it wakes another comes before what that one does
//! next. On Linux this calls `futex` directly, which the sanitizers do not treat as an order. Miri does, so threads
//! yield there instead; other systems sleep for a while.

use core::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The longest sleep, after which a thread sees that the grid has been stopped.
const LONGEST: Duration = Duration::from_millis(800);

/// How long a thread sleeps between two checks: the time it takes to wake others.
const BETWEEN_LOOKS: Duration = Duration::from_micros(20);

/// A thread sleeps here until another one rings.
#[derive(Default)]
pub(super) struct Bell(AtomicU32);

impl Bell {
    /// Returns the number of rings. Call it before checking whether to wait.
    pub fn rings(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps until it has rung more than `rings` times, or for a while.
    pub fn wait(&self, rings: u32) {
        while_is(&self.0, rings);
    }

    /// Wakes the thread that sleeps here.
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

/// Lets other threads run between two checks of what they write.
pub(super) fn between_looks() {
    if cfg!(miri) {
        return yield_now();
    }
    std::thread::sleep(BETWEEN_LOOKS);
}

/// Lets other threads run.
pub(super) fn yield_now() {
    // SAFETY: the call has no arguments. Miri takes a quarter of the steps that it takes for the standard library's call.
    #[cfg(all(miri, unix))]
    unsafe {
        libc::sched_yield()
    };
    #[cfg(not(all(miri, unix)))]
    std::thread::yield_now();
}

/// Wakes up to `threads` threads that sleep at the number.
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
        // SAFETY: the number and the time live as long as the call; it reads them and nothing else (futex(2)). The
        // caller checks again, whatever the reason for its return.
        unsafe { libc::syscall(libc::SYS_futex, number.as_ptr(), operation, seen, &raw const longest) };
    }

    pub(super) fn wake(number: &AtomicU32, threads: i32) {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the call uses only the number's address (futex(2)).
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
