//! Guards after the arrays in a block's shared memory, which find writes beyond an array.

use core::alloc::Layout;
use core::panic::Location;
use core::sync::atomic::Ordering;

use super::{BlockShared, start_of_dynamic};

/// Bytes after each array that no thread may change. They are checked when the block has ended. Miri checks every
/// access itself.
pub(super) const GUARD_BYTES: usize = if cfg!(miri) { 0 } else { 16 };

/// Their content: a NaN in every float format too, and not what a kernel would write.
const GUARD: [u8; 16] =
    [0xfb, 0x7f, 0xfb, 0x7f, 0xfb, 0x7f, 0xfb, 0x7f, 0xfb, 0x7f, 0xfb, 0x7f, 0xfb, 0x7f, 0xfb, 0x7f];

/// A write after the end of an array in shared memory.
pub(in super::super) struct Overrun {
    /// The first byte that changed, from the start of the array.
    pub byte: usize,
    /// Bytes of the array.
    pub bytes: usize,
    /// The `shared_array!`; `None` for dynamic shared memory.
    pub array: Option<&'static Location<'static>>,
}

impl BlockShared {
    /// Returns start, size and `shared_array!` of each piece of memory with a guard after it: the dynamic part, which has
    /// no `shared_array!`, and the static arrays that are placed.
    pub(super) fn guarded(
        &self,
    ) -> impl Iterator<Item = (*mut u8, usize, Option<&'static Location<'static>>)> {
        let fixed = self.used_slots().filter_map(|slot| {
            let bytes = slot.bytes.load(Ordering::Relaxed);
            Some((slot.placed().filter(|_| bytes > 0)?, bytes, slot.location()))
        });
        [(start_of_dynamic(&self.dynamic), self.dynamic_bytes as usize, None)].into_iter().chain(fixed)
    }

    /// Returns the first write after the end of an array. No thread of the block runs.
    pub(in super::super) fn overrun(&self) -> Option<Overrun> {
        if cfg!(miri) {
            return None;
        }
        self.guarded().find_map(|(first, bytes, array)| {
            // SAFETY: `guarded` returns memory with a guard after it, which `poison` or `place` has written.
            let guard = unsafe { first.add(bytes).cast::<[u8; GUARD.len()]>().read_unaligned() };
            if guard == GUARD {
                return None;
            }
            let changed = guard.iter().zip(&GUARD).position(|(now, before)| now != before)?;
            Some(Overrun { byte: bytes + changed, bytes, array })
        })
    }
}

/// Writes a guard.
///
/// # Safety
/// Its bytes lie after an array, in the same allocation, and no thread uses them.
pub(super) unsafe fn write_guard(at: *mut u8) {
    // SAFETY: the caller guarantees the bytes.
    unsafe { at.cast::<[u8; GUARD.len()]>().write_unaligned(GUARD) };
}

/// Allocates memory for an array without room, for a thread that unwinds: it must not panic again. It is never freed.
#[cold]
pub(super) fn spare(bytes: usize, align: usize) -> *mut u8 {
    let layout = Layout::from_size_align(bytes.max(1), align).unwrap_or(Layout::new::<u128>());
    // SAFETY: the layout is not empty.
    let array = unsafe { std::alloc::alloc_zeroed(layout) };
    if array.is_null() { std::alloc::handle_alloc_error(layout) } else { array }
}
