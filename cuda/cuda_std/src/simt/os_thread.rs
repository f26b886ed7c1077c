//! Threads of the operating system, which can be signalled.

/// A thread of the operating system.
#[derive(PartialEq)]
pub(super) struct OsThread(libc::pthread_t);

impl OsThread {
    /// Returns the calling thread.
    pub fn current() -> Self {
        // SAFETY: the call has no precondition.
        Self(unsafe { libc::pthread_self() })
    }

    /// Ends the program from this thread if it runs a kernel whose launch is over its time limit. The thread must be alive.
    pub fn end_in_kernel(&self) {
        // SAFETY: the caller guarantees that the thread is alive, and the handler recognises the signal.
        unsafe { libc::pthread_kill(self.0, libc::SIGSEGV) };
    }
}
