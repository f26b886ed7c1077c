//! Whether atomics that order the threads of one block are used by threads of several.
//!
//! On the host every atomic has the scope of the system, so such a kernel works there, whoever judges it. So the numbers
//! in global memory that a launch changes with the scope of a block are noted, with the block; a second block is a fault.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::panic::resume_unwind;
use std::sync::OnceLock;

use super::Grid;
use super::context;
use super::fault::FaultKind;

/// Numbers that are noted; of more the block is not known.
const MOST: usize = 1024;

/// Where atomics with the scope of a block went in one launch. In relaxed order: a note orders nothing.
#[derive(Default)]
pub(crate) struct Scopes(OnceLock<Box<[Note; MOST]>>);

struct Note {
    /// 0 as long as the note is free.
    address: AtomicUsize,
    /// The block's number in the grid and 1 more; 0 as long as it is not written.
    block: AtomicU64,
}

impl Scopes {
    /// Makes room for the notes. Done before threads of the operating system start, it orders none of them.
    pub fn prepare(&self) {
        self.notes();
    }

    fn notes(&self) -> &[Note; MOST] {
        // SAFETY: atomic numbers may be 0, which means that all notes are free.
        self.0.get_or_init(|| unsafe { Box::new_zeroed().assume_init() })
    }

    /// Notes the block at the address; the number of another block that was there before.
    fn note(&self, address: usize, block: u64) -> Option<u64> {
        let notes = self.notes();
        let start = address / 4 % MOST;
        let mut places = (start..MOST).chain(0..start).map(|at| &notes[at]);
        let note = places.find(|note| {
            let taken = note.address.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok() || taken == Err(address)
        })?;
        let before = note.block.compare_exchange(0, block + 1, Ordering::Relaxed, Ordering::Relaxed);
        before.err().filter(|&other| other != block + 1).map(|other| other - 1)
    }
}

/// Notes that the running thread changes the number at `address` with an atomic of its block's scope.
///
/// # Panics
/// With the fault, if a thread of another block did so in this launch.
pub(crate) fn note_block(address: usize) {
    context::with_running(|context| {
        let (grid, index): (&Grid<'_>, _) = (context.grid(), context.block_idx);
        if context.cluster().iter().any(|member| member.shared.contains(address)) {
            return;
        }
        let extents = grid.config.grid;
        let number = (u64::from(index.z) * u64::from(extents.y) + u64::from(index.y)) * u64::from(extents.x)
            + u64::from(index.x);
        if let Some(other) = grid.scopes.note(address, number) {
            resume_unwind(Box::new(FaultKind::ScopeOfBlock { other: extents.unravel(other) }));
        }
    });
}

/// The device's scope holds all blocks.
#[inline(always)]
pub(crate) fn note_device(_address: usize) {}

/// As above.
#[inline(always)]
pub(crate) fn note_system(_address: usize) {}
