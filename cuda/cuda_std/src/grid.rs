//! Synchronisation of the whole grid: a barrier of all blocks, waits for words that another block stores, and [the
//! order](wait_for_dependencies) of the grid's start and the previous grid's end.
//!
//! A block may wait for another one only if both are on the device. So a kernel with such blocks is a
//! `#[kernel(cooperative)]`: all blocks of its grid are on the device at once, and a grid that is too large is refused
//! instead of hanging ([`LaunchError::NotResident`](crate::launch::LaunchError::NotResident)). Such a launch may also
//! have clusters.
//!
//! * [`sync`] is the barrier of all blocks.
//! * [`wait_until`] waits for a word, with or without ordering. For example, a block stores data, then a flag with
//!   [`store_release`]; another block waits for the flag with `Ordering::Acquire`, and may then read the data.
//! * [`wait_until_all`] waits for 16 bytes that are loaded at once, for protocols in which each word contains its own
//!   flag, such as its sign or the number of its round. Such protocols need no ordering.
//! * A [`Watchdog`] ends a wait on the device that takes too long, with a panic that names the wait.
//!
//! On the executor, a wait suspends its thread. If all threads of a launch wait and no thread can satisfy a wait, the
//! launch ends at once with a fault that names the waits ([`FaultKind::Stuck`](crate::simt::FaultKind::Stuck)).
//!
//! # Examples
//! Every block gets the sum over all blocks, added in an order that does not depend on timing.
//! ```
//! use core::sync::atomic::Ordering;
//!
//! use cuda_std::launch::LaunchConfig;
//! use cuda_std::testing::{KernelTest, TestError};
//! use cuda_std::{grid, kernel, thread};
//!
//! const WATCHDOG: grid::Watchdog = grid::Watchdog::new("the sum of a block", 2_000_000_000);
//!
//! /// `out[b]` becomes the sum of `inp`, for every block `b`.
//! ///
//! /// # Safety
//! /// One element of `out`, `inp`, `sums` and `flags` for each block; `flags` holds zeros.
//! #[kernel(cooperative)]
//! pub unsafe fn all_reduce(out: *mut f32, inp: &[f32], sums: *mut f32, flags: *mut u32) {
//!     let block = thread::block_idx_x() as usize;
//!     if thread::thread_idx_x() != 0 {
//!         return;
//!     }
//!     // SAFETY: a block writes its own sum before it stores its flag, and others read it after they have seen the flag.
//!     unsafe {
//!         *sums.add(block) = inp[block];
//!         grid::store_release(flags.add(block), 1);
//!         let mut sum = 0.0;
//!         for other in 0..thread::grid_dim_x() as usize {
//!             WATCHDOG.wait_until(flags.add(other), Ordering::Acquire, |flag| flag == 1);
//!             sum += *sums.add(other);
//!         }
//!         *out.add(block) = sum;
//!     }
//! }
//!
//! # fn main() -> Result<(), TestError> {
//! let mut test = KernelTest::new();
//! let inp = test.input("inp", &[1.0f32, 2.0, 4.0, 8.0]);
//! let out = test.output("out", &[0.0f32; 4]);
//! let sums = test.scratch("sums", &[0.0f32; 4]);
//! let flags = test.scratch("flags", &[0u32; 4]);
//! test.expect(out, &[15.0; 4]).seeds(0..20);
//! test.run(|on, memory| {
//!     let (out, inp) = (memory.output(out), memory.input(inp));
//!     let (sums, flags) = (memory.output(sums), memory.output(flags));
//!     // SAFETY: four elements of each for four blocks.
//!     unsafe { all_reduce::launch(on, LaunchConfig::new(4, 32), out, inp, sums, flags) }
//! })?;
//! # Ok(())
//! # }
//! ```

mod barrier;
mod dependent;
mod wait;
mod watchdog;
mod words;

pub use barrier::sync;
pub use dependent::{launch_dependents, wait_for_dependencies};
pub use wait::{wait_until, wait_until_all, wait_until_each};
pub use watchdog::Watchdog;
pub use words::{load_all, store_all, store_relaxed, store_release};
