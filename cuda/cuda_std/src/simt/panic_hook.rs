//! Panics of kernel threads are results, not output: the hook keeps them for the fault instead of printing. While a
//! thread unwinds, its destructors' calls must not panic again.

use core::any::Any;
use std::cell::RefCell;
use std::sync::Once;

use super::context::{self, ThreadContext};
use super::fault::{Fault, FaultKind, SourceLine};
use super::watch::Whose;

/// The message of a panic, and where.
type Said = (String, Option<SourceLine>);

thread_local! {
    /// The last ones, oldest first: destructors may catch panics while the first one unwinds.
    static LAST: RefCell<Vec<Said>> = const { RefCell::new(Vec::new()) };
}

/// The number of panics that are kept.
const MOST_KEPT: usize = 16;

/// The message of a panic whose payload is not text.
const NO_TEXT: &str = "a panic whose payload is not text";

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
            let message = info.payload_as_str().unwrap_or(NO_TEXT);
            if ABORTS.contains(&message) {
                return context::with_running(|thread| print(thread, last(), &format!(": {message}")));
            }
            let said = (message.to_owned(), info.location().map(SourceLine::from));
            if cfg!(panic = "abort") || CHECKS.iter().any(|check| message.starts_with(check)) {
                return context::with_running(|thread| print(thread, said, ""));
            }
            LAST.with(|last| {
                let mut last = last.borrow_mut();
                let excess = (last.len() + 1).saturating_sub(MOST_KEPT);
                last.drain(..excess);
                last.push(said);
            });
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

/// Returns message and location of the last panic on this OS thread.
fn last() -> Said {
    LAST.with(|last| last.borrow_mut().pop()).unwrap_or_else(|| ("a panic without a message".into(), None))
}

/// Returns message and location of the panic with this payload, which was caught on this OS thread.
pub(super) fn take(payload: &(dyn Any + Send)) -> Said {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or(NO_TEXT);
    let kept = LAST.with(|last| core::mem::take(&mut *last.borrow_mut()));
    let found = kept.into_iter().rev().find(|(message, _)| message == text);
    found.unwrap_or_else(|| (text.to_owned(), None))
}

/// Returns whether the running kernel thread unwinds, so that this is a call by a destructor. Such a call must not wait:
/// other threads would run as part of the unwinding, and those that it waits for may have ended. It must not panic either:
/// that would end the program, and the first fault would be lost.
#[inline(always)]
pub(crate) fn unwinds() -> bool {
    std::thread::panicking()
}

/// Panics with the reason, unless the thread [`unwinds`].
#[cold]
#[track_caller]
pub(crate) fn refuse(name: &str, reason: &str) {
    if !unwinds() {
        panic!("{name}{reason}");
    }
}
