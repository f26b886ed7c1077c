//! Launch bounds: registers against warps.
//!
//! A multiprocessor has 65536 registers of 32 bits, which the threads of all blocks on it share. `max_threads` and `min_blocks`
//! say how many threads a block has and how many blocks there shall be room for (PTX ISA, `.maxntid` and `.minnctapersm`),
//! and ptxas gives each thread no more registers than that leaves: 65536 / (256 * blocks), rounded down to a multiple of 8.
//! The kernel keeps 48 numbers that all depend on each other, and some more.
//!
//! * `blocks_2`: 128 registers are allowed, more than are needed.
//! * `blocks_4`: 64 are, which are enough: twice the warps for nothing.
//! * `blocks_6` and `blocks_8`: 40 and 32 are not enough. What has no place is stored to local memory and loaded again,
//!   every turn: this is what a spill is, and why more warps are not always better.
//!
//! Requires: blocks of 256 threads.
//@ allow-local(launch_bounds_6): the lesson is what it costs to ask for more blocks than registers allow
//@ allow-local(launch_bounds_8): the lesson is what it costs to ask for more blocks than registers allow

#[cfg(not(target_arch = "nvptx64"))]
use super::{Grid, Rung};
use cuda_std::hint::opaque;
use cuda_std::{kernel, thread};

/// The rungs.
#[cfg(not(target_arch = "nvptx64"))]
pub const RUNGS: &[Rung<Arguments>] = &[
    Rung { name: "blocks_2", idea: "room for two blocks", kernel: &many_registers::INSTANCES[0] },
    Rung { name: "blocks_4", idea: "room for four", kernel: &many_registers::INSTANCES[1] },
    Rung { name: "blocks_6", idea: "room for six, and spills", kernel: &many_registers::INSTANCES[2] },
    Rung { name: "blocks_8", idea: "room for eight, and more spills", kernel: &many_registers::INSTANCES[3] },
];

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) const KERNELS: &[&cuda_std::launch::KernelMeta] = many_registers::KERNELS;

/// What the kernels take.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// A number for each thread.
    pub out: cuda_std::launch::RawBuffer<u32>,
    /// Turns.
    pub turns: u32,
}

/// The numbers of a thread.
const NUMBERS: usize = 48;

/// `out[thread]` becomes the sum, modulo 2^32, of 48 numbers after `turns` turns. Number `k` is the thread's plus `k` at first;
/// in a turn each becomes, one after the other, itself times 1664525 plus the next one, the first for the last.
///
/// Launched on blocks of 256 threads along x.
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
    // SAFETY: this thread alone writes the element.
    unsafe { *out.add(i as usize) = sum };
}
