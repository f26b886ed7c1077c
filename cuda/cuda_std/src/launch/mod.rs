//! Typed launches: the host side of `#[kernel]`.
//!
//! `#[kernel] unsafe fn saxpy(..)` also defines a type of the same name with a function
//! `saxpy::launch(on, config, ..)`. The host's compiler checks its arguments against the kernel's parameters. `on` is
//! any [`Launcher`]: the CPU executor ([`crate::simt::Executor`]) or a CUDA device.
//!
//! A slice parameter is passed as two arguments, pointer and length in elements: Rust-CUDA's calling convention. The
//! type decides whether a parameter is a slice ([`crate::param`]), so an alias or a macro changes nothing.
//!
//! A struct may be the only argument; [`KernelArgs`](macro@crate::KernelArgs) describes the buffers in it to the launch.
//!
//! If a module has the kernel's name, as in `mod gemm; pub use gemm::gemm;`, the type is called `gemm_kernel`, because a
//! type and a module cannot share a name.

mod args;
mod dims;
mod flat;
mod instance;
mod limits;
#[cfg(feature = "kernel-list")]
mod list;

use core::ffi::c_void;

pub use args::{Buffer, PtrArg, PtrMutArg, RawBuffer, Residence, SliceArg, SliceMutArg};
pub use dims::{Dim3, LaunchConfig};
pub use flat::Arg;
#[doc(hidden)]
pub use flat::{ArgList, Buffers, Slots};
pub use instance::{Instance, KernelOf, KernelsOf};
pub use limits::{LaunchError, Limits};
#[cfg(feature = "kernel-list")]
pub use list::{KERNELS, kernels_in};

/// What `#[kernel]` knows about a kernel.
#[derive(Debug)]
pub struct KernelMeta {
    /// The kernel's symbol in the PTX.
    pub name: &'static str,
    /// The source file it is written in.
    pub file: &'static str,
    /// The line of its `fn`.
    pub line: u32,
    /// The lowest compute capability with the kernel in its PTX: 90 for 9.0, 0 for all; see also [`Self::cpu_only`].
    pub min_arch: u32,
    /// Whether only devices of exactly the compute capability [`min_arch`](Self::min_arch) run it, for
    /// `#[kernel(arch = "90a")]`: it is in the PTX for `compute_90a`, and in no other.
    pub arch_specific: bool,
    /// The largest number of threads of a block that the kernel was compiled for; 0 if not specified.
    pub max_threads: u32,
    /// The blocks per multiprocessor that the kernel was compiled for; 0 if not specified.
    pub min_blocks: u32,
    /// Whether its blocks wait for each other, so that all blocks of a grid must be on the device at once.
    pub cooperative: bool,
    /// Whether it is for the CPU executor only: no PTX has it, and a launch on a GPU or an emulator is refused.
    pub cpu_only: bool,
    /// Calls the kernel's function, as one thread of the CPU executor, with the arguments behind the pointers.
    ///
    /// # Safety
    /// The array holds one pointer per flattened parameter, each to a valid value of that parameter's type,
    /// and the kernel's own contract holds.
    #[doc(hidden)]
    pub call: unsafe fn(*const *mut c_void),
}

/// One launch with its types erased, as a [`Launcher`] receives it.
#[derive(Debug)]
pub struct KernelCall<'a> {
    /// The kernel.
    pub meta: &'static KernelMeta,
    /// Grid, block, dynamic shared memory and cluster.
    pub config: LaunchConfig,
    /// One pointer per flattened parameter, in order, to the argument's value.
    pub args: &'a [*mut c_void],
    /// The memory lent with the arguments, also with those in a struct.
    pub buffers: &'a [Buffer],
}

impl KernelCall<'_> {
    /// Checks whether the launcher can run the kernel with this grid, block, shared memory and cluster, within the
    /// kernel's own bounds, and whether every argument is in the launcher's memory. All blocks of a cooperative kernel
    /// must be resident at once.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn check(&self, launcher: Residence, limits: &Limits) -> Result<(), LaunchError> {
        let kernel = self.meta.name;
        limits.check_kernel(self.meta)?;
        limits.check(kernel, &self.config)?;
        let (block, max) = (self.config.block, self.meta.max_threads);
        if max > 0 && block.volume() > u64::from(max) {
            return Err(LaunchError::TooManyThreads { kernel, block, got: block.volume(), max });
        }
        if self.meta.cooperative {
            limits.check_resident(kernel, &self.config)?;
        }
        for &Buffer { name: argument, residence: at, .. } in self.buffers {
            if at != launcher && at != Residence::Unchecked {
                return Err(LaunchError::WrongDevice { kernel, argument, at, launcher });
            }
        }
        Ok(())
    }
}

/// Something that runs kernels: the CPU executor or a CUDA device.
pub trait Launcher {
    /// Runs or enqueues one launch. A CUDA device returns when the launch is queued; a fault of the kernel
    /// then appears at the next synchronisation.
    ///
    /// # Errors
    /// [`LaunchError`]: the launch does not fit the device, the driver refused it, or (where the device runs
    /// it at once) the kernel failed.
    ///
    /// # Safety
    /// `call.args` holds one pointer per flattened parameter of the kernel, each to a valid value of that
    /// parameter's type, and the kernel's own `# Safety` section holds for these arguments and this grid.
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError>;
}
