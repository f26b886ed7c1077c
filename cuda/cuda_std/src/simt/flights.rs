//! Pending copies into a block's shared memory. When its bytes have arrived, a copy counts them at one of the
//! block's barriers.
//!
//! A copy is performed as late as possible: when a thread waits for a phase that lacks only bytes. Everything that OS
//! threads share here is atomic. So the thread that performs a copy is ordered after the one that started it, like the
//! copy itself, and no other thread is ordered.

use core::mem::MaybeUninit;
use core::panic::Location;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::fault::Place;
use super::fences::Fences;
use super::proxy::Proxy;
use crate::barrier::state;
use crate::tensor::tile::Tile;

/// The number of lists of copies. All copies that one barrier waits for are in one list.
const LISTS: usize = 16;

/// The source of a copy.
pub(crate) enum Source {
    /// Memory, as it is when the copy is performed.
    Memory(*const u8),
    /// The first bytes of a value.
    Value([MaybeUninit<u8>; 16]),
    /// A tile of a tensor, as it is when the copy is performed.
    Tile(Box<Tile>),
}

/// A copy that has been started.
pub(crate) struct Flight {
    target: *mut u8,
    source: Source,
    bytes: usize,
    barrier: *mut u64,
    /// The function that started it, and where.
    pub operation: &'static str,
    pub location: &'static Location<'static>,
    pub place: Place,
    /// Whether the block's threads are fibers.
    is_of_fibers: bool,
    /// The copy that was started before it.
    next: *mut Flight,
}

impl Flight {
    /// Creates a copy that the thread at `place` starts.
    pub fn new(
        (place, is_of_fibers): (Place, bool),
        (operation, location): (&'static str, &'static Location<'static>),
        (target, source, bytes): (*mut u8, Source, usize),
        barrier: *mut u64,
    ) -> Self {
        let next = core::ptr::null_mut();
        Self { target, source, bytes, barrier, operation, location, place, is_of_fibers, next }
    }

    /// Returns whether it will read memory at an address for which `holds` is true.
    fn reads(&self, holds: impl Fn(usize) -> bool) -> bool {
        matches!(self.source, Source::Memory(source) if holds(source.addr()))
    }

    /// Returns its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Performs the copy, and counts its bytes; `fences` is the number of fences of the target's block so far.
    fn land(self, proxy: &Proxy, fences: u32) {
        // SAFETY: the caller that started it guarantees target, source and barrier until the phase is over.
        unsafe {
            let source = match &self.source {
                Source::Memory(source) => *source,
                Source::Value(value) => value.as_ptr().cast(),
                Source::Tile(tile) => {
                    tile.load(self.target);
                    core::ptr::null()
                }
            };
            if !source.is_null() {
                core::ptr::copy_nonoverlapping(source, self.target, self.bytes);
            }
            if self.is_of_fibers {
                let swizzle = match &self.source {
                    Source::Tile(tile) => Some(tile.swizzle()),
                    Source::Memory(_) | Source::Value(_) => None,
                };
                proxy.wrote(self.target, self.bytes, swizzle, fences);
            }
            state::complete_copy(self.barrier, self.bytes as u32);
        }
    }
}

#[derive(Default)]
struct List {
    /// The copy that was started last.
    last: AtomicPtr<Flight>,
    /// Whether a thread has checked, without success, a phase that these copies would complete.
    looked: AtomicBool,
}

/// The copies into the shared memory of a block.
#[derive(Default)]
pub(crate) struct Flights {
    lists: [List; LISTS],
    /// Whether there ever was a copy.
    any: AtomicBool,
    /// What the copies wrote.
    pub proxy: Proxy,
}

impl Flights {
    fn list(&self, barrier: *mut u64) -> &List {
        &self.lists[barrier.addr() / size_of::<u64>() % LISTS]
    }

    /// Returns whether there ever was a copy.
    pub fn is_used(&self) -> bool {
        // A plain load may give an old value.
        self.any.fetch_or(false, Ordering::Relaxed)
    }

