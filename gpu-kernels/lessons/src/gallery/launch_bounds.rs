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
//!
//! Requires: blocks of 256 threads.
//@ allow-local(launch_bounds_6): the lesson is what it costs to ask for more blocks than registers allow
//@ allow-local(launch_bounds_8): the lesson is what it costs to ask for more blocks than registers allow

use cuda_std::hint::opaque;
use cuda_std::{kernel, thread};

lesson! {
    buffers(out: u32)
    values(turns: u32)
    facts(Grid)
    "blocks_2" = many_registers[0]: "room for two blocks";
    "blocks_4" = many_registers[1]: "room for four";
    "blocks_6" = many_registers[2]: "room for six, and spills";
    "blocks_8" = many_registers[3]: "room for eight, and more spills";
}

/// Numbers that each thread keeps.
const NUMBERS: usize = 48;

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
    let mut x_reg: [u32; NUMBERS] = core::array::from_fn(|k| i.wrapping_add(k as u32));
    let mut turn = 0;
    while turn < turns as usize {
        for k in 0..NUMBERS {
            x_reg[k] = x_reg[k].wrapping_mul(1_664_525).wrapping_add(x_reg[(k + 1) % NUMBERS]);
        }
        turn = opaque(turn + 1);
    }
    let sum = x_reg.into_iter().fold(0, u32::wrapping_add);
    // SAFETY: only this thread writes the element.
    unsafe { *out.add(i as usize) = sum };
}
