//! Panics of kernel threads are results, not output: the hook keeps them for the fault instead of printing.

use std::cell::RefCell;
use std::sync::Once;

use super::context::{self, ThreadContext};
use super::fault::{Fault, FaultKind, SourceLine};
use super::watch::Whose;

/// The message of a panic, and where.
type Said = (String, Option<SourceLine>);

thread_local! {
    static LAST: RefCell<Option<Said>> = const { RefCell::new(None) };
}

/// The messages of the standard library before it aborts: for a panic that leaves a destructor while another one
/// unwinds, and for one that leaves a function that must not unwind.
const ABORTS: [&str; 2] = ["panic in a destructor during cleanup", "panic in a function that cannot unwind"];

/// Installs the hook, once. Panics outside kernels go to the hook that was there before.
pub(super) fn install() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !context::is_inside() {
                return previous(info);
            }
            let message = info.payload_as_str().unwrap_or("a panic whose payload is not text");
            if ABORTS.contains(&message) {
                return context::with_running(|thread| print(thread, take(), &format!(": {message}")));
            }
            let said = (message.to_owned(), info.location().map(SourceLine::from));
            if cfg!(panic = "abort") {
                return context::with_running(|thread| print(thread, said, ""));
            }
            LAST.with(|last| *last.borrow_mut() = Some(said));
        }));
    });
}

/// Prints a thread's panic before the program is aborted.
fn print(thread: &ThreadContext<'_>, (message, location): Said, why: &str) {
    let Whose { kernel, place } = Whose::of(thread);
    let (kind, seed) = (FaultKind::Panic { message }, thread.grid().seed);
    let fault = Fault { kernel, place, location, kind, seed };
    eprintln!("error: {fault}; this ends the program{why}");
}

/// Returns message and location of the panic that was caught last on this OS thread.
pub(super) fn take() -> Said {
    LAST.with(|last| last.borrow_mut().take()).unwrap_or_else(|| ("a panic without a message".into(), None))
}
