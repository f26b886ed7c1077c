//! Kernels that fail on purpose, one for each way to fail. Training and softmax do not load them.

#![no_std]

use cuda_std::mem::{self, f32x4};
use cuda_std::{kernel, misc, thread};

/// Rows of sums that [`many_registers`](fn@many_registers) keeps in registers.
const SUMS: usize = 8;
/// Numbers per row.
const WIDTH: usize = 16;

/// `out[i] = value` for `i` below `len`. This kernel does not fail: it shows that a device still works.
///
/// # Safety
/// `out` has `len` elements that no other code uses.
#[kernel]
pub unsafe fn fill(out: *mut f32, len: usize, value: f32) {
    let i = thread::index_1d() as usize;
    if i < len {
        // SAFETY: `i` is below `len`.
        unsafe { out.add(i).write(value) };
    }
}

/// Reads `address`, whatever it is.
///
/// # Safety
/// `out` has one element. The address is invalid on purpose.
#[kernel]
pub unsafe fn reads_nowhere(out: *mut u32, address: usize) {
    let nowhere = core::ptr::with_exposed_provenance::<u32>(address);
    // SAFETY: none: the GPU detects the invalid address and ends the kernel.
    unsafe { out.write(nowhere.read_volatile()) };
}

/// Reads 16 bytes at an address that is only a multiple of 4.
///
/// # Safety
/// `out` has one element, and `inp` at least five, aligned to 16 bytes.
#[kernel]
pub unsafe fn reads_askew(out: *mut f32, inp: *const f32) {
    // SAFETY: the bytes exist; they are misaligned on purpose.
    let four: f32x4 = unsafe { mem::load_global(inp.add(1).cast()) };
    // Uses all four: otherwise the load could become aligned 4-byte loads. SAFETY: the caller's contract.
    unsafe { out.write((four.x + four.y) + (four.z + four.w)) };
}

/// Traps in the last thread of each block.
///
/// # Safety
/// None.
#[kernel]
pub unsafe fn traps() {
    if thread::thread_idx_x() + 1 == thread::block_dim_x() {
        misc::trap();
    }
}

/// Indexes `inp` with the thread's number, which is out of bounds in the last thread of the grid.
///
/// # Safety
/// `out` has one element per thread of the grid.
#[kernel]
pub unsafe fn indexes_past_the_end(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    // SAFETY: the caller's contract.
    unsafe { out.add(i).write(inp[i]) };
}

/// Fails an assertion if `sum` is odd.
///
/// # Safety
/// None.
#[kernel]
pub unsafe fn asserts(sum: u32) {
    assert!(sum.is_multiple_of(2), "the sum must be even");
}

/// Waits for `flag`, which is never set, for at most `most` clock ticks, so that the kernel ends even on a machine that
/// cannot stop it.
///
/// # Safety
/// `flag` has one element.
#[kernel]
pub unsafe fn never_ends(flag: *const u32, most: u64) {
    let start = misc::clock();
    // SAFETY: the caller's contract. Volatile, so that each iteration reads again.
    while unsafe { flag.read_volatile() } == 0 && misc::clock().wrapping_sub(start) < most {}
}

/// Follows `next` from `at`, with a call for each step and an array in each frame.
#[inline(never)]
fn descend(next: *const u32, at: u32) -> u32 {
    let frame = core::hint::black_box([at; 32]);
    // SAFETY: the caller's indices are within `next`. Volatile, so that each call reads again.
    let after = unsafe { next.add(at as usize).read_volatile() };
    if after == 0 { at } else { descend(next, after) ^ frame[(after % 32) as usize] }
}

//@ allow-local(descends): its stack is what overflows

/// Follows `next` from 1 by recursion until a 0. In a cycle the recursion ends when the stack overflows.
///
/// # Safety
/// `out` has one element, and `next` has indices into itself.
#[kernel]
pub unsafe fn descends(out: *mut u32, next: *const u32) {
    // SAFETY: the caller's contract.
    unsafe { out.write(descend(next, 1)) };
}

/// Keeps 128 numbers in registers, too many for a block of 1024 threads.
///
/// # Safety
/// `out` and `inp` have one element each.
#[kernel]
pub unsafe fn many_registers(out: *mut f32, inp: *const f32, rounds: u32) {
    let mut sums = [[0.0f32; WIDTH]; SUMS];
    for _ in 0..rounds {
        // SAFETY: the caller's contract. Volatile, so that the rounds are not optimised away.
        let x = unsafe { inp.read_volatile() };
        for (i, sums) in sums.iter_mut().enumerate() {
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum = *sum * x + (i * WIDTH + j) as f32;
            }
        }
    }
    let total = sums.iter().flatten().fold(0.0, |total, sum| total * 0.5 + sum);
    // SAFETY: the caller's contract.
    unsafe { out.write(total) };
}
