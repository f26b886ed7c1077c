//! Kernels of a module, and their launches.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

use crate::error::CudaResult;
use crate::memory::copy::DeviceCopy;
use crate::sys::{self, CUfunction};

/// Declares a size with three dimensions.
macro_rules! size {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            /// Along x.
            pub x: u32,
            /// Along y.
            pub y: u32,
            /// Along z.
            pub z: u32,
        }

        impl $name {
            /// One dimension.
            pub fn x(x: u32) -> Self {
                Self::xyz(x, 1, 1)
            }

            /// Two dimensions.
            pub fn xy(x: u32, y: u32) -> Self {
                Self::xyz(x, y, 1)
            }

            /// Three dimensions.
            pub fn xyz(x: u32, y: u32, z: u32) -> Self {
                Self { x, y, z }
            }
        }

        impl From<u32> for $name {
            fn from(x: u32) -> Self {
                Self::x(x)
            }
        }

        impl From<(u32, u32)> for $name {
            fn from((x, y): (u32, u32)) -> Self {
                Self::xy(x, y)
            }
        }

        impl From<(u32, u32, u32)> for $name {
            fn from((x, y, z): (u32, u32, u32)) -> Self {
                Self::xyz(x, y, z)
            }
        }

        impl From<&$name> for $name {
            fn from(size: &$name) -> Self {
                *size
            }
        }
    };
}

size! {
    /// Blocks of a grid.
    GridSize
}

size! {
    /// Threads of a block.
    BlockSize
}

impl BlockSize {
    /// The number of threads, or the largest number that the driver accepts.
    fn threads(self) -> c_int {
        let threads = self.x.checked_mul(self.y).and_then(|threads| threads.checked_mul(self.z));
        threads.and_then(|threads| threads.try_into().ok()).unwrap_or(c_int::MAX)
    }
}

/// An attribute of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(i32)]
pub enum FunctionAttribute {
    /// Maximum threads per block, limited by its registers.
    MaxThreadsPerBlock = 0,
    /// Static shared memory per block in bytes.
    SharedMemorySizeBytes = 1,
    /// Constant memory in bytes.
    ConstSizeBytes = 2,
    /// Local memory per thread in bytes.
    LocalSizeBytes = 3,
    /// Registers per thread.
    NumRegisters = 4,
    /// The architecture of its PTX, as 10 * major + minor.
    PtxVersion = 5,
    /// The architecture of its machine code, as 10 * major + minor.
    BinaryVersion = 6,
    /// Whether it was compiled to cache global loads in L1.
    CacheModeCa = 7,
    /// Maximum dynamic shared memory per block, in bytes, that a launch may request.
    MaxDynamicSharedSizeBytes = 8,
    /// The preferred percentage of L1 storage used as shared memory.
    PreferredSharedMemoryCarveout = 9,
    /// Whether it may run in clusters of more than 8 blocks.
    NonPortableClusterSizeAllowed = 14,
}

/// A kernel.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    raw: CUfunction,
    module: PhantomData<&'a ()>,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Function<'_> {}
// SAFETY: same as for `Send`.
unsafe impl Sync for Function<'_> {}

impl<'a> Function<'a> {
    /// # Safety
    /// The kernel's module lives as long as `'a`.
    pub(crate) unsafe fn new(raw: CUfunction) -> Function<'a> {
        Function { raw, module: PhantomData }
    }

    /// One of its attributes.
    pub fn get_attribute(&self, attribute: FunctionAttribute) -> CudaResult<i32> {
        // SAFETY: the out parameter is valid, and the module is alive.
        sys::out(|value| unsafe { sys::cuFuncGetAttribute(value, attribute as c_int, self.raw) })
    }

    /// Sets one of its attributes, such as [`FunctionAttribute::MaxDynamicSharedSizeBytes`].
    ///
    /// # Errors
    /// The attribute cannot be set, or not to this value.
    pub fn set_attribute(&mut self, attribute: FunctionAttribute, value: i32) -> CudaResult<()> {
        // SAFETY: the module is alive.
        unsafe { sys::cuFuncSetAttribute(self.raw, attribute as c_int, value) }.ok()
    }

    /// The number of blocks of this size that fit a multiprocessor at once, with this much dynamic shared memory each.
    ///
    /// # Errors
    /// The driver rejects the query.
    pub fn max_active_blocks_per_multiprocessor(
        &self,
        block_size: BlockSize,
        dynamic_smem_size: usize,
    ) -> CudaResult<u32> {
        let (mut blocks, threads) = (0, block_size.threads());
        // SAFETY: the out parameter is valid, and the module is alive.
        unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                self.raw,
                threads,
                dynamic_smem_size,
            )
        }
        .ok()?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// A grid that fills the device, and the block size for it: `(blocks, threads)`. A `block_size_limit` of 0 means no
    /// limit.
    ///
    /// # Errors
    /// The shared memory exceeds the limits.
    pub fn suggested_launch_configuration(
        &self,
        dynamic_smem_size: usize,
        block_size_limit: BlockSize,
    ) -> CudaResult<(u32, u32)> {
        let (mut grid, mut block) = (0, 0);
        let (limit, bytes) = (block_size_limit.threads(), dynamic_smem_size);
        // SAFETY: the out parameters are valid, and the module is alive; there is no function for the shared memory.
        unsafe { sys::cuOccupancyMaxPotentialBlockSize(&mut grid, &mut block, self.raw, None, bytes, limit) }
            .ok()?;
        Ok((u32::try_from(grid).unwrap_or(0), u32::try_from(block).unwrap_or(0)))
    }

    /// The driver's handle.
    pub fn to_raw(&self) -> CUfunction {
        self.raw
    }
}

/// The address of a kernel's argument, which must be copyable to a device.
#[doc(hidden)]
pub fn argument<T: DeviceCopy>(value: &T) -> *mut c_void {
    (&raw const *value).cast_mut().cast()
}

/// Queues a launch of a kernel: `launch!(kernel<<<grid, block, shared_bytes, stream>>>(argument, ..))`, or
/// `launch!(module.kernel<<<..>>>(..))`, which looks the kernel up. Returns a [`CudaResult`]`<()>`.
///
/// Grid and block are a number, a tuple of two or three, or [`GridSize`] and [`BlockSize`]. A slice parameter takes two
/// arguments: `buffer.as_device_ptr(), buffer.len()`.
///
/// # Safety
/// - The arguments have the types of the kernel's parameters, in order.
/// - The memory that the kernel accesses through them lives until it has ended, and no other code uses it until then. That
///   includes the host's slices of unified memory; on a device without concurrent managed access the host uses no unified
///   memory at all meanwhile.
/// - What the kernel writes are values of the elements' types.
#[macro_export]
macro_rules! launch {
    ($module:ident . $function:ident <<<$grid:expr, $block:expr, $shared:expr, $stream:ident>>>($($arg:expr),* $(,)?)) => {
        match $module.get_function(stringify!($function)) {
            Ok(function) => $crate::launch!(function<<<$grid, $block, $shared, $stream>>>($($arg),*)),
            Err(error) => Err(error),
        }
    };
    ($function:ident <<<$grid:expr, $block:expr, $shared:expr, $stream:ident>>>($($arg:expr),* $(,)?)) => {
        $stream.launch(&$function, $grid, $block, $shared, &[$($crate::function::argument(&$arg)),*])
    };
}
