//! Memory of a test, between guard zones.
//!
//! When a kernel thread touches a zone, the signal handler in `signal.rs` notes the access here and opens the zone. So
//! the kernel goes on, and the test can name the thread.

pub(crate) use system::Region;

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use core::cell::UnsafeCell;
    use core::ptr;
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::super::watch::{Stray, Whose};

    /// Bytes of each zone: only address space, as long as it is not written.
    const ZONE: usize = 256 << 20;

    /// Alignment of the memory, and of a buffer within.
    const ALIGNMENT: usize = 256;

    /// No thread has touched a zone.
    const NONE: u8 = 0;
    /// A thread is writing which one it is.
    const CLAIMED: u8 = 1;
    /// The thread has written it.
    const NOTED: u8 = 2;

    /// Memory that ends where the zone after it begins, and begins less than a page after the zone before it.
    pub(crate) struct Region {
        /// The mapping: a zone, the memory, a zone.
        map: *mut u8,
        map_len: usize,
        first: *mut u8,
        state: AtomicU8,
        stray: UnsafeCell<Option<Stray>>,
    }

    // SAFETY: the memory belongs to the test's kernels. The thread that claims `stray` writes it, before any reads.
    unsafe impl Send for Region {}
    // SAFETY: the thread that claims `stray` writes it, before any reads.
    unsafe impl Sync for Region {}

    impl Region {
        /// Allocates memory with a copy of `bytes`; `None` if the system has no address space for the zones.
        pub fn new(bytes: &[u8]) -> Option<Self> {
            let region = Self::zeroed(bytes.len())?;
            // SAFETY: the new memory has that many bytes, and no other code uses it.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), region.first, bytes.len()) };
            Some(region)
        }

        /// Allocates `len` zero bytes; `None` if the system has no address space for the zones.
        pub fn zeroed(len: usize) -> Option<Self> {
            // SAFETY: the call has no precondition.
            let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
            let middle = len.checked_next_multiple_of(page)?;
            let map_len = middle.checked_add(2 * ZONE)?;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a new mapping, which overlaps nothing.
            let map = unsafe { libc::mmap(ptr::null_mut(), map_len, libc::PROT_NONE, flags, -1, 0) };
            if map == libc::MAP_FAILED {
                return None;
            }
            let start = middle - len.next_multiple_of(ALIGNMENT);
            let first = map.cast::<u8>().wrapping_add(ZONE + start);
            let state = AtomicU8::new(NONE);
            // From here on, dropping the value unmaps the memory.
            let region = Self { map: map.cast(), map_len, first, state, stray: UnsafeCell::new(None) };
            // SAFETY: whole pages of the mapping, between the zones.
            let opened =
                unsafe { libc::mprotect(map.byte_add(ZONE), middle, libc::PROT_READ | libc::PROT_WRITE) };
            (opened == 0).then_some(region)
        }

        /// Returns a pointer to the first byte.
        pub fn pointer(&self) -> *mut u8 {
            self.first
        }

        /// Returns the first access to a zone by a thread of a kernel.
        pub fn stray(&self) -> Option<Stray> {
            // SAFETY: the thread that claimed it has written it, and none writes it again.
            (self.state.load(Ordering::Acquire) == NOTED).then(|| unsafe { *self.stray.get() })?
        }

        /// Closes the zones again and forgets the access that opened one. No launch uses the memory now.
        pub fn close(&self) {
            for start in [0, self.map_len - ZONE] {
                // SAFETY: a zone of this mapping, in which nothing lies; its pages are dropped with what was written.
                unsafe {
                    libc::madvise(self.map.add(start).cast(), ZONE, libc::MADV_DONTNEED);
                    libc::mprotect(self.map.add(start).cast(), ZONE, libc::PROT_NONE);
                }
            }
            self.state.store(NONE, Ordering::Release);
        }

        /// Notes the thread's access and opens the zone, if it is one of this memory. Returns whether the thread can go on.
        ///
        /// Allocates nothing and takes no lock, since a signal handler calls it.
        pub fn note(&self, whose: impl FnOnce() -> Whose, address: usize, is_write: Option<bool>) -> bool {
            let offset = address.wrapping_sub(self.map as usize);
            if offset >= self.map_len {
                return false;
            }
            let is_first =
                self.state.compare_exchange(NONE, CLAIMED, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            if is_first {
                let offset = address.wrapping_sub(self.first as usize).cast_signed();
                // SAFETY: only this thread has claimed it.
                unsafe { *self.stray.get() = Some(Stray { whose: whose(), offset, is_write }) };
                self.state.store(NOTED, Ordering::Release);
            }
            let start = if offset < ZONE { 0 } else { self.map_len - ZONE };
            // SAFETY: a zone of this mapping, in which nothing lies.
            let opened = unsafe {
                libc::mprotect(self.map.add(start).cast(), ZONE, libc::PROT_READ | libc::PROT_WRITE)
            };
            opened == 0
        }
    }

    impl Drop for Region {
        fn drop(&mut self) {
            // SAFETY: the mapping belongs to this value.
            unsafe { libc::munmap(self.map.cast(), self.map_len) };
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    use super::super::watch::Stray;

    /// There is no such memory here.
    pub(crate) enum Region {}

    impl Region {
        pub fn new(_: &[u8]) -> Option<Self> {
            None
        }

        pub fn zeroed(_: usize) -> Option<Self> {
            None
        }

        pub fn close(&self) {
            match *self {}
        }

        pub fn pointer(&self) -> *mut u8 {
            match *self {}
        }

        pub fn stray(&self) -> Option<Stray> {
            match *self {}
        }
    }
}
