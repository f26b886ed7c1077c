//! Launch bounds: registers against warps.
//!
//! A multiprocessor has 65536 registers of 32 bits, which the threads of all blocks on it share. `max_threads` and
//! `min_blocks` are the threads of a block and the number of blocks to leave room for (PTX ISA, `.maxntid` and
//! `.minnctapersm`). ptxas gives each thread at most the registers that this leaves: 65536 / (256 * blocks), rounded down to
//! a multiple of 8. The kernel keeps 48 numbers that all depend on each other, and some more.
//!
//! * `blocks_2`: 128 registers are allowed, more than needed.
//! * `blocks_4`: 64 are allowed, which are enough: twice the warps for free.
//! * `blocks_6` and `blocks_8`: 40 and 32 are not enough. The rest is stored to local memory and loaded again in every
//!   iteration. This is a spill, and it is why more warps are not always better.
//! * `split`: two launches with room for eight blocks. Each has half of the numbers, in a ring of its own.
//!
//! Requires: blocks of 256 threads.
//@ allow-local(launch_bounds_6): the lesson is what it costs to ask for more blocks than registers allow
//@ allow-local(launch_bounds_8): the lesson is what it costs to ask for more blocks than registers allow

use cuda_std::hint::opaque;
use cuda_std::{kernel, thread};

lesson! {
    buffers(out: u32)
    values(turns: u32, first: u32)
    facts(Grid)
    "blocks_2" = many_registers[0]: "room for two blocks";
    "blocks_4" = many_registers[1]: "room for four";
    "blocks_6" = many_registers[2]: "room for six, and spills";
    "blocks_8" = many_registers[3]: "room for eight, and more spills";
    "split" = half_of_numbers[0]: "room for eight, two launches with half of the numbers each";
}

/// Numbers that each thread keeps.
pub const NUMBERS: usize = 48;
/// Numbers of a thread in one of two launches.
pub const HALF: usize = NUMBERS / 2;

/// Computes `out[thread]`, the sum modulo 2^32 of 48 numbers after `turns` iterations. Number `k` starts as the thread's
/// number plus `k`. In an iteration each in turn becomes itself times 1664525 plus the next; the first follows the last.
///
/// Launched with blocks of 256 threads along x.
///
/// # Safety
/// The launch is as described; `out` holds an element for each thread, and no other code uses it.
#[kernel(
    max_threads = 256,
    min_blocks = BLOCKS,
    args = Arguments,
    facts: Grid = Grid::threads::<256, 1>(),
    instances(
        launch_bounds_2 = <2>;
        launch_bounds_4 = <4>;
        launch_bounds_6 = <6>;
        launch_bounds_8 = <8>;
    ),
)]
pub unsafe fn many_registers<const BLOCKS: usize>(out: *mut u32, turns: u32) {
    let i = thread::index_1d();
    // SAFETY: only this thread writes the element.
    unsafe { *out.add(i as usize) = ring::<NUMBERS>(i, turns) };
}

/// Adds to `out[thread]` what [`many_registers`](fn@many_registers) computes with 24 numbers, the first of which starts as the thread's
/// number plus `first`.
///
/// Launched with blocks of 256 threads along x.
///
/// # Safety
/// Same as for [`many_registers`](fn@many_registers).
#[kernel(max_threads = 256, min_blocks = 8, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn half_of_numbers(out: *mut u32, turns: u32, first: u32) {
    let i = thread::index_1d();
    let sum = ring::<HALF>(i.wrapping_add(first), turns);
    // SAFETY: only this thread uses the element.
    unsafe { *out.add(i as usize) = (*out.add(i as usize)).wrapping_add(sum) };
}

/// Returns the sum of `N` numbers, from `first` on, after `turns` iterations.
#[inline(always)]
fn ring<const N: usize>(first: u32, turns: u32) -> u32 {
    let mut x_reg: [u32; N] = core::array::from_fn(|k| first.wrapping_add(k as u32));
    let mut turn = 0;
    while turn < turns as usize {
        for k in 0..N {
            x_reg[k] = x_reg[k].wrapping_mul(1_664_525).wrapping_add(x_reg[(k + 1) % N]);
        }
        turn = opaque(turn + 1);
    }
    x_reg.into_iter().fold(0, u32::wrapping_add)
}
