//! A table that all threads read: from constant memory, from global memory in two ways, and as an argument.
//!
//! Constant memory has its own cache. It gives one word to all lanes of a warp at once, and takes another pass for each
//! other word. Global memory gives a warp any words of a line at once. So a warp's number of addresses decides.
//!
//! Arguments are in constant memory too. With an index that is known at compile time, an element is an operand of the
//! instruction that uses it; a computed index needs a load.
//@ ptx(constant_const): ld.const.b32 == 16, ld.global == 0, .local == 0
//@ ptx(constant_global): ld.global.b32 == 16, .nc == 0, .local == 0
//@ ptx(constant_read_only): ld.global.nc.b32 == 16, .local == 0
//@ ptx(constant_argument): ld.global == 0, ld.const == 0, .local == 0

use cuda_std::mem::load_global_nc;
use cuda_std::{address_space, kernel, thread};

/// Entries of the table.
pub const ENTRIES: usize = 1024;

/// Entries that each thread adds.
pub const READS: usize = 16;

/// Distance from one read of a thread to the next, in entries.
pub const STEP: usize = 37;

/// The table: all entries differ, and every sum of some is exact.
pub const VALUES: [f32; ENTRIES] = {
    let mut values = [0.0; ENTRIES];
    let mut i = 0;
    while i < ENTRIES {
        values[i] = (i * i % 4093) as f32;
        i += 1;
    }
    values
};

#[address_space(constant)]
static TABLE: [f32; ENTRIES] = VALUES;

lesson! {
    buffers(out: f32, table: f32)
    values(shift: u32, entries: Entries, len: u32)
    facts(Grid)
    "const" = constant_const[0]: "the table lies in constant memory";
    "global" = constant_global[0]: "in global memory";
    "read_only" = constant_read_only[0]: "in global memory, read by ld.global.nc";
    "argument" = constant_argument[0]: "an argument of the kernel, with indices known when it is compiled";
}

/// The entries of a thread, in the order of its reads.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Entries(pub [f32; READS]);

/// Returns the entry that a lane reads at its `turn`-th read.
#[inline(always)]
pub fn entry(turn: usize, lane: usize, shift: u32) -> usize {
    (turn * STEP + (lane >> shift)) % ENTRIES
}

/// Returns the sum of `read` for the entries of thread `i`.
#[inline(always)]
fn sum(i: usize, shift: u32, read: impl Fn(usize) -> f32) -> f32 {
    let mut sum = 0.0;
    for turn in 0..READS {
        sum += read(entry(turn, i % 32, shift));
    }
    sum
}

/// `out[i]` is the sum of the thread's [`READS`] entries of the table in constant memory, as [`entry`] selects them.
///
/// Launched with at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; `out` holds `len` elements that no other code uses.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn constant_const(out: *mut f32, shift: u32, len: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        // SAFETY: `i` lies in `out`, and only this thread writes the element.
        unsafe { *out.add(i) = sum(i, shift, |entry| TABLE[entry]) };
    }
}

/// Like [`constant_const`](fn@constant_const), with a table in global memory.
///
/// # Safety
/// Same as for [`constant_const`](fn@constant_const); `table` holds [`ENTRIES`] elements.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn constant_global(out: *mut f32, table: *const f32, shift: u32, len: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        // SAFETY: `i` lies in `out`, and only this thread writes the element; an entry lies in the table.
        unsafe { *out.add(i) = sum(i, shift, |entry| *table.add(entry)) };
    }
}

/// Like [`constant_global`](fn@constant_global), with a table that no code writes while the kernel runs.
///
/// # Safety
/// Same as for [`constant_global`](fn@constant_global).
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn constant_read_only(out: *mut f32, table: &[f32], shift: u32, len: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        let table = table[..ENTRIES].as_ptr();
        // SAFETY: only this thread writes element `i` of `out`; entries lie in the table, which no code writes.
        unsafe { *out.add(i) = sum(i, shift, |entry| load_global_nc(table.add(entry))) };
    }
}

/// `out[i]` is the sum of the entries.
///
/// # Safety
/// Same as for [`constant_const`](fn@constant_const).
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn constant_argument(out: *mut f32, entries: Entries, len: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        // SAFETY: `i` lies in `out`, and only this thread writes the element.
        unsafe { *out.add(i) = entries.0.into_iter().fold(0.0, |sum, entry| sum + entry) };
    }
}
