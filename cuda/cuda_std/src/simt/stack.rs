//! Stacks of kernel threads.

use core::cell::Cell;
use std::io;
use std::sync::{Mutex, OnceLock};

use corosensei::stack::{Stack, StackPointer};

#[cfg(all(target_os = "linux", not(miri)))]
use guarded::Memory;

#[cfg(not(all(target_os = "linux", not(miri))))]
use corosensei::stack::DefaultStack as Memory;

/// Default bytes of a stack. Pages that are never touched cost address space only.
const DEFAULT_BYTES: usize = 256 * 1024;

/// The environment variable that sets another size, in KiB.
pub(super) const VARIABLE: &str = "FERROWARP_STACK_KIB";

/// The range of the size: a panic needs the least, and a process has address space for 1000 threads with the most.
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

/// The distance by which the tops of neighbouring stacks are moved apart. Stacks are page-aligned, so without this the
/// hot frames of all threads of a block would compete for the same few sets of L1.
const COLOUR_BYTES: usize = 320;

/// Distinct colours: together they span a page or more.
const COLOURS: usize = 64;

/// A stack whose top is moved down by its colour.
pub(super) struct ColouredStack {
    memory: Memory,
    colour: usize,
}

// SAFETY: the stack is the wrapped one minus a few kilobytes at its top; the guard page at its end stays.
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

/// The number of stacks without a fiber that are kept, where a guard page needs no mapping of its own.
const MOST_IDLE: usize = 24_000;

/// Stacks without a fiber, of OS threads that have ended or had too many. Who finds this locked goes on without.
static IDLE: Mutex<Vec<ColouredStack>> = Mutex::new(Vec::new());

impl ColouredStack {
    /// Returns a kept stack, or a new one.
    pub(super) fn take() -> io::Result<Self> {
        IDLE.try_lock().ok().and_then(|mut idle| idle.pop()).map_or_else(Self::new, Ok)
    }

    /// Keeps the stack for another fiber.
    pub(super) fn give_back(self) {
        if !guards_are_mappings()
            && let Ok(mut idle) = IDLE.try_lock()
            && idle.len() < MOST_IDLE
        {
            idle.push(self);
        }
    }

    /// Creates a stack with the colour after that of this OS thread's last one.
    fn new() -> io::Result<Self> {
        thread_local! {
            static MADE: Cell<usize> = const { Cell::new(0) };
        }
        let bytes = bytes().map_err(|reason| io::Error::new(io::ErrorKind::InvalidInput, reason))?;
        let memory = Memory::new(bytes);
        let memory = memory.map_err(|error| io::Error::other(format!("{error}; launch smaller blocks")))?;
        let made = MADE.replace(MADE.get() + 1);
        Ok(ColouredStack { memory, colour: made % COLOURS })
    }
}

/// Returns whether a guard page may need a mapping of its own.
fn guards_are_mappings() -> bool {
    #[cfg(all(target_os = "linux", not(miri)))]
    return Memory::guards_are_mappings();
    #[cfg(not(all(target_os = "linux", not(miri))))]
    return true;
}

#[cfg(all(target_os = "linux", not(miri)))]
mod guarded {
    use core::ptr;
    use std::io;
    use std::sync::OnceLock;

    use corosensei::stack::{MIN_STACK_SIZE, Stack, StackPointer};

    /// Makes pages fault without a separate mapping (Linux 6.13; madvise(2)).
    const MADV_GUARD_INSTALL: libc::c_int = 102;

    /// Memory of a stack above a guard page.
    ///
    /// Linux gives a process 65530 mappings. A guard page with its own mapping splits the memory around it, so 28 Ki
    /// stacks use up all mappings. With guards inside a mapping, neighbouring stacks share one.
    pub struct Memory {
        top: StackPointer,
        len: usize,
    }

    impl Memory {
        /// Returns whether the system is too old for guards inside a mapping.
        pub fn guards_are_mappings() -> bool {
            static ARE: OnceLock<bool> = OnceLock::new();
            *ARE.get_or_init(|| {
                let Ok(memory) = Self::new(MIN_STACK_SIZE) else { return true };
                let page = ptr::without_provenance_mut(memory.top.get() - memory.len);
                // SAFETY: it has its guard already, and a second one changes nothing.
                unsafe { libc::madvise(page, 1, MADV_GUARD_INSTALL) != 0 }
            })
        }

        pub fn new(bytes: usize) -> io::Result<Self> {
            // SAFETY: the call has no precondition.
            let page =
                usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).map_err(io::Error::other)?;
            let len = bytes.max(MIN_STACK_SIZE).next_multiple_of(page) + page;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a new mapping, which overlaps nothing.
            let map =
                unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
            if map == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let top = StackPointer::new(map as usize + len).ok_or_else(|| io::Error::other("no address"))?;
            // From here on, dropping the value unmaps the memory.
            let memory = Self { top, len };
            // SAFETY: the first page of the new mapping, which nothing uses yet.
            let is_guarded = unsafe {
                libc::madvise(map, page, MADV_GUARD_INSTALL) == 0
                    || libc::mprotect(map, page, libc::PROT_NONE) == 0
            };
            if is_guarded { Ok(memory) } else { Err(io::Error::last_os_error()) }
        }
    }

    // SAFETY: the memory is readable and writable from its top down to the guard page, and belongs only to this value.
    unsafe impl Stack for Memory {
        fn base(&self) -> StackPointer {
            self.top
        }

        fn limit(&self) -> StackPointer {
            // The mapping does not begin at address 0.
            StackPointer::new(self.top.get() - self.len).unwrap_or(self.top)
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: the whole mapping, on which no fiber runs any more.
            unsafe { libc::munmap(ptr::without_provenance_mut(self.top.get() - self.len), self.len) };
        }
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::{ColouredStack, Memory};

    fn mappings() -> usize {
        std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
    }

    #[test]
    fn many_stacks_are_few_mappings_where_guards_need_none() {
        let before = mappings();
        let stacks: Vec<ColouredStack> = (0..2000).map(|_| ColouredStack::new().unwrap()).collect();
        let of_stacks = mappings().saturating_sub(before);
        drop(stacks);
        if Memory::guards_are_mappings() {
            assert!(of_stacks <= 2 * 2000 + 100, "{of_stacks}");
        } else {
            assert!(of_stacks < 100, "{of_stacks}");
        }
        assert!(mappings() < before + 100);
    }
}
