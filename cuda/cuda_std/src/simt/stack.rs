//! Stacks of kernel threads.

use core::cell::Cell;
use std::io;
use std::sync::OnceLock;

use corosensei::stack::{DefaultStack, Stack, StackPointer};

/// Default bytes of a stack. Pages that are never touched cost address space only.
const DEFAULT_BYTES: usize = 256 * 1024;

/// Says otherwise, in KiB.
pub(super) const VARIABLE: &str = "FERROWARP_STACK_KIB";

/// What it may say: a panic needs the least, a process has address space for 1000 threads of the most.
const KIB: std::ops::RangeInclusive<usize> = 64..=1 << 20;

/// Bytes of a stack, the same for all stacks of the process.
pub(super) fn bytes() -> Result<usize, String> {
    static BYTES: OnceLock<Result<usize, String>> = OnceLock::new();
    let read = || {
        let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
            return Ok(DEFAULT_BYTES);
        };
        let kib = value.to_str().and_then(|value| value.parse().ok()).filter(|kib| KIB.contains(kib));
        kib.map(|kib| kib * 1024).ok_or_else(|| {
            format!(
                "{VARIABLE} is `{}`; expected KiB for the stack of a thread, from {} to {}",
                value.display(),
                KIB.start(),
                KIB.end()
            )
        })
    };
    BYTES.get_or_init(read).clone()
}

/// How far the tops of neighbouring stacks are moved apart. Stacks are page-aligned, so without this the hot
/// frames of all threads of a block would compete for the same few sets of the first-level cache.
const COLOUR_BYTES: usize = 320;

/// Distinct colours: together they span a page or more.
const COLOURS: usize = 64;

/// A stack whose top is moved down by its colour.
pub(super) struct ColouredStack {
    memory: DefaultStack,
    colour: usize,
}

// SAFETY: the stack is the wrapped one less a few kilobytes at its top; the guard page at its end stays.
unsafe impl Stack for ColouredStack {
    fn base(&self) -> StackPointer {
        let base = self.memory.base().get() - self.colour * COLOUR_BYTES;
        // The offset is a multiple of 16 and far smaller than the stack, so the result is aligned and not zero.
        StackPointer::new(base).unwrap_or_else(|| self.memory.base())
    }

    fn limit(&self) -> StackPointer {
        self.memory.limit()
    }

    #[cfg(windows)]
    fn teb_fields(&self) -> corosensei::stack::StackTebFields {
        self.memory.teb_fields()
    }

    #[cfg(windows)]
    fn update_teb_fields(&mut self, stack_limit: usize, guaranteed_stack_bytes: usize) {
        self.memory.update_teb_fields(stack_limit, guaranteed_stack_bytes);
    }
}

impl ColouredStack {
    /// A new stack, of the colour after the one that this OS thread made last.
    pub(super) fn new() -> io::Result<Self> {
        thread_local! {
            static MADE: Cell<usize> = const { Cell::new(0) };
        }
        let bytes = bytes().map_err(|reason| io::Error::new(io::ErrorKind::InvalidInput, reason))?;
        let memory = DefaultStack::new(bytes);
        let memory = memory.map_err(|error| io::Error::other(format!("{error}; launch smaller blocks")))?;
        #[cfg(all(target_os = "linux", not(miri)))]
        super::signal::watch();
        let made = MADE.replace(MADE.get() + 1);
        Ok(ColouredStack { memory, colour: made % COLOURS })
    }
}
