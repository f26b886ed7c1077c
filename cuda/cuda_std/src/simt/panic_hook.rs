//! Panics of kernel threads are results, not output: the hook keeps them for the fault instead of printing.

use std::sync::Once;

use super::context::{self, ThreadContext};
use super::fault::{Fault, FaultKind, SourceLine};
use super::unwind;
use super::watch::Whose;

/// The messages of the standard library before it aborts: for a panic that leaves a destructor while another one
/// unwinds, and for one that leaves a function that must not unwind.
const ABORTS: [&str; 2] = ["panic in a destructor during cleanup", "panic in a function that cannot unwind"];

/// The starts of the messages of checks that abort without unwinding. Debug builds check pointers and unsafe functions of `core`.
const CHECKS: [&str; 4] = [
    "unsafe precondition(s) violated",
    "misaligned pointer dereference",
    "null pointer dereference",
    "trying to construct an enum from an invalid value",
];

/// Installs the hook, once. Panics outside kernels go to the hook that was there before.
pub(super) fn install() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !context::is_inside() {
                return previous(info);
            }
            let message = info.payload_as_str().unwrap_or(unwind::NO_TEXT);
            if ABORTS.contains(&message) {
                return context::with_running(|thread| {
                    print(thread, unwind::last(), &format!(": {message}"))
                });
            }
            let said = (message.to_owned(), info.location().map(SourceLine::from));
            if cfg!(panic = "abort") || CHECKS.iter().any(|check| message.starts_with(check)) {
                return context::with_running(|thread| print(thread, said, ""));
            }
            unwind::keep(said);
        }));
    });
}

/// Prints a thread's panic before the program is aborted.
fn print(thread: &ThreadContext<'_>, (message, location): unwind::Said, why: &str) {
    let Whose { kernel, place } = thread.whose();
    let (kind, seed) = (FaultKind::Panic { message }, thread.grid().seed);
    let fault = Fault { kernel, place, location, kind, seed };
    eprintln!("error: {fault}; this ends the program{why}");
}
