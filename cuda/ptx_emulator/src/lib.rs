//! Runs PTX on the CPU, so that tests execute the same PTX that ships. It takes the text of any compiler, and the bytes of
//! the arguments.
//!
//! ```
//! use cuda_std::launch::LaunchConfig;
//! use ptx_emulator::{Emulator, PtxModule};
//!
//! // Thread `i` stores `i` in element `2 * i`.
//! let module = PtxModule::parse(
//!     ".version 8.6\n.target sm_75\n.address_size 64
//!     .visible .entry number(.param .u64 out) {
//!         .reg .b32 %r<2>; .reg .b64 %rd<2>;
//!         ld.param.u64 %rd1, [out];
//!         mov.u32 %r1, %tid.x;
//!         mad.wide.u32 %rd1, %r1, 8, %rd1;
//!         st.global.u32 [%rd1], %r1;
//!         ret;
//!     }",
//! )?;
//! let mut emulator = Emulator::new(module).with_counts();
//! let mut out = [7u32; 8];
//! // SAFETY: the array outlives the launch, and nobody else uses it.
//! unsafe {
//!     emulator.lend(&mut out);
//!     emulator.launch("number", LaunchConfig::new(1, 4), &[&(&raw mut out).addr().to_le_bytes()])?;
//! }
//! assert_eq!(out, [0, 7, 1, 7, 2, 7, 3, 7]);
//! let counts = emulator.take_counts();
//! let stores = counts[0].total.global.stores;
//! assert_eq!((stores.requests, stores.bytes, counts[0].of_text("mad.wide").instructions.threads), (1, 16, 4));
//!
//! // A fifth thread stores past the end.
//! // SAFETY: as above; the emulator checks the access.
//! let error = unsafe {
//!     emulator.launch("number", LaunchConfig::new(1, 5), &[&(&raw mut out).addr().to_le_bytes()]).unwrap_err()
//! };
//! assert!(error.to_string().starts_with("kernel number, block [0, 0, 0], thread [4, 0, 0]: store of 4 bytes at 0x"));
//! # Ok::<(), ptx_emulator::EmulatorError>(())
//! ```
//!
//! The emulator aims for correctness, not speed: it is written from the PTX ISA alone and shares no code with the executor
//! of `cuda_std`. It rejects what it does not support exactly, and reports the instruction and its line;
//! [`PtxModule::unsupported`] lists such instructions. Beyond what a GPU does, it checks every access against the memory that
//! was passed to the launch, and every barrier and warp operation for the threads that must take part.
//!
//! It tracks which bits of registers, parameters, local and shared memory are undefined, that is, were never written, and
//! which results depend on them. Moving undefined bits is valid, since compilers copy padding and compute ahead. It is a
//! fault to branch on one, or to use one in an address, in an atomic operation or in a value that other threads receive.
//! Stored to global memory they become a pattern that is a NaN of every float type and an unlikely integer;
//! [`Emulator::undefined_in`] finds them after a launch.
//!
//! Reading a register that the thread has not written is a fault, even if a mask follows: ptxas drops such masks.
//! [`Emulator::with_unwritten_registers`] allows it for PTX of other compilers, with undefined bits or noise.
//!
//! It supports the driver's functions `malloc`, `free`, `vprintf` and `__assertfail`. Uses of a block beyond its bounds or
//! after it was freed are faults; leaks are not. Kernels' output is printed, or kept with
//! [`Emulator::with_captured_output`].
//!
//! `wgmma` and tensor copies take as long as possible. Until the group of a `wgmma` is waited for, its accumulators must not
//! be accessed and its operands must not be written. The emulator checks the `wgmma.fence` before it, the
//! `fence.proxy.async` after writes of threads, the fences of barriers, expected bytes and `setmaxnreg`. Tensor maps are those
//! that `cuda_std`'s `TensorMapSpec::encode_raw` encodes; only the driver knows the encoding for GPUs.
//!
//! The emulator does not reproduce: the order of memory accesses of different threads (they take turns between barriers),
//! the bits of approximate instructions (computed in f64 and rounded, within the ISA's bounds where it states any), the
//! payload of a NaN that is an f64 or comes from 16 bits, and `ptxas` fusing a multiplication and an addition without
//! rounding modifiers.
//!
//! [`Emulator::with_race_check`] finds accesses of two threads that nothing orders, in kernels that wait for each other at
//! barriers of a block or of a warp.
//!
//! # Counts
//!
//! [`Emulator::with_counts`] counts actions of warps that cost time, as Nsight Compute does on a GPU: sectors and lines of
//! requests to global memory, bank conflicts of shared memory, local and constant memory, divergent branches, threads that
//! execute an instruction. Counts are by launch, by instruction and, with line information, by source line.
//! `cuda_std::testing` has the [types](cuda_std::testing::counts), and counts a kernel in a test:
//!
//! ```
//! use cuda_std::launch::LaunchConfig;
//! use cuda_std::testing::{KernelTest, TestError};
//! use cuda_std::{kernel, thread};
//! use ptx_emulator::{Emulator, PtxModule};
//!
//! /// Copies every other element.
//! ///
//! /// # Safety
//! /// `out` has an element for each thread, and `inp` two.
//! #[kernel]
//! pub unsafe fn every_other(out: *mut u32, inp: *const u32) {
//!     let i = thread::thread_idx_x() as usize;
//!     // SAFETY: the kernel's contract.
//!     unsafe { *out.add(i) = *inp.add(2 * i) };
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // What `cuda_builder` makes of it.
//! let module = PtxModule::parse(
//!     ".version 8.6\n.target sm_75\n.address_size 64
//!     .visible .entry every_other(.param .u64 out, .param .u64 inp) {
//!         .reg .b32 %r<3>; .reg .b64 %rd<3>;
//!         ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [inp];
//!         mov.u32 %r1, %tid.x;
//!         mad.wide.u32 %rd1, %r1, 4, %rd1;
//!         mad.wide.u32 %rd2, %r1, 8, %rd2;
//!         ld.global.u32 %r2, [%rd2];
//!         st.global.u32 [%rd1], %r2;
//!         ret;
//!     }",
//! )?;
//! let numbers: Vec<u32> = (0..128).collect();
//! let mut test = KernelTest::new();
//! let inp = test.input("inp", &numbers);
//! let out = test.output("out", &[0u32; 64]);
//! test.expect(out, &numbers.iter().copied().step_by(2).collect::<Vec<_>>());
//! let counts = test.count(&Emulator::new(module), |on, memory| {
//!     // SAFETY: 64 threads, 64 and 128 elements.
//!     unsafe { every_other::launch(on, LaunchConfig::new(1, 64), memory.output(out), memory.input(inp)) }
//! })?;
//! // Two warps: each writes 128 bytes that lie together, and reads as many out of 256.
//! assert_eq!((counts.total.global.stores.requests, counts.total.global.stores.sectors), (2, 8));
//! assert_eq!((counts.total.global.loads.requests, counts.total.global.loads.sectors), (2, 16));
//! assert_eq!(counts.of_text("ld.global").global.loads.efficiency(), 0.5);
//! # Ok(())
//! # }
//! ```
//!
//! If a host library's device owns the emulator, the test keeps its [`Counter`](cuda_std::testing::Counter):
//! [`Emulator::with_counter`].
//!
//! Threads run one at a time, so the emulator derives which lanes execute an instruction together: those in the same
//! iterations of all loops around it that came through the same calls. So lanes diverge at a branch and reconverge where its
//! paths meet, at the latest after the loop, as with `ptxas`. Where paths cross without nesting, a GPU may need more.
//!
//! The counts match a GPU's, except:
//!
//! - `ptxas` changes the instructions: it turns branches into predicates, unrolls loops, and moves and removes instructions.
//!   So instruction and branch counts differ, their ratios less; memory requests mostly stay the same. Spills are not in the
//!   PTX.
//! - A request with the predicate off in all lanes is not counted here; a GPU does not count requests without sectors.
//! - GPUs need fewer passes if all pairs of lanes access 8 or 16 bytes of shared memory at one address. Here the passes are
//!   the same as for distinct addresses; neither counts conflicts. The queueing of atomic operations on one word is a model:
//!   one after the other.
//! - A tensor copy counts its bytes within the tensor; a multicast counts once.
//! - A wait for other threads counts the loads that it makes here.
//! - A load of a constant by a generic address counts as one from global memory. Not counted are parameters, prefetches, the
//!   driver's functions, and caches and DRAM after the requests.
//! - Memory counts at its address: memory of a `KernelTest` begins at a multiple of 256, like a GPU's allocations, and
//!   [lent](Emulator::lend) memory wherever it is.
//!
//! Counting takes time, and memory for everything that a warp does until its lanes meet.

mod emulator;
mod error;
mod exec;
mod flow;
mod globals;
mod instr;
mod launcher;
mod lex;
mod module;
mod parse;
mod tensor_map;

pub use emulator::Emulator;
pub use error::{Cause, EmulatorError, Fault, UndefinedByte};
pub use exec::grid::{Turns, UnwrittenRegisters};
pub use module::{PtxModule, Unsupported};