    /// Starts a copy.
    pub fn start(&self, flight: Flight) {
        self.any.store(true, Ordering::Relaxed);
        self.push(Box::new(flight));
    }

    fn push(&self, mut flight: Box<Flight>) {
        let list = self.list(flight.barrier);
        let mut last = list.last.load(Ordering::Relaxed);
        loop {
            flight.next = last;
            let new = Box::into_raw(flight);
            match list.last.compare_exchange(last, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => last = other,
            }
            // SAFETY: no other thread has it.
            flight = unsafe { Box::from_raw(new) };
        }
    }

    /// Performs the copies that the phase of this parity lacks, if it lacks nothing else.
    ///
    /// # Safety
    /// A thread waits for the phase.
    #[inline]
    pub unsafe fn land(&self, barrier: *mut u64, parity: u32, fences: &Fences) {
        // SAFETY: a thread waits for the phase.
        if unsafe { self.may_land(barrier, parity) } {
            self.land_all(barrier, fences);
        }
    }

    /// As above, but only at the second check of the phase, by any thread. So a thread that reads after an unsuccessful
    /// check finds nothing.
    ///
    /// # Safety
    /// A thread checks the phase.
    #[inline]
    pub unsafe fn look(&self, barrier: *mut u64, parity: u32, fences: &Fences) {
        // SAFETY: a thread checks the phase.
        let may_land = unsafe { self.may_land(barrier, parity) };
        if may_land && self.list(barrier).looked.swap(true, Ordering::Relaxed) {
            self.land_all(barrier, fences);
        }
    }

    unsafe fn may_land(&self, barrier: *mut u64, parity: u32) -> bool {
        // SAFETY: a thread waits for the phase or checks it.
        self.is_used() && unsafe { state::lacks_bytes_alone(barrier, parity) }
    }

    #[cold]
    fn land_all(&self, barrier: *mut u64, fences: &Fences) {
        self.list(barrier).looked.store(false, Ordering::Relaxed);
        let mut oldest_last = taken(&self.list(barrier).last).collect::<Vec<_>>();
        while let Some(flight) = oldest_last.pop() {
            if flight.barrier == barrier {
                flight.land(&self.proxy, fences.count())
            } else {
                self.push(flight)
            }
        }
    }

    /// Returns a copy that no thread has waited for, once no thread can any more.
    pub fn left(&self) -> Option<Box<Flight>> {
        if !self.is_used() {
            return None;
        }
        self.lists.iter().find_map(|list| taken(&list.last).last())
    }

    /// Returns a copy that will read memory at an address for which `holds` is true.
    pub fn that_reads(&self, holds: impl Fn(usize) -> bool) -> Option<Box<Flight>> {
        if !self.is_used() {
            return None;
        }
        let mut found = None;
        for list in &self.lists {
            let mut oldest_last = taken(&list.last).collect::<Vec<_>>();
            while let Some(flight) = oldest_last.pop() {
                if flight.reads(&holds) { found = Some(flight) } else { self.push(flight) }
            }
        }
        found
    }

    /// Forgets all copies, for another block.
    pub fn clear(&self) {
        if self.any.swap(false, Ordering::Relaxed) {
            self.lists.iter().for_each(|list| {
                list.looked.store(false, Ordering::Relaxed);
                taken(&list.last).for_each(drop);
            });
        }
    }
}

impl Drop for Flights {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Empties a list and returns its copies, the latest first.
fn taken(last: &AtomicPtr<Flight>) -> impl Iterator<Item = Box<Flight>> {
    // A plain load may give an old value.
    let is_empty = last
        .compare_exchange(core::ptr::null_mut(), core::ptr::null_mut(), Ordering::Relaxed, Ordering::Relaxed)
        .is_ok();
    let mut next =
        if is_empty { core::ptr::null_mut() } else { last.swap(core::ptr::null_mut(), Ordering::Acquire) };
    core::iter::from_fn(move || {
        // SAFETY: only this call has the list, and `push` allocated each of its elements.
        let flight = (!next.is_null()).then(|| unsafe { Box::from_raw(next) })?;
        next = flight.next;
        Some(flight)
    })
}
