//! Typed launches, the host's half of `#[kernel]`.
//!
//! `#[kernel] unsafe fn saxpy(..)` also defines a type of the same name with a function
//! `saxpy::launch(on, config, ..)` whose arguments are checked against the kernel's parameters when the host
//! compiles. `on` is any [`Launcher`]: the CPU executor ([`crate::simt::Executor`]) or a CUDA device.
//!
//! A slice parameter travels as two arguments, pointer and length in elements: Rust-CUDA's calling convention.

use core::ffi::c_void;
use core::fmt;

/// Extents of a grid (in blocks) or of a block (in threads).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim3 {
    /// Extent of the fastest-varying axis.
    pub x: u32,
    /// Extent of the second axis.
    pub y: u32,
    /// Extent of the third axis.
    pub z: u32,
}

impl Dim3 {
    /// Extents of all three axes.
    pub const fn new(x: u32, y: u32, z: u32) -> Self {
        Self { x, y, z }
    }

    /// Number of elements, the product of the extents.
    pub const fn volume(self) -> u64 {
        (self.x as u64).saturating_mul(self.y as u64).saturating_mul(self.z as u64)
    }

    /// The coordinates of the element with the linear index `index`, x fastest.
    pub(crate) const fn unravel(self, index: u64) -> Dim3 {
        let (x, y) = (self.x as u64, self.y as u64);
        Dim3 { x: (index % x) as u32, y: (index / x % y) as u32, z: (index / (x * y)) as u32 }
    }
}

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Self::new(x, 1, 1)
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Self {
        Self::new(x, y, 1)
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self::new(x, y, z)
    }
}

impl fmt::Display for Dim3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {}, {})", self.x, self.y, self.z)
    }
}

/// How many blocks of how many threads, and how much dynamic shared memory each block gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Threads in a block.
    pub block: Dim3,
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
}

impl LaunchConfig {
    /// `grid` blocks of `block` threads, without dynamic shared memory.
    pub fn new(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Self {
        Self { grid: grid.into(), block: block.into(), shared_bytes: 0 }
    }

    /// As many one-dimensional blocks of `block` threads as cover `elements`; at least one block.
    pub fn cover(elements: usize, block: u32) -> Self {
        let blocks = elements.div_ceil(block.max(1) as usize).max(1);
        // A grid of more blocks than u32 can count is refused by the check against the device's limits.
        Self::new(u32::try_from(blocks).unwrap_or(u32::MAX), block)
    }

    /// The same launch with `bytes` of dynamic shared memory per block.
    pub fn with_shared_bytes(self, bytes: u32) -> Self {
        Self { shared_bytes: bytes, ..self }
    }
}

/// What a device allows in one launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Blocks along each axis of the grid.
    pub max_grid: Dim3,
    /// Threads along each axis of a block.
    pub max_block: Dim3,
    /// Threads in a block.
    pub max_threads_per_block: u32,
    /// Dynamic shared memory of a block in bytes, with the opt-in where the device has one.
    pub max_dynamic_shared_bytes: u32,
}

impl Default for Limits {
    /// The limits every CUDA device since compute capability 8.0 keeps: 1024 threads a block, a grid of
    /// 2^31 - 1 by 65535 by 65535 blocks, 99 KiB of shared memory (CUDA programming guide, "technical
    /// specifications per compute capability").
    fn default() -> Self {
        Self {
            max_grid: Dim3::new(i32::MAX as u32, 65535, 65535),
            max_block: Dim3::new(1024, 1024, 64),
            max_threads_per_block: 1024,
            max_dynamic_shared_bytes: 99 * 1024,
        }
    }
}

