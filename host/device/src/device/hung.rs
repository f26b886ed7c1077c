//! Remembers whether a device was abandoned with work that may never end.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

static HUNG: AtomicBool = AtomicBool::new(false);

/// Notes that a device of this process was abandoned.
pub(super) fn note() {
    HUNG.store(true, Ordering::Relaxed);
}

/// Ends the process with `code` if a device exceeded its time limit or was lost; otherwise does nothing. Call it last in
/// `main`, after printing the error. The driver's exit handlers would wait for a kernel that never ends; this skips them.
/// The operating system then removes the kernel and its memory with the process.
///
/// Standard output and error are flushed; no destructor runs.
///
/// ```
/// use ferrowarp::device::exit_if_hung;
///
/// // The last line of `main`: nothing happens unless a GPU was left with work that may never end.
/// exit_if_hung(1);
/// ```
pub fn exit_if_hung(code: u8) {
    if HUNG.load(Ordering::Relaxed) {
        // Errors of closed outputs are ignored.
        let _ = std::io::stdout().flush();
        let _ = std::io::stderr().flush();
        cust::exit_at_once(code);
    }
}
