//! Shared memory read with a stride, and two layouts that mend the bad ones.
//!
//! Shared memory has 32 banks, each a word of 4 bytes wide: word `w` lies in bank `w % 32`. A warp's request takes one pass
//! where its lanes want words of different banks, or the same word; else as many as the bank has words that are wanted. With
//! a stride of `s` words those are the greatest common divisor of `s` and 32.
//!
//! * `plain`: word `w` lies at `w`.
//! * `padded`: a word is left free after every 32, so that `w` lies at `w + w / 32`. Lanes 32 words apart are then one bank
//!   further each. It costs 1/32 of the memory, and other strides take two passes, even those that were free.
//! * `swizzled`: the words of every 32 change places, `w` lies at `w ^ (w / 32 % 32)`. It costs no memory, and an instruction
//!   or two more for each address.
//!
//! Requires: blocks of 256 threads, a stride of at most 32.
//@ ptx(bank_conflicts_plain): bar.sync == 1, ld.shared == 32, .local == 0
//@ ptx(bank_conflicts_padded): bar.sync == 1, ld.shared == 32, .local == 0
//@ ptx(bank_conflicts_swizzled): bar.sync == 1, ld.shared == 32, .local == 0

use core::hint::assert_unchecked;

#[cfg(not(target_arch = "nvptx64"))]
use super::{Grid, Rung};
use cuda_std::{kernel, shared_array, thread};

/// The rungs.
#[cfg(not(target_arch = "nvptx64"))]
pub const RUNGS: &[Rung<Arguments>] = &[
    Rung { name: "plain", idea: "words in their order", kernel: &bank_conflicts_plain::INSTANCES[0] },
    Rung { name: "padded", idea: "a free word after every 32", kernel: &bank_conflicts_padded::INSTANCES[0] },
    Rung {
        name: "swizzled",
        idea: "the words of every 32 in another order",
        kernel: &bank_conflicts_swizzled::INSTANCES[0],
    },
];

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) const KERNELS: &[&cuda_std::launch::KernelMeta] =
    &[bank_conflicts_plain::META, bank_conflicts_padded::META, bank_conflicts_swizzled::META];

/// What the kernels take.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// The sums, one for each thread.
    pub out: cuda_std::launch::RawBuffer<u32>,
    /// Words from a lane to the next, at most 32.
    pub stride: u32,
    /// How often a thread reads its words.
    pub rounds: u32,
}

/// Words that are read.
const WORDS: usize = 1024;
/// Threads of a block.
const BLOCK: usize = 256;
/// Neighbouring words of a thread.
const RUN: u32 = 32;

/// What word `w` holds.
pub const fn word(w: u32) -> u32 {
    w.wrapping_mul(2_654_435_761)
}

/// `out[thread]` becomes the sum, modulo 2^32, over `rounds` rounds: in round `r` of the 32 [`word`]s from
/// `(lane + r) % 32 * stride` on.
///
/// Launched on blocks of 256 threads along x.
///
/// # Safety
/// The launch is as described; `out` holds an element for each thread that no other code uses; `stride` is at most 32.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn bank_conflicts_plain(out: *mut u32, stride: u32, rounds: u32) {
    let x_shared = shared_array![u32; WORDS];
    // SAFETY: the words lie in the array; the rest is the caller's.
    unsafe { read_with_stride(x_shared, |w| w, out, stride, rounds) };
}

/// As [`bank_conflicts_plain`](fn@bank_conflicts_plain), with a free word after every 32.
///
/// Launched on blocks of 256 threads along x.
///
/// # Safety
/// Same as for [`bank_conflicts_plain`](fn@bank_conflicts_plain).
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn bank_conflicts_padded(out: *mut u32, stride: u32, rounds: u32) {
    let x_shared = shared_array![u32; WORDS + WORDS / 32];
    // SAFETY: the words and their padding lie in the array; the rest is the caller's.
    unsafe { read_with_stride(x_shared, |w| w + w / 32, out, stride, rounds) };
}

/// As [`bank_conflicts_plain`](fn@bank_conflicts_plain), with the words of every 32 in another order.
///
/// Launched on blocks of 256 threads along x.
///
/// # Safety
/// Same as for [`bank_conflicts_plain`](fn@bank_conflicts_plain).
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn bank_conflicts_swizzled(out: *mut u32, stride: u32, rounds: u32) {
    let x_shared = shared_array![u32; WORDS];
    // SAFETY: words of the same 32 change places; the rest is the caller's.
    unsafe { read_with_stride(x_shared, |w| w ^ (w / 32 % 32), out, stride, rounds) };
}

/// Writes the words to where `place` says, and reads them with the stride.
///
/// # Safety
/// All 256 threads of the block come here, once. `shared` is the block's and has the places of all words, which differ; `out`
/// holds an element for each thread, and `stride` is at most 32.
#[inline(always)]
unsafe fn read_with_stride(
    shared: *mut u32,
    place: impl Fn(u32) -> u32,
    out: *mut u32,
    stride: u32,
    rounds: u32,
) {
    let tid = thread::thread_idx_x();
    // SAFETY: a thread writes words of its own before the barrier; the last one read is 31 * 32 + 31, below 1024.
    unsafe {
        for w in (tid..WORDS as u32).step_by(BLOCK) {
            *shared.add(place(w) as usize) = word(w);
        }
        thread::sync_threads_aligned();
        let mut sum = 0_u32;
        for round in 0..rounds {
            // Of other lanes' words in every round, or the compiler would read once.
            let first = (tid + round) % 32 * stride;
            // So that addresses are computed in 32 bits.
            assert_unchecked(first <= 31 * 32);
            for i in 0..RUN {
                sum = sum.wrapping_add(*shared.add(place(first + i) as usize));
            }
        }
        *out.add(thread::index_1d() as usize) = sum;
    }
}
