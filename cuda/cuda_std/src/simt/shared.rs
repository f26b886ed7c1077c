//! Shared memory of a block on the executor.

use core::cell::{Cell, RefCell, UnsafeCell};

use linkme::distributed_slice;

use super::fault::FaultKind;

/// Bytes of static shared memory a block can have on every CUDA device.
pub(crate) const MAX_STATIC_BYTES: usize = 48 * 1024;

/// What memory nobody wrote holds: a NaN in every float format.
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

// SAFETY: the address is a static's; who writes there holds the executor's turn.
unsafe impl Sync for SharedStatic {}

/// All statics with `#[address_space(shared)]` in this program.
#[distributed_slice]
pub static SHARED_STATICS: [SharedStatic];

/// 128 bytes with the alignment that shared memory has at least.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct Line([u8; 128]);

/// One `shared_array!` in the static part.
#[derive(Clone, Copy)]
struct Slot {
    /// The address of what names it.
    key: usize,
    offset: usize,
    bytes: usize,
    align: usize,
}

/// The shared memory of the block that runs on this OS thread.
pub(crate) struct BlockShared {
    /// The static part in front, the dynamic part behind. Kernel threads write through raw pointers.
    memory: Vec<UnsafeCell<Line>>,
    static_bytes: Cell<usize>,
    slots: RefCell<Vec<Slot>>,
    dynamic_bytes: u32,
}

impl BlockShared {
    pub(super) fn new(dynamic_bytes: u32) -> Self {
        let bytes = MAX_STATIC_BYTES + dynamic_bytes as usize;
        let lines = bytes.div_ceil(size_of::<Line>());
        let memory = core::iter::repeat_with(|| UnsafeCell::new(Line([POISON; 128]))).take(lines).collect();
        Self { memory, static_bytes: Cell::new(0), slots: RefCell::default(), dynamic_bytes }
    }

    /// Makes the memory that of a new block: no slots, nothing initialised.
    pub(super) fn reset(&self) {
        self.poison();
        self.static_bytes.set(0);
        self.slots.borrow_mut().clear();
    }

    /// Makes what the memory holds uninitialised. No thread of the block runs, since it has not started or has ended.
    pub(super) fn poison(&self) {
        let (dynamic, dynamic_bytes) = self.dynamic();
        // SAFETY: both ranges lie in `memory`, which no thread uses now.
        unsafe {
            self.base().write_bytes(POISON, self.static_bytes.get());
            dynamic.write_bytes(POISON, dynamic_bytes as usize);
        }
    }

    fn base(&self) -> *mut u8 {
        UnsafeCell::raw_get(self.memory.as_ptr()).cast()
    }

    /// The static array that `key` names: the same memory for all threads of the block, uninitialised at first.
    pub(crate) fn static_slot(&self, key: usize, bytes: usize, align: usize) -> *mut u8 {
        let mut slots = self.slots.borrow_mut();
        let known = slots.iter().find(|slot| slot.key == key).map(|slot| slot.offset);
        let offset = known.unwrap_or_else(|| {
            let offset = self.static_bytes.get().next_multiple_of(align.max(16));
            let end = offset + bytes;
            if end > MAX_STATIC_BYTES {
                let kind = FaultKind::SharedOverLimit { got: end, max: MAX_STATIC_BYTES };
                std::panic::resume_unwind(Box::new(kind));
            }
            self.static_bytes.set(end);
            slots.push(Slot { key, offset, bytes, align });
            offset
        });
        // SAFETY: the slot lies in the static part of `memory`, as was checked when it was made.
        unsafe { self.base().add(offset) }
    }

    /// Where `other` has what `pointer` points to here; none if it is not in this memory.
    pub(crate) fn counterpart(&self, pointer: *mut u8, other: &BlockShared) -> Option<*mut u8> {
        let (dynamic, dynamic_bytes) = self.dynamic();
        let from_dynamic = pointer.addr().wrapping_sub(dynamic.addr());
        if from_dynamic < dynamic_bytes as usize {
            // SAFETY: the blocks of a launch have the same amount of dynamic memory.
            return Some(unsafe { other.dynamic().0.add(from_dynamic) });
        }
        let offset = pointer.addr().wrapping_sub(self.base().addr());
        let within = |slot: &Slot| (slot.offset..slot.offset + slot.bytes).contains(&offset);
        let slot = *self.slots.borrow().iter().find(|slot| within(slot))?;
        // The blocks may come to their arrays in another order.
        let start = other.static_slot(slot.key, slot.bytes, slot.align);
        // SAFETY: the array is as long there as it is here.
        Some(unsafe { start.add(offset - slot.offset) })
    }

    /// The dynamic part and its size in bytes.
    pub(crate) fn dynamic(&self) -> (*mut u8, u32) {
        // SAFETY: the dynamic part starts behind the static one; `memory` holds both.
        (unsafe { self.base().add(MAX_STATIC_BYTES) }, self.dynamic_bytes)
    }
}

/// Makes the statics in the attribute form uninitialised, for the next block.
pub(super) fn poison_statics() {
    for shared in SHARED_STATICS {
        // SAFETY: the registry holds the address and size of a `static mut`, and the executor holds the turn, so
        // no kernel thread runs.
        unsafe { shared.address.cast_mut().write_bytes(POISON, shared.bytes) };
    }
}