impl Limits {
    /// Checks `config` against these limits.
    ///
    /// # Errors
    /// The first of grid, block and dynamic shared memory that is empty or over its limit.
    pub fn check(&self, kernel: &'static str, config: &LaunchConfig) -> Result<(), LaunchError> {
        let LaunchConfig { grid, block, shared_bytes } = *config;
        for (what, got, max) in [("grid", grid, self.max_grid), ("block", block, self.max_block)] {
            if got.x == 0 || got.y == 0 || got.z == 0 {
                return Err(LaunchError::Empty { kernel, what, got });
            }
            if got.x > max.x || got.y > max.y || got.z > max.z {
                return Err(LaunchError::TooLarge { kernel, what, got, max });
            }
        }
        if block.volume() > u64::from(self.max_threads_per_block) {
            return Err(LaunchError::TooManyThreads {
                kernel,
                block,
                got: block.volume(),
                max: self.max_threads_per_block,
            });
        }
        if shared_bytes > self.max_dynamic_shared_bytes {
            return Err(LaunchError::TooMuchShared {
                kernel,
                got: u64::from(shared_bytes),
                max: self.max_dynamic_shared_bytes,
            });
        }
        Ok(())
    }
}

/// Why a launch did not happen, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// An axis of the grid or of the block is zero.
    #[error("launch of {kernel} failed: the {what} {got} is empty; every axis must be at least 1")]
    Empty {
        /// The kernel.
        kernel: &'static str,
        /// `grid` or `block`.
        what: &'static str,
        /// The extents asked for.
        got: Dim3,
    },
    /// An axis of the grid or of the block is over the device's limit.
    #[error("launch of {kernel} failed: the {what} {got} is over the device's limit of {max}")]
    TooLarge {
        /// The kernel.
        kernel: &'static str,
        /// `grid` or `block`.
        what: &'static str,
        /// The extents asked for.
        got: Dim3,
        /// The largest allowed on each axis.
        max: Dim3,
    },
    /// The block has too many threads.
    #[error("launch of {kernel} failed: the block {block} has {got} threads, at most {max} are allowed")]
    TooManyThreads {
        /// The kernel.
        kernel: &'static str,
        /// The block asked for.
        block: Dim3,
        /// Its threads.
        got: u64,
        /// The device's limit.
        max: u32,
    },
    /// More shared memory than a block can have.
    #[error("launch of {kernel} failed: {got} bytes of shared memory per block, at most {max} are allowed")]
    TooMuchShared {
        /// The kernel.
        kernel: &'static str,
        /// Bytes asked for.
        got: u64,
        /// The device's limit in bytes.
        max: u32,
    },
    /// An argument lives in the memory of another device.
    #[error(
        "launch of {kernel} failed: argument `{argument}` lives in the memory of {at}, the launch is on \
         {launcher}; copy it there first"
    )]
    WrongDevice {
        /// The kernel.
        kernel: &'static str,
        /// The parameter's name.
        argument: &'static str,
        /// Where the argument lives.
        at: Residence,
        /// Where the kernel was to run.
        launcher: Residence,
    },
    /// The kernel ran on the CPU executor and broke a rule of the CUDA model, or panicked.
    #[error(transparent)]
    Fault(#[from] Box<crate::simt::Fault>),
    /// The device's driver refused the launch or reported a fault of the kernel.
    #[error("launch of {kernel} failed: {message}")]
    Driver {
        /// The kernel.
        kernel: String,
        /// What the driver said, and the cure where it is known.
        message: String,
    },
}

/// In whose memory an argument lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    /// Ordinary memory of this process, which the CPU executor works on.
    Host,
    /// Memory of the CUDA device with this ordinal.
    Cuda(u32),
    /// A raw pointer: the caller answers for it.
    Unchecked,
}

impl fmt::Display for Residence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Residence::Host => f.write_str("the CPU"),
            Residence::Cuda(ordinal) => write!(f, "CUDA device {ordinal}"),
            Residence::Unchecked => f.write_str("an unknown device"),
        }
    }
}

/// What `#[kernel]` knows of a kernel.
#[derive(Debug)]
pub struct KernelMeta {
    /// The kernel's symbol in the PTX.
    pub name: &'static str,
    /// The source file it is written in.
    pub file: &'static str,
    /// The line of its `fn`.
    pub line: u32,
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
    /// Grid, block and dynamic shared memory.
    pub config: LaunchConfig,
    /// One pointer per flattened parameter, in order, to the argument's value.
    pub args: &'a [*mut c_void],
    /// Name and residence of every buffer argument.
    pub residences: &'a [(&'static str, Residence)],
}

