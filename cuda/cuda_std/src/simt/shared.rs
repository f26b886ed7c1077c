//! Shared memory of a block on the executor.

#[path = "shared_guards.rs"]
mod guards;

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::panic::Location;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use linkme::distributed_slice;

use super::fault::FaultKind;
use super::fences::Fences;
use super::flights::Flights;
use super::proxy::{CHUNK, Refused};
use super::states::BlockStates;
use super::unwind::{refuse, unwinds};
use crate::tensor::Swizzle;
pub(super) use guards::Overrun;
use guards::{GUARD_BYTES, spare, write_guard};

/// Bytes of static shared memory a block can have on every CUDA device.
pub(crate) const MAX_STATIC_BYTES: usize = 48 * 1024;

/// The content of unwritten memory: a NaN in every float format.
const POISON: u8 = 0xff;

/// A static with `#[address_space(shared)]` in this program.
#[derive(Debug)]
pub struct SharedStatic {
    /// Its name.
    pub name: &'static str,
    /// Its memory.
    pub address: *const u8,
    /// Its size.
    pub bytes: usize,
}

// SAFETY: the address is a static's; only the holder of the executor's turn writes there.
unsafe impl Sync for SharedStatic {}

/// All statics with `#[address_space(shared)]` in this program.
#[distributed_slice]
pub static SHARED_STATICS: [SharedStatic];

/// 1024 bytes with the largest alignment of an array in shared memory.
#[derive(Clone, Copy)]
#[repr(C, align(1024))]
struct Line([u8; 1024]);

/// The offset of dynamic shared memory in its lines. A kernel cannot rely on more than 16 bytes of alignment, because
/// its static arrays come first on a GPU.
const DYNAMIC_START: usize = 16;

/// The number of `shared_array!`s that a block can have.
const MOST_SLOTS: usize = 128;

/// Bytes of all guards, each with the padding after it.
const ALL_GUARDS: usize = 2 * GUARD_BYTES * MOST_SLOTS;

/// Bytes of the static part: the arrays, the guards, and the padding before arrays that are aligned to more than 16 bytes.
/// Such an array has at least as many bytes as its alignment.
const STATIC_ROOM: usize = if cfg!(miri) { MAX_STATIC_BYTES } else { 2 * MAX_STATIC_BYTES + ALL_GUARDS };

/// A `shared_array!` in the source.
#[derive(Clone, Copy)]
pub(crate) struct Array {
    /// A different number for each, and never 0.
    pub key: usize,
    pub bytes: usize,
    pub align: usize,
    pub location: &'static Location<'static>,
}

/// One `shared_array!` in the static part. Threads that run at the same time create it and look it up in relaxed order:
/// the look-up of an array's address orders nothing on the GPU, and must not here.
struct Slot {
    /// The address of its key; 0 while the slot is free.
    key: AtomicUsize,
    /// Null until the thread that took the slot has placed the array.
    array: AtomicPtr<u8>,
    bytes: AtomicUsize,
    align: AtomicUsize,
    /// Null in a slot that was never taken.
    location: AtomicPtr<Location<'static>>,
}

