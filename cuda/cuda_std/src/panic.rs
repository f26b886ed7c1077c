//! Panics on the device: a panic writes one [`PanicRecord`] for the host, and traps.
//!
//! The message is a constant, because formatting is too expensive for a kernel. From a message with arguments the
//! builder keeps the text, with `{}` for each argument.

use crate::atomic::intrinsics::{
    atomic_fetch_cas_acquire_u32_system, atomic_load_acquire_32_system, atomic_store_release_32_system,
};
use crate::panic_record::PanicRecord;
use crate::thread;
use core::alloc::Layout;
use core::panic::{Location, PanicInfo};

/// The address of the record. The host writes it before it launches kernels; null means no record.
#[unsafe(no_mangle)]
pub static mut __ferrowarp_panic_slot: *mut PanicRecord = core::ptr::null_mut();

/// The message of a panic without a constant message.
const FORMATTED: &str = "a panic with a formatted message, which a kernel cannot format";

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let message = info.message().as_str().unwrap_or(FORMATTED);
    report(PanicRecord::MESSAGE, message, 0, 0, info.location())
}

/// Reports an index out of bounds. The builder makes `core`'s bounds check call it, so that no formatting reaches
/// the kernel.
#[unsafe(no_mangle)]
#[cold]
#[inline(never)]
pub extern "C" fn __ferrowarp_panic_bounds_check(
    index: u64,
    len: u64,
    location: *const Location<'static>,
) -> ! {
    // SAFETY: the bounds check passes the location of the index expression, a static of the compiler's.
    let location = unsafe { location.as_ref() };
    report(PanicRecord::INDEX_OUT_OF_BOUNDS, "", index, len, location)
}

/// Reports a wait that its watchdog ends.
#[cold]
#[inline(never)]
pub(crate) fn waited_in_vain(what: &str, nanos: u64, location: &Location<'_>) -> ! {
    report(PanicRecord::WAITED_IN_VAIN, what, nanos, 0, Some(location))
}

/// Reports a full heap; `alloc` calls it.
#[alloc_error_handler]
fn out_of_memory(layout: Layout) -> ! {
    report(PanicRecord::OUT_OF_MEMORY, "", layout.size() as u64, 0, None)
}

#[cold]
#[inline(never)]
#[optimize(size)]
fn report(kind: u32, message: &str, index: u64, len: u64, location: Option<&Location<'_>>) -> ! {
    // SAFETY: the host wrote the slot before the launch, and it is not written meanwhile. Volatile, because the
    // compiler sees no write.
    let record = unsafe { (&raw const __ferrowarp_panic_slot).read_volatile() };
    if !record.is_null() {
        // SAFETY: the slot points to a record that device and host share, and only the thread that claims it writes it.
        unsafe {
            let state = &raw mut (*record).state;
            if atomic_fetch_cas_acquire_u32_system(state, PanicRecord::EMPTY, PanicRecord::WRITING)
                == PanicRecord::EMPTY
            {
                fill(record, kind, message, index, len, location);
                thread::system_fence();
                atomic_store_release_32_system(state, PanicRecord::COMPLETE);
                thread::system_fence();
            } else {
                wait_until_complete(state);
            }
        }
    }
    // SAFETY: ends the kernel with an error; nothing runs after it.
    unsafe { core::arch::nvptx::trap() }
}

/// # Safety
/// `record` is valid for writes, and this thread has claimed it.
unsafe fn fill(
    record: *mut PanicRecord,
    kind: u32,
    message: &str,
    index: u64,
    len: u64,
    location: Option<&Location<'_>>,
) {
    // SAFETY: the caller has claimed the record, and the texts are cut to the length of their fields.
    unsafe {
        (*record).kind = kind;
        (*record).index = index;
        (*record).len = len;
        (*record).block = thread::block_idx().to_array();
        (*record).thread = thread::thread_idx().to_array();
        let message_len = message.len().min(256);
        copy(message.as_ptr(), (&raw mut (*record).message).cast(), message_len);
        (*record).message_len = message_len as u32;
        if let Some(location) = location {
            (*record).line = location.line();
            (*record).column = location.column();
            // The end of a path says more than its beginning.
            let file = location.file();
            let file_len = file.len().min(128);
            copy(file.as_ptr().add(file.len() - file_len), (&raw mut (*record).file).cast(), file_len);
            (*record).file_len = file_len as u32;
        }
    }
}

/// Copies byte by byte, since kernels have no `memcpy`.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `len` bytes.
#[inline(never)]
#[optimize(size)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    for i in 0..len {
        // SAFETY: `i` is below `len`. Volatile, so that the loop stays a loop.
        unsafe {
            to.add(i).write_volatile(from.add(i).read());
        }
    }
}

/// Lets the thread that claimed the record finish, since a trap ends all threads at once. The wait is bounded, since an
/// earlier launch may have left the record half-written.
///
/// # Safety
/// `state` is valid for reads.
unsafe fn wait_until_complete(state: *mut u32) {
    for _ in 0..10_000 {
        // SAFETY: the caller guarantees a valid pointer.
        if unsafe { atomic_load_acquire_32_system(state) } == PanicRecord::COMPLETE {
            return;
        }
        thread::nanosleep(1000);
    }
}
