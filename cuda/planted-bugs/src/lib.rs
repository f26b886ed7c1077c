//! Kernels with one bug each. A tool that is to find such bugs runs them, and is wrong if it finds nothing.
//!
//! Every kernel is launched on memory of the right size; the bug is in the kernel.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "no fact makes these kernels sound: that is their point"
)]

mod kernels;
mod tensor;

use cuda_std::launch::{LaunchConfig, LaunchError};
use cuda_std::mem::f32x4;
use cuda_std::simt::Executor;
use cuda_std::tensor::{Swizzle, TensorMap};
use cuda_std::thread;

pub use kernels::{BUGS, SOUND};

/// Threads of a block: two warps.
const THREADS: usize = 64;

/// A kernel with a bug.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// Its name on the command line.
    pub name: &'static str,
    /// What is wrong.
    pub what: &'static str,
    /// Parts of the executor's message, of which one must be in it; empty if only other tools must find the bug.
    pub messages: &'static [&'static str],
    kernel: Kernel,
}

impl Bug {
    /// Launches the kernel.
    pub fn run(&self, on: &Executor) -> Result<(), LaunchError> {
        self.kernel.run(on, self.name)
    }
}

/// Launches the kernels without a bug.
pub fn run_sound(on: &Executor) -> Result<(), LaunchError> {
    SOUND.iter().try_for_each(|kernel| kernel.run(on, "sound"))
}

/// A kernel by the launch that it takes.
#[derive(Clone, Copy, Debug)]
pub enum Kernel {
    /// Two blocks.
    Rows(fn(&Memory)),
    /// Two blocks; no one has written `out`.
    Unwritten(fn(&Memory)),
    /// Two blocks in a cluster.
    Cluster(fn(&Memory)),
    /// Two blocks in a cooperative grid.
    Cooperative(fn(&Memory)),
    /// A block with the maps of its matrices, the first of them with this swizzle.
    Matrices(Swizzle, fn(&TensorMap, &TensorMap)),
    /// A warpgroup.
    Warpgroup(fn()),
}

/// The memory of two blocks. Each has `THREADS` numbers of each row and a flag.
#[derive(Debug)]
pub struct Memory {
    out: *mut f32,
    inp: *const f32,
    sent: *mut f32,
    flags: *mut u32,
}

// SAFETY: the pointers are to numbers; who accesses them when is up to the kernels.
unsafe impl Sync for Memory {}

impl Memory {
    /// The number that the thread reads.
    fn inp(&self) -> f32 {
        unsafe { *self.inp.add(at()) }
    }

    /// Where the thread writes.
    fn out(&self) -> *mut f32 {
        self.out.wrapping_add(at())
    }
}

impl Kernel {
    fn run(&self, on: &Executor, name: &'static str) -> Result<(), LaunchError> {
        // Numbers that begin at a multiple of 16 bytes, in allocations of their size.
        let new = |x: f32| vec![f32x4::splat(x); 2 * THREADS / 4].into_boxed_slice();
        let inp: Box<[f32x4]> = (0..2 * THREADS / 4).map(|i| f32x4::splat(i as f32)).collect();
        let (mut out, mut sent, mut flags) = (new(0.0), new(0.0), [0; 2]);
        let mut unwritten = Box::<[f32x4]>::new_uninit_slice(2 * THREADS / 4);
        let is_unwritten = matches!(self, Kernel::Unwritten(_));
        let out = if is_unwritten { unwritten.as_mut_ptr().cast() } else { out.as_mut_ptr().cast() };
        let (sent, flags) = (sent.as_mut_ptr().cast(), flags.as_mut_ptr());
        let rows = Memory { out, inp: inp.as_ptr().cast(), sent, flags };
        let config = LaunchConfig::new(2, THREADS as u32);
        match *self {
            Kernel::Rows(kernel) | Kernel::Unwritten(kernel) => on.run(name, config, || kernel(&rows)),
            Kernel::Cluster(kernel) => on.run(name, config.with_cluster(2), || kernel(&rows)),
            Kernel::Cooperative(kernel) => on.run_cooperative(name, config, || kernel(&rows)),
            Kernel::Matrices(swizzle, kernel) => tensor::run(on, name, swizzle, kernel),
            Kernel::Warpgroup(kernel) => on.run(name, LaunchConfig::new(1, 128), kernel),
        }
    }
}

fn tid() -> usize {
    thread::thread_idx_x() as usize
}

fn block() -> usize {
    thread::block_idx_x() as usize
}

/// The thread's number in the grid.
fn at() -> usize {
    block() * THREADS + tid()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_std::simt::Scheduler;

    #[test]
    fn the_executor_finds_what_breaks_the_cuda_model_and_nothing_in_sound_kernels() {
        for scheduler in [Scheduler::Coroutines, Scheduler::Threads] {
            let on = Executor::new().without_seed().with_scheduler(scheduler);
            for bug in BUGS.iter().filter(|bug| !bug.messages.is_empty()) {
                let message = bug.run(&on).expect_err(bug.name).to_string();
                assert!(bug.messages.iter().any(|part| message.contains(part)), "{}: {message}", bug.name);
            }
            run_sound(&on).expect("no fault");
        }
    }
}
