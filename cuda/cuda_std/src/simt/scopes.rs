//! The numbers that block-scope atomics changed in one launch, with their blocks.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::OnceLock;

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
    pub fn note(&self, address: usize, block: u64) -> Option<u64> {
        let before =
            self.of(address)?.block.compare_exchange(0, block + 1, Ordering::Relaxed, Ordering::Relaxed);
        before.err().filter(|&other| other != block + 1).map(|other| other - 1)
    }
}

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
