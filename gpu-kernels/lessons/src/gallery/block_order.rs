//! The order in which blocks and warps run, and where they run.
//!
//! Each block (`blocks`) or warp (`warps`) takes a ticket at its start, by an addition to a counter in global memory, and
//! records its multiprocessor and the times of its start and its end. In between each thread has work: the steps of a
//! generator that [`overlap`](super::overlap) also uses.
//!
//! The hardware assigns blocks to multiprocessors while there is room, and a new one where one has ended. The order is
//! unspecified, even more so for the warps of a block.
//!
//! Requires: blocks of whole warps.
//@ ptx(block_order_blocks): atom == 1, bar.sync == 1, .local == 0
//@ ptx(block_order_warps): atom == 1, bar.sync == 0, .local == 0

use core::sync::atomic::Ordering;

use super::overlap::after;
use cuda_std::atomic::AtomicU32;
use cuda_std::{kernel, misc, thread, warp};

lesson! {
    buffers(out: u32, multiprocessors: u32, tickets: u32, starts: u64, ends: u64, next: u32)
    values(rounds: u32)
    facts(Unit)
    "blocks" = block_order_blocks[0]: "each block takes a ticket";
    "warps" = block_order_warps[0]: "each warp takes a ticket";
}

/// The unit that takes a ticket.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Each block.
    Block,
    /// Each warp.
    Warp,
}

/// Where units record their notes.
#[derive(Clone, Copy)]
struct Notes {
    multiprocessors: *mut u32,
    tickets: *mut u32,
    starts: *mut u64,
    ends: *mut u64,
    next: *mut u32,
}

impl Notes {
    /// # Safety
    /// Only this thread records for the unit, which has an element of each; `next` is only changed by additions.
    #[inline(always)]
    unsafe fn begin(self, unit: usize) {
        // SAFETY: the caller's contract.
        unsafe {
            *self.starts.add(unit) = misc::global_timer();
            *self.tickets.add(unit) = AtomicU32::from_ptr(self.next).fetch_add(1, Ordering::Relaxed);
            *self.multiprocessors.add(unit) = misc::multiprocessor();
        }
    }

    /// # Safety
    /// Same as for [`Self::begin`].
    #[inline(always)]
    unsafe fn end(self, unit: usize) {
        // SAFETY: the unit has an element, which only this thread writes.
        unsafe { *self.ends.add(unit) = misc::global_timer() };
    }
}

/// Every thread works, and the first of each block records for it: `multiprocessors`, `tickets`, `starts` and `ends` get an
/// element per block.
///
/// Launched with blocks along x, of whole warps along x.
///
/// # Safety
/// The launch is as described; `out` holds an element for each thread and the notes one for each block, which no other code
/// uses; `next` holds one, which others only change by additions.
#[kernel(args = Arguments, facts: Unit = Unit::Block)]
pub unsafe fn block_order_blocks(
    out: *mut u32,
    multiprocessors: *mut u32,
    tickets: *mut u32,
    starts: *mut u64,
    ends: *mut u64,
    next: *mut u32,
    rounds: u32,
) {
    let (thread, block) = (thread::index_1d(), thread::block_idx_x() as usize);
    let notes = Notes { multiprocessors, tickets, starts, ends, next };
    let notes_for_block = thread::thread_idx_x() == 0;
    // SAFETY: each thread writes its own element, and one of the block records; all threads reach the barrier.
    unsafe {
        if notes_for_block {
            notes.begin(block);
        }
        *out.add(thread as usize) = after(thread, rounds);
        thread::sync_threads_aligned();
        if notes_for_block {
            notes.end(block);
        }
    }
}

/// Like [`block_order_blocks`](fn@block_order_blocks), with a ticket and notes for each warp.
///
/// # Safety
/// Same as for [`block_order_blocks`](fn@block_order_blocks), with elements of the notes for each warp.
#[kernel(args = Arguments, facts: Unit = Unit::Warp)]
pub unsafe fn block_order_warps(
    out: *mut u32,
    multiprocessors: *mut u32,
    tickets: *mut u32,
    starts: *mut u64,
    ends: *mut u64,
    next: *mut u32,
    rounds: u32,
) {
    let thread = thread::index_1d();
    let warp = thread as usize / 32;
    let notes = Notes { multiprocessors, tickets, starts, ends, next };
    let notes_for_warp = warp::lane_id() == 0;
    // SAFETY: each thread writes its own element, and one of the warp records.
    unsafe {
        if notes_for_warp {
            notes.begin(warp);
        }
        *out.add(thread as usize) = after(thread, rounds);
        warp::sync_warp(u32::MAX);
        if notes_for_warp {
            notes.end(warp);
        }
    }
}
