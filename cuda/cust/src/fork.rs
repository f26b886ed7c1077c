//! Detects that this process is the copy of one that had started the driver. The driver's handles mean nothing there, and a
//! call with one of them ends the process.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static FORKED: AtomicBool = AtomicBool::new(false);

/// Whether this process was forked after [`init`](crate::init), so that the driver cannot be used.
#[inline]
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// From now on notes a fork in the new process.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        #[cfg(unix)]
        {
            // SAFETY: the handler only stores to an atomic. If there is no memory to register it, forks are not noticed.
            let _ = unsafe { pthread_atfork(None, None, Some(note)) };
        }
    });
}

#[cfg(unix)]
extern "C" fn note() {
    FORKED.store(true, Ordering::Relaxed);
}

#[cfg(unix)]
type Handler = Option<extern "C" fn()>;

#[cfg(unix)]
unsafe extern "C" {
    fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> std::ffi::c_int;
}
