//! Detects block-scope atomics that threads of several blocks use.
//!
//! On the host every atomic has system scope, so such a kernel works there, under every tool. So the executor records
//! the numbers in global memory that a launch changes with block scope, and their block. A second block is a fault. It
//! does not detect numbers that one block changes with block scope and others with a wider scope.

use std::panic::resume_unwind;

use super::context;
use super::fault::FaultKind;

/// Notes that the running thread changes the number at `address` with an atomic of its block's scope.
///
/// # Panics
/// With the fault, if a thread of another block did so in this launch.
pub(crate) fn note_block(address: usize) {
    context::with_running(|thread| {
        let (grid, index) = (thread.grid(), thread.block_idx);
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
