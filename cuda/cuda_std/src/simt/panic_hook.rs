//! Panics of kernel threads are results, not output: the hook keeps them for the fault instead of printing.

use std::cell::RefCell;
use std::sync::Once;

use super::context;
use super::fault::SourceLine;

thread_local! {
    static LAST: RefCell<Option<(String, Option<SourceLine>)>> = const { RefCell::new(None) };
}

/// Installs the hook, once. Panics outside kernels go to the hook that was there before.
pub(super) fn install() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if context::is_inside() {
                let message = info.payload_as_str().unwrap_or("a panic whose payload is no text").to_string();
                let location = info.location().map(SourceLine::from);
                LAST.with(|last| *last.borrow_mut() = Some((message, location)));
            } else {
                previous(info);
            }
        }));
    });
}

/// Message and place of the panic that was caught last on this OS thread.
pub(super) fn take() -> (String, Option<SourceLine>) {
    LAST.with(|last| last.borrow_mut().take()).unwrap_or_else(|| ("a panic without a message".into(), None))
}
