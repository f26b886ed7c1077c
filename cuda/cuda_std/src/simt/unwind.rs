//! Threads that unwind: the messages of their panics, and what their destructors must not do.

use core::any::Any;
use std::cell::RefCell;

use super::fault::SourceLine;

/// The message of a panic, and where.
pub(super) type Said = (String, Option<SourceLine>);

thread_local! {
    /// The last ones, oldest first: destructors may catch panics while the first one unwinds.
    static LAST: RefCell<Vec<Said>> = const { RefCell::new(Vec::new()) };
}

/// The number of panics that are kept.
const MOST_KEPT: usize = 16;

/// The message of a panic whose payload is not text.
pub(super) const NO_TEXT: &str = "a panic whose payload is not text";

/// Keeps a panic's message.
pub(super) fn keep(said: Said) {
    LAST.with(|last| {
        let mut last = last.borrow_mut();
        let excess = (last.len() + 1).saturating_sub(MOST_KEPT);
        last.drain(..excess);
        last.push(said);
    });
}

/// Returns message and location of the last panic on this OS thread.
pub(super) fn last() -> Said {
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
