//! Detects block-scope atomics that threads of several blocks use.
//!
//! On the host every atomic has system scope, so such a kernel works there, under every tool. So the executor records
//! the numbers in global memory that a launch changes with block scope, and their block. A second block is a fault. It
//! does not detect numbers that one block changes with block scope and others with a wider scope.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::panic::resume_unwind;
use std::sync::OnceLock;

use super::Grid;
use super::context;
use super::fault::FaultKind;

/// The numbers that block-scope atomics changed in one launch. All accesses are relaxed, so a note orders nothing.
///
/// A number is noted in the first table with a free note for it. Notes are never freed, so all threads find it there.
/// Tables are created on demand, each twice as large as the previous one.
#[derive(Default)]
pub(crate) struct Scopes([OnceLock<Box<[Note]>>; 32]);

/// The base-2 logarithm of the number of notes in the first table.
const FIRST: u32 = 10;

/// The number of notes of a table that are tried for a number.
const TRIES: usize = 16;

struct Note {
    /// 0 while the note is free.
    address: AtomicUsize,
    /// The block's number in the grid plus 1; 0 until it is written.
    block: AtomicU64,
}

impl Scopes {
    /// Creates the first table. Called before OS threads start, it orders none of them; a further table orders the
    /// threads that need it.
    pub fn prepare(&self) {
        self.table(0);
    }

    fn table(&self, number: usize) -> &[Note] {
        // SAFETY: atomic numbers may be 0, which means that all notes are free.
        self.0[number]
            .get_or_init(|| unsafe { Box::new_zeroed_slice(1 << (FIRST as usize + number)).assume_init() })
    }

    /// Returns the note of the address, and takes a free one if there was none.
    fn of(&self, address: usize) -> Option<&Note> {
        let hash = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..self.0.len()).find_map(|number| {
            let notes = self.table(number);
            let start = (hash >> (u64::BITS - FIRST - number as u32)) as usize;
            (start..start + TRIES).map(|at| &notes[at % notes.len()]).find(|note| {
                let taken = note.address.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed);
                taken.is_ok() || taken == Err(address)
            })
        })
    }

    /// Notes the block at the address; returns the number of another block that was there before.
    fn note(&self, address: usize, block: u64) -> Option<u64> {
        let before =
            self.of(address)?.block.compare_exchange(0, block + 1, Ordering::Relaxed, Ordering::Relaxed);
        before.err().filter(|&other| other != block + 1).map(|other| other - 1)
    }
}

/// Notes that the running thread changes the number at `address` with an atomic of its block's scope.
///
/// # Panics
/// With the fault, if a thread of another block did so in this launch.
pub(crate) fn note_block(address: usize) {
    context::with_running(|thread| {
        let (grid, index): (&Grid<'_>, _) = (thread.grid(), thread.block_idx);
        if thread.cluster().iter().any(|member| member.shared.contains(address)) {
            return;
        }
        let extents = grid.config.grid;
        let number = (u64::from(index.z) * u64::from(extents.y) + u64::from(index.y)) * u64::from(extents.x)
            + u64::from(index.x);
        if let Some(other) = grid.atomic_scopes.note(address, number)
            && !context::unwinds()
        {
            resume_unwind(Box::new(FaultKind::ScopeOfBlock { other: extents.unravel(other) }));
        }
    });
}

/// Notes nothing: device scope includes all blocks.
#[inline(always)]
pub(crate) fn note_device(_address: usize) {}

/// Notes nothing, as above.
#[inline(always)]
pub(crate) fn note_system(_address: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far more numbers than the first table has notes, close together and far apart.
    #[test]
    fn every_number_is_known_with_its_block() {
        for stride in [4, 8, 4096] {
            let atomic_scopes = Scopes::default();
            let addresses = || (1..=5000).map(|i| 0x7f00_0000_0000 + i * stride);
            for again in [false, true] {
                for (i, address) in addresses().enumerate() {
                    assert_eq!(
                        atomic_scopes.note(address, i as u64),
                        None,
                        "stride {stride}, again: {again}"
                    );
                }
            }
            for (i, address) in addresses().enumerate() {
                assert_eq!(atomic_scopes.note(address, 1 + i as u64), Some(i as u64), "stride {stride}");
            }
        }
    }
}