impl Slot {
    const fn free() -> Slot {
        Slot {
            key: AtomicUsize::new(0),
            array: AtomicPtr::new(core::ptr::null_mut()),
            bytes: AtomicUsize::new(0),
            align: AtomicUsize::new(0),
            location: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Returns its array, if a thread has placed it.
    fn placed(&self) -> Option<*mut u8> {
        let array = self.array.load(Ordering::Relaxed);
        (!array.is_null() && array != NO_ROOM).then_some(array)
    }

    /// Returns the `shared_array!` that took the slot.
    fn location(&self) -> Option<&'static Location<'static>> {
        // SAFETY: null, or a location that lives as long as the program.
        unsafe { self.location.load(Ordering::Relaxed).as_ref() }
    }
}

/// The shared memory of a block.
pub(crate) struct BlockShared {
    /// The static part. Kernel threads write through raw pointers.
    fixed: Vec<UnsafeCell<MaybeUninit<Line>>>,
    /// Bytes of the static part that are in use, with the guards.
    fixed_used: AtomicUsize,
    /// Bytes of the arrays as a GPU would place them, without guards.
    fixed_bytes: AtomicUsize,
    slots: Box<[Slot; MOST_SLOTS]>,
    /// The dynamic part.
    dynamic: Vec<UnsafeCell<MaybeUninit<Line>>>,
    dynamic_bytes: u32,
    /// The pending copies to it.
    pub(crate) flights: Flights,
    pub(crate) fences: Fences,
    /// The block's numbered barriers.
    pub(crate) named: [AtomicU64; 16],
    /// What features keep for the block.
    pub(crate) states: BlockStates,
}

// SAFETY: the memory is accessed through raw pointers, by kernels that are responsible for the order of their accesses.
unsafe impl Sync for BlockShared {}

impl BlockShared {
    pub(super) fn new(dynamic_bytes: u32) -> Self {
        let lines = |bytes: usize| {
            let count = bytes.div_ceil(size_of::<Line>());
            let mut lines = Vec::<UnsafeCell<MaybeUninit<Line>>>::with_capacity(count);
            // SAFETY: there is room for them, and lines may be uninitialised.
            unsafe { lines.set_len(count) };
            lines
        };
        let shared = Self {
            fixed: lines(STATIC_ROOM),
            // What all arrays need, unless some of them are aligned to more than 16 bytes.
            fixed_used: AtomicUsize::new(MAX_STATIC_BYTES + ALL_GUARDS),
            fixed_bytes: AtomicUsize::new(0),
            slots: Box::new([const { Slot::free() }; MOST_SLOTS]),
            dynamic: lines(DYNAMIC_START + dynamic_bytes as usize + GUARD_BYTES),
            dynamic_bytes,
            flights: Flights::default(),
            fences: Fences::default(),
            named: Default::default(),
            states: BlockStates::default(),
        };
        shared.poison();
        shared.fixed_used.store(0, Ordering::Relaxed);
        shared
    }

    /// Prepares the memory for a new block: no slots, nothing initialised.
    pub(super) fn reset(&self) {
        self.flights.clear();
        self.flights.proxy.clear();
        self.fences.clear();
        self.named.iter().for_each(|barrier| barrier.store(0, Ordering::Relaxed));
        self.states.clear();
        // Slots first: poisoning writes the guards of arrays.
        for slot in self.used_slots() {
            slot.array.store(core::ptr::null_mut(), Ordering::Relaxed);
            slot.key.store(0, Ordering::Relaxed);
        }
        self.poison();
        self.fixed_used.store(0, Ordering::Relaxed);
        self.fixed_bytes.store(0, Ordering::Relaxed);
    }

    fn used_slots(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().take_while(|slot| slot.key.load(Ordering::Relaxed) != 0)
    }

    /// Makes the content of the memory uninitialised. No thread of the block runs, since it has not started or has
    /// ended. Under Miri the memory stays as it is.
    pub(super) fn poison(&self) {
        if cfg!(miri) {
            return;
        }
        // SAFETY: both ranges lie in the parts, which no thread uses now.
        unsafe {
            start(&self.fixed).write_bytes(POISON, self.fixed_used.load(Ordering::Relaxed));
            start_of_dynamic(&self.dynamic).write_bytes(POISON, self.dynamic_bytes as usize);
        }
        for (first, bytes, _) in self.guarded() {
            // SAFETY: `guarded` returns memory with a guard after it.
            unsafe { write_guard(first.add(bytes)) };
        }
    }

    /// Returns the static array of this `shared_array!`: the same memory for all threads of the block, uninitialised at
    /// first.
    pub(crate) fn static_slot(&self, array: Array) -> *mut u8 {
        let Array { key, bytes, align, location } = array;
        for slot in &*self.slots {
            let found = slot.key.load(Ordering::Relaxed);
            let found = match found {
                0 => slot
                    .key
                    .compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed)
                    .unwrap_or_else(|other| other),
                known => known,
            };
            if found == 0 {
                slot.bytes.store(bytes, Ordering::Relaxed);
                slot.align.store(align, Ordering::Relaxed);
                slot.location.store(core::ptr::from_ref(location).cast_mut(), Ordering::Relaxed);
                slot.array.store(self.place(bytes, align).unwrap_or(NO_ROOM), Ordering::Relaxed);
            }
            if found == 0 || found == key {
                return self.array_of(slot);
            }
        }
        refuse(
            "shared_array!",
            &format!(": a block has at most {MOST_SLOTS} arrays; combine several into one"),
        );
        spare(bytes, align)
    }

    /// Returns the array of a slot that is taken.
    fn array_of(&self, slot: &Slot) -> *mut u8 {
        loop {
            let array = slot.array.load(Ordering::Relaxed);
            if array == NO_ROOM && unwinds() {
                return spare(slot.bytes.load(Ordering::Relaxed), slot.align.load(Ordering::Relaxed));
            }
            if array == NO_ROOM {
                let got = self.end_behind_all(slot);
                std::panic::resume_unwind(Box::new(FaultKind::SharedOverLimit {
                    got,
                    max: MAX_STATIC_BYTES,
                }));
            }
            if !array.is_null() {
                return array;
            }
            // Another thread has just taken the slot and is about to place the array.
            std::thread::yield_now();
        }
    }

    /// Allocates memory for an array, with a guard after it; the pointer reaches only the array. Returns `None` if too
    /// little is left.
    fn place(&self, bytes: usize, align: usize) -> Option<*mut u8> {
        let take = |used| Some(offset_after(used, align) + bytes).filter(|&end| end <= MAX_STATIC_BYTES);
        self.fixed_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        if bytes == 0 {
            return Some(start(&self.fixed));
        }
        let take = |used| Some(offset_after(used, align) + bytes + GUARD_BYTES);
        let used = self.fixed_used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        // SAFETY: the static part has room for all arrays up to the checked limit, their guards and the padding.
        unsafe {
            let array = start(&self.fixed).add(offset_after(used, align));
            if !cfg!(miri) {
                write_guard(array.add(bytes));
            }
            Some(only(array, bytes))
        }
    }

    /// Returns where the array of a slot without room would end.
    fn end_behind_all(&self, slot: &Slot) -> usize {
        let used = self.fixed_bytes.load(Ordering::Relaxed);
        offset_after(used, slot.align.load(Ordering::Relaxed)) + slot.bytes.load(Ordering::Relaxed)
    }

    /// Returns the counterpart of `pointer` in `other`; `None` if `pointer` is not in this memory.
    pub(crate) fn counterpart(&self, pointer: *mut u8, other: &BlockShared) -> Option<*mut u8> {
        let (dynamic, dynamic_bytes) = self.dynamic();
        let from_dynamic = pointer.addr().wrapping_sub(dynamic.addr());
        if from_dynamic < dynamic_bytes as usize {
            // SAFETY: the blocks of a launch have the same amount of dynamic memory.
            return Some(unsafe { other.dynamic().0.add(from_dynamic) });
        }
        let offset_in = |slot: &Slot| {
            let array = slot.array.load(Ordering::Relaxed);
            let offset = pointer.addr().wrapping_sub(array.addr());
            (!array.is_null() && offset < slot.bytes.load(Ordering::Relaxed)).then_some(offset)
        };
        let (slot, offset) = self.slots.iter().find_map(|slot| Some((slot, offset_in(slot)?)))?;
        // The blocks may create their arrays in different orders.
        let [key, bytes, align] =
            [&slot.key, &slot.bytes, &slot.align].map(|number| number.load(Ordering::Relaxed));
        // A thread may see the array before its location, which is only for messages.
        let location = slot.location().unwrap_or_else(|| Location::caller());
        let array = other.static_slot(Array { key, bytes, align, location });
        // SAFETY: the array has the same length in both blocks.
        Some(unsafe { array.add(offset) })
    }

    /// Returns whether these bytes lie in shared memory of the block: in this memory, or in a static in the attribute form.
    pub(crate) fn holds(&self, address: usize, bytes: usize) -> bool {
        let within = |start: usize, size: usize| {
            address.checked_sub(start).is_some_and(|at| bytes <= size && at <= size - bytes)
        };
        // A plain load may give an old value.
        within(start(&self.fixed).addr(), self.fixed_used.fetch_add(0, Ordering::Relaxed))
            || within(start_of_dynamic(&self.dynamic).addr(), self.dynamic_bytes as usize)
            || statics().iter().any(|shared| within(shared.address.addr(), shared.bytes))
    }

    /// Checks that a copy or a multiplication sees what threads wrote to these chunks. `chunks` gives address and content
    /// of each. Data from tensor copies must have the reader's swizzle, if it has one. Data from copies needs no fence.
    ///
    /// All threads of the block are fibers.
    pub(crate) fn check_visible(
        &self,
        chunks: impl Iterator<Item = (usize, [u8; CHUNK])>,
        swizzle: Option<Swizzle>,
    ) -> Result<(), String> {
        self.flights.proxy.reads(chunks, swizzle, self.fences.count()).map_err(|refused| match refused {
            Refused::NotFenced => {
                "of what no thread has fenced since it was written; let those that wrote it call \
                 bulk::fence_shared() before the barrier, and wait for copies"
                    .into()
            }
            Refused::Swizzled(brought) => {
                format!(
                    "that were copied with Swizzle::{brought:?}; make the tensor map with Swizzle::Bytes128"
                )
            }
        })
    }

    /// Checks that threads may have fenced their writes; data from copies needs no fence.
    pub(crate) fn check_fenced(&self) -> Result<(), String> {
        if self.fences.any() || self.flights.is_used() {
            Ok(())
        } else {
            Err(" of what no thread has fenced; let those that wrote it call bulk::fence_shared() before the barrier".into())
        }
    }

    /// Returns whether the address lies in this memory.
    pub(super) fn contains(&self, address: usize) -> bool {
        let lies_in = |start: *mut u8, bytes: usize| address.wrapping_sub(start.addr()) < bytes;
        lies_in(start(&self.fixed), STATIC_ROOM)
            || lies_in(start_of_dynamic(&self.dynamic), self.dynamic_bytes as usize)
    }

    /// The dynamic part and its size in bytes.
    pub(crate) fn dynamic(&self) -> (*mut u8, u32) {
        // SAFETY: the part has this size.
        (unsafe { only(start_of_dynamic(&self.dynamic), self.dynamic_bytes as usize) }, self.dynamic_bytes)
    }
}

/// Stands for an array that found no room.
const NO_ROOM: *mut u8 = core::ptr::without_provenance_mut(1);

/// Returns where the next array of this alignment starts.
fn offset_after(used: usize, align: usize) -> usize {
    used.next_multiple_of(align.max(16))
}

/// Returns the start of a part; the pointer may access all of it.
fn start(part: &[UnsafeCell<MaybeUninit<Line>>]) -> *mut u8 {
    UnsafeCell::raw_get(part.as_ptr()).cast()
}

/// Returns the start of the dynamic part, with the least alignment that it has.
fn start_of_dynamic(part: &[UnsafeCell<MaybeUninit<Line>>]) -> *mut u8 {
    start(part).wrapping_add(DYNAMIC_START)
}

/// Returns the pointer restricted to the next `bytes` bytes, which Miri checks.
///
/// # Safety
/// The bytes lie in one allocation.
unsafe fn only(pointer: *mut u8, bytes: usize) -> *mut u8 {
    // SAFETY: the caller guarantees the bytes; a shared reference to cells asserts nothing about their content.
    let cells = unsafe { core::slice::from_raw_parts(pointer.cast::<UnsafeCell<MaybeUninit<u8>>>(), bytes) };
    UnsafeCell::raw_get(cells.as_ptr()).cast()
}

/// Returns the statics in the attribute form of this program. Miri has no linker that could collect them.
pub(super) fn statics() -> &'static [SharedStatic] {
    if cfg!(miri) { &[] } else { &SHARED_STATICS }
}

/// Makes the statics in the attribute form uninitialised, for the next block.
pub(super) fn poison_statics() {
    for shared in statics() {
        // SAFETY: address and size are a `static mut`'s. The executor holds the turn: no kernel thread runs.
        unsafe { shared.address.cast_mut().write_bytes(POISON, shared.bytes) };
    }
}