impl KernelCall<'_> {
    /// Checks grid, block, shared memory and the residence of every argument against the launcher's.
    ///
    /// # Errors
    /// The first that does not fit.
    pub fn check(&self, launcher: Residence, limits: &Limits) -> Result<(), LaunchError> {
        let kernel = self.meta.name;
        limits.check(kernel, &self.config)?;
        for &(argument, at) in self.residences {
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

/// An argument for a parameter `&[T]`.
///
/// # Safety
/// The returned pointer is valid for reads of that many initialised elements at `residence` until the launch
/// has ended, and nobody writes them meanwhile. For length 0 the pointer is aligned and not null.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a kernel's parameter `&[{T}]`",
    note = "pass a reference to a device buffer (or, on the CPU executor, a slice) with elements of type `{T}`"
)]
pub unsafe trait SliceArg<T> {
    /// Pointer to the first element and number of elements.
    fn as_raw_slice(&self) -> (*const T, usize);
    /// In whose memory the elements live.
    fn residence(&self) -> Residence;
}

/// An argument for a parameter `*const T` or `&T`.
///
/// # Safety
/// The returned pointer is valid for the reads the kernel's contract names, at `residence`, until the launch
/// has ended.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a kernel's parameter `*const {T}`",
    note = "pass a reference to a device buffer (or, on the CPU executor, a slice) with elements of type `{T}`"
)]
pub unsafe trait PtrArg<T> {
    /// Pointer to the first element.
    fn as_raw_ptr(&self) -> *const T;
    /// In whose memory the elements live.
    fn residence(&self) -> Residence;
}

/// An argument for a parameter `*mut T`.
///
/// # Safety
/// The returned pointer is valid for the reads and writes the kernel's contract names, at `residence`, until
/// the launch has ended.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a kernel's parameter `*mut {T}`",
    note = "pass an exclusive reference to a device buffer (or, on the CPU executor, a slice) with elements of \
            type `{T}`"
)]
pub unsafe trait PtrMutArg<T> {
    /// Pointer to the first element.
    fn as_raw_mut_ptr(&mut self) -> *mut T;
    /// In whose memory the elements live.
    fn residence(&self) -> Residence;
}

macro_rules! host_memory_args {
    ($([$($generics:tt)*] $shared:ty, $exclusive:ty;)*) => {$(
        // SAFETY: a shared slice of the caller's, which outlives the launch on the CPU executor.
        unsafe impl<T: Copy, $($generics)*> SliceArg<T> for $shared {
            fn as_raw_slice(&self) -> (*const T, usize) {
                (self.as_ptr(), self.len())
            }
            fn residence(&self) -> Residence {
                Residence::Host
            }
        }
        // SAFETY: as above.
        unsafe impl<T: Copy, $($generics)*> PtrArg<T> for $shared {
            fn as_raw_ptr(&self) -> *const T {
                self.as_ptr()
            }
            fn residence(&self) -> Residence {
                Residence::Host
            }
        }
        // SAFETY: an exclusive slice of the caller's, which outlives the launch on the CPU executor.
        unsafe impl<T: Copy, $($generics)*> PtrMutArg<T> for $exclusive {
            fn as_raw_mut_ptr(&mut self) -> *mut T {
                self.as_mut_ptr()
            }
            fn residence(&self) -> Residence {
                Residence::Host
            }
        }
    )*};
}

host_memory_args! {
    [] &[T], &mut [T];
    [] &Vec<T>, &mut Vec<T>;
    [const N: usize] &[T; N], &mut [T; N];
}

// SAFETY: a raw pointer is unchecked; the launch is unsafe and its caller answers for it.
unsafe impl<T> PtrArg<T> for *const T {
    fn as_raw_ptr(&self) -> *const T {
        *self
    }
    fn residence(&self) -> Residence {
        Residence::Unchecked
    }
}

// SAFETY: as above.
unsafe impl<T> PtrMutArg<T> for *mut T {
    fn as_raw_mut_ptr(&mut self) -> *mut T {
        *self
    }
    fn residence(&self) -> Residence {
        Residence::Unchecked
    }
}

/// Refuses, when the host compiles, a by-value parameter that cannot be copied to the device byte for byte.
#[doc(hidden)]
pub fn __assert_copy<T: Copy>() {}
