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
//! Of the driver's functions it has `malloc`, `free`, `vprintf` and `__assertfail`. Uses of a block beyond its bounds or
//! after it was freed are faults; blocks that nobody frees are not. What kernels print it prints, or keeps:
//! [`Emulator::with_captured_output`].
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

pub use emulator::Emulator;
pub use error::{Cause, EmulatorError, Fault, UndefinedByte};
pub use exec::Turns;
pub use module::{PtxModule, Unsupported};
