//! Shared memory read with a stride, and two layouts that avoid bank conflicts.
//!
//! Shared memory has 32 banks, each one word of 4 bytes wide: word `w` lies in bank `w % 32`. A warp's request takes one
//! pass if its lanes access words of different banks, or the same word. Otherwise it takes one pass per different word in
//! the same bank. For a stride of `s` words that is the greatest common divisor of `s` and 32.
//!
//! * `plain`: word `w` lies at `w`.
//! * `padded`: a word is left free after every 32, so that `w` lies at `w + w / 32`. This moves lanes 32 words apart to
//!   different banks. It costs 1/32 of the memory, and other strides take two passes, even those that had no conflicts.
//! * `swizzled`: the words of every 32 are permuted: `w` lies at `w ^ (w / 32 % 32)`. It costs no memory, and an instruction
//!   or two more per address.
//!
//! Requires: blocks of 256 threads, a stride of at most 32.
//@ ptx(bank_conflicts_plain): bar.sync == 1, ld.shared == 32, .local == 0
//@ ptx(bank_conflicts_padded): bar.sync == 1, ld.shared == 32, .local == 0
//@ ptx(bank_conflicts_swizzled): bar.sync == 1, ld.shared == 32, .local == 0

use core::hint::assert_unchecked;

use cuda_std::{kernel, shared_array, thread};

lesson! {
    buffers(out: u32)
    values(stride: u32, rounds: u32)
    facts(Grid)
    "plain" = bank_conflicts_plain[0]: "words in their order";
    "padded" = bank_conflicts_padded[0]: "a free word after every 32";
    "swizzled" = bank_conflicts_swizzled[0]: "the words of every 32 in another order";
}

/// Words that are read.
const WORDS: usize = 1024;
/// Threads of a block.
const BLOCK: usize = 256;
/// Neighbouring words of a thread.
const RUN: u32 = 32;

/// Returns the content of word `w`.
pub const fn word(w: u32) -> u32 {
    w.wrapping_mul(2_654_435_761)
}

/// Computes `out[thread]`, the sum modulo 2^32 over `rounds` rounds. Round `r` adds the 32 [`word`]s from
/// `(lane + r) % 32 * stride` on.
///
/// Launched with blocks of 256 threads along x.
///
/// # Safety
/// The launch is as described; `out` holds an element for each thread that no other code uses; `stride` is at most 32.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn bank_conflicts_plain(out: *mut u32, stride: u32, rounds: u32) {
    let x_shared = shared_array![u32; WORDS];
    // SAFETY: the words lie in the array; the rest is the caller's.
    unsafe { read_with_stride(x_shared, |w| w, out, stride, rounds) };
}

/// Like [`bank_conflicts_plain`](fn@bank_conflicts_plain), with a free word after every 32.
///
/// # Safety
/// Same as for [`bank_conflicts_plain`](fn@bank_conflicts_plain).
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn bank_conflicts_padded(out: *mut u32, stride: u32, rounds: u32) {
    let x_shared = shared_array![u32; WORDS + WORDS / 32];
    // SAFETY: the words and their padding lie in the array; the rest is the caller's.
    unsafe { read_with_stride(x_shared, |w| w + w / 32, out, stride, rounds) };
}

/// Like [`bank_conflicts_plain`](fn@bank_conflicts_plain), with the words of every 32 permuted.
///
/// # Safety
/// Same as for [`bank_conflicts_plain`](fn@bank_conflicts_plain).
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn bank_conflicts_swizzled(out: *mut u32, stride: u32, rounds: u32) {
    let x_shared = shared_array![u32; WORDS];
    // SAFETY: words are permuted within each 32; the rest is the caller's.
    unsafe { read_with_stride(x_shared, |w| w ^ (w / 32 % 32), out, stride, rounds) };
}

/// Writes each word to its `place`, and reads the words with the stride.
///
/// # Safety
/// All 256 threads of the block call this, once. `shared` belongs to the block, and `place` gives each word a different
/// element of it. `out` holds an element for each thread, and `stride` is at most 32.
#[inline(always)]
unsafe fn read_with_stride(
    shared: *mut u32,
    place: impl Fn(u32) -> u32,
    out: *mut u32,
    stride: u32,
    rounds: u32,
) {
    let tid = thread::thread_idx_x();
    // SAFETY: a thread writes its own words before the barrier; the last word read is 31 * 32 + 31, below 1024.
    unsafe {
        for w in (tid..WORDS as u32).step_by(BLOCK) {
            *shared.add(place(w) as usize) = word(w);
        }
        thread::sync_threads_aligned();
        let mut sum = 0_u32;
        for round in 0..rounds {
            // Each round reads another lane's words; otherwise the compiler would read them only once.
            let first = (tid + round) % 32 * stride;
            // This makes the compiler compute addresses in 32 bits.
            assert_unchecked(first <= 31 * 32);
            for i in 0..RUN {
                sum = sum.wrapping_add(*shared.add(place(first + i) as usize));
            }
        }
        *out.add(thread::index_1d() as usize) = sum;
    }
}
