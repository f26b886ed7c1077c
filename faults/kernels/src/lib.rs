//! Kernels that fail on purpose, one for each way to fail. Training and softmax do not load them.

#![no_std]

use cuda_std::mem::{self, f32x4};
use cuda_std::{kernel, misc, thread};

/// Sums that [`many_registers`](fn@many_registers) keeps in registers.
const SUMS: usize = 8;
/// Numbers of each.
const WIDTH: usize = 16;

/// `out[i] = value` for `i` below `len`. This one does not fail: it shows that a device goes on.
///
/// # Safety
/// `out` holds `len` elements that no other code uses.
#[kernel]
pub unsafe fn fill(out: *mut f32, len: usize, value: f32) {
    let i = thread::index_1d() as usize;
    if i < len {
        // SAFETY: `i` is below `len`.
        unsafe { out.add(i).write(value) };
    }
}

/// Reads `address`, whatever is there.
///
/// # Safety
/// `out` holds an element. The address is nobody's, which is the point.
#[kernel]
pub unsafe fn reads_nowhere(out: *mut u32, address: usize) {
    let nowhere = core::ptr::with_exposed_provenance::<u32>(address);
    // SAFETY: none: the GPU finds the address wrong and ends the kernel.
    unsafe { out.write(nowhere.read_volatile()) };
}

/// Reads 16 bytes at an address that is a multiple of 4 only.
///
/// # Safety
/// `out` holds an element and `inp` at least five, aligned to 16 bytes.
#[kernel]
pub unsafe fn reads_askew(out: *mut f32, inp: *const f32) {
    // SAFETY: the bytes are there; that they are not aligned is the point.
    let four: f32x4 = unsafe { mem::load_global(inp.add(1).cast()) };
    // All four are used: a load of which half is used would become two of 4 bytes, which are aligned.
    // SAFETY: by the contract.
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

/// Indexes with the thread's number, which is past the end in the last thread of the grid.
///
/// # Safety
/// `out` holds as many elements as the grid has threads.
#[kernel]
pub unsafe fn indexes_past_the_end(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    // SAFETY: by the contract.
    unsafe { out.add(i).write(inp[i]) };
}

/// Asserts what is not so if `sum` is odd.
///
/// # Safety
/// None.
#[kernel]
pub unsafe fn asserts(sum: u32) {
    assert!(sum.is_multiple_of(2), "the sum must be even");
}

/// Waits for `flag`, which is never set, for at most `most` ticks of the clock, so that the kernel ends even on a machine
/// that cannot stop it.
///
/// # Safety
/// `flag` holds an element.
#[kernel]
pub unsafe fn never_ends(flag: *const u32, most: u64) {
    let start = misc::clock();
    // SAFETY: by the contract. Volatile, so that each round reads again.
    while unsafe { flag.read_volatile() } == 0 && misc::clock().wrapping_sub(start) < most {}
}

/// Follows `next` from `at` on with a call for each step and an array in each frame.
#[inline(never)]
fn descend(next: *const u32, at: u32) -> u32 {
    let frame = core::hint::black_box([at; 32]);
    // SAFETY: the caller's indices lie in `next`. Volatile, so that each call reads again.
    let after = unsafe { next.add(at as usize).read_volatile() };
    if after == 0 { at } else { descend(next, after) ^ frame[(after % 32) as usize] }
}

//@ allow-local(descends): its stack is what overflows

/// Follows `next` from 1 on by recursion until a 0. In a circle the recursion ends when the stack overflows.
///
/// # Safety
/// `out` holds an element, and `next` indices into itself.
#[kernel]
pub unsafe fn descends(out: *mut u32, next: *const u32) {
    // SAFETY: by the contract.
    unsafe { out.write(descend(next, 1)) };
}

/// Keeps 128 numbers in registers, so that a block of 1024 threads has not enough of them.
///
/// # Safety
/// `out` and `inp` hold an element.
#[kernel]
pub unsafe fn many_registers(out: *mut f32, inp: *const f32, rounds: u32) {
    let mut sums = [[0.0f32; WIDTH]; SUMS];
    for _ in 0..rounds {
        // SAFETY: by the contract. Volatile, so that the rounds stay rounds.
        let x = unsafe { inp.read_volatile() };
        for (i, sums) in sums.iter_mut().enumerate() {
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum = *sum * x + (i * WIDTH + j) as f32;
            }
        }
    }
    let total = sums.iter().flatten().fold(0.0, |total, sum| total * 0.5 + sum);
    // SAFETY: by the contract.
    unsafe { out.write(total) };
}
