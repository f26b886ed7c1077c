//! Runs PTX on the CPU, so that tests execute the very text that ships.
//!
//! The emulator is for truth, not for speed: it is written from the PTX ISA alone and shares nothing with the
//! executor of `cuda_std`. What it does not know exactly it refuses, with the instruction and its line. Beyond what a
//! GPU does, it checks every access against the memory the launch was given, and every barrier and warp operation for
//! the threads that must take part.
//!
//! It knows of every bit in registers, parameters, local and shared memory whether something was written to it, and of
//! every result whether it depends on one to which nothing was. To move such bits about is no fault, since compilers
//! copy padding and compute ahead; to branch on one, to use one in an address, in an atomic operation or in what other
//! threads get is. Stored to global memory they become a pattern that is a NaN of every float type and no likely
//! integer, and [`Emulator::undefined_in`] tells where a launch left them.
//!
//! To read a register that the thread has not written is a fault, even if a mask follows: ptxas drops such masks.
//! [`Emulator::with_unwritten_registers`] allows it for PTX of other compilers, with undefined bits or noise.
//!
//! Of the driver's functions it has `malloc`, `free`, `vprintf` and `__assertfail`. Uses of a block beyond its bounds or
//! after it was freed are faults; blocks that nobody frees are not. What kernels print it prints, or keeps:
//! [`Emulator::with_captured_output`].
//!
//! `wgmma` and tensor copies take as long as they can. Until the group of a `wgmma` is waited for, its accumulators must not be
//! accessed, and what it reads must not be written. The `wgmma.fence` before it, the `fence.proxy.async` after writes of threads,
//! the fences of barriers, expected bytes and `setmaxnreg` are checked. A [`TensorMap`] encodes the 128 bytes of a tensor map
//! for the emulator, which also reads those that `cuda_std` encodes for its executor; a GPU's are known to its driver alone.
//!
//! What it leaves open: the order of memory accesses of different threads (they take turns, from one barrier to the
//! next), the bits of approximate instructions (computed in f64 and rounded, within the ISA's bounds where it gives
//! any), the payload of a NaN that is an f64 or comes from 16 bits, and that `ptxas` may fuse a multiplication and an
//! addition without rounding modifiers.
//!
//! ```
//! use cuda_std::launch::LaunchConfig;
//! use ptx_emulator::{Emulator, PtxModule};
//!
//! let module = PtxModule::parse(
//!     ".version 8.6\n.target sm_75\n.address_size 64
//!     .visible .entry number(.param .u64 out) {
//!         .reg .b32 %r<2>; .reg .b64 %rd<2>;
//!         ld.param.u64 %rd1, [out];
//!         mov.u32 %r1, %tid.x;
//!         mad.wide.u32 %rd1, %r1, 4, %rd1;
//!         st.global.u32 [%rd1], %r1;
//!         ret;
//!     }",
//! )?;
//! let mut emulator = Emulator::new(module);
//! let mut out = [7u32; 4];
//! // SAFETY: the array outlives the launch, and nobody else uses it.
//! unsafe {
//!     emulator.lend(&mut out);
//!     emulator.launch("number", LaunchConfig::new(1, 4), &[&(&raw mut out).addr().to_le_bytes()])?;
//! }
//! assert_eq!(out, [0, 1, 2, 3]);
//! # Ok::<(), ptx_emulator::EmulatorError>(())
//! ```
//!
//! # Counts
//!
//! [`Emulator::with_counts`] counts what warps do that costs time, as Nsight Compute counts it on a GPU: sectors and lines of
//! requests to global memory, bank conflicts of shared memory, local and constant memory, divergent branches, threads that
//! execute an instruction, by launch and by instruction, and by line of the source in PTX with line information.
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
//! A device of a host library that the emulator was given to counts by a [`Counter`](cuda_std::testing::Counter), which the test
//! keeps: [`Emulator::with_counter`].
//!
//! Threads run one by one, so the emulator derives which lanes execute an instruction together: those that are in the same
//! iterations of all loops around it and came by the same calls. So lanes diverge at a branch and reconverge where its
//! paths meet, at the latest after the loop, as with `ptxas`. Where paths cross without being nested, a GPU may need more
//! instructions.
//!
//! The counts are those of a GPU, with these exceptions:
//!
//! - `ptxas` changes the instructions: it turns branches into predicates, unrolls loops, and moves and removes
//!   instructions. So the numbers of instructions and branches differ, their ratios less; requests to memory mostly stay.
//!   Spills are not in the PTX.
//! - A request none of whose lanes has its predicate on counts nothing here, and a request without sectors there.
//! - Of shared memory, GPUs take accesses of 8 and 16 bytes by two lanes to one address in fewer passes, where that holds for
//!   all pairs of lanes; here they are as many as by lanes with addresses of their own, and no conflicts in either case. How
//!   atomic operations on one word queue is a model: one after the other.
//! - What a tensor copy moves counts by the bytes within the tensor; a multicast counts once.
//! - A wait for other threads counts the loads that it makes here.
//! - A load of a constant by a generic address counts as one from global memory. Parameters, prefetches, and what
//!   functions of the driver do are not counted; nor is what happens behind the requests, in caches and DRAM.
//! - Memory counts where it lies: that of a `KernelTest` begins at a multiple of 256, as a GPU's allocations do, and what
//!   was [lent](Emulator::lend) wherever it is.
//!
//! Counting takes time, and memory for all that a warp does until its lanes meet.

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
pub use exec::{Turns, UnwrittenRegisters};
pub use module::{PtxModule, Unsupported};
pub use tensor_map::{Swizzle, TensorElement, TensorMap};
