//! What the softmax operation launches, with the types of its matrices erased.

use core::ffi::c_void;

use cuda_std::launch::{KernelMeta, LaunchConfig, LaunchError, Launcher, PtrArg, PtrMutArg, Residence};

use super::forward_tiers::{BF16_TO_BF16, BF16_TO_F32, F16_TO_F16, F16_TO_F32, F32_TO_F32};
use crate::element::DType;

/// Memory of a device, of any type: what a launch takes where the kernel's type is known at run time only.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The first byte.
    pub pointer: *mut c_void,
    /// Bytes from there on, where the owner knows.
    pub bytes: Option<usize>,
    /// In whose memory they are.
    pub residence: Residence,
}

impl Memory {
    /// A null pointer: for a kernel that may go without.
    pub const NONE: Self =
        Self { pointer: core::ptr::null_mut(), bytes: None, residence: Residence::Unchecked };

    /// A buffer for a kernel to read. Whoever keeps it holds the buffer's borrow.
    pub fn read<T>(arg: impl PtrArg<T>) -> Self {
        let pointer = arg.as_raw_ptr().cast_mut().cast();
        Self { pointer, bytes: arg.byte_len(), residence: arg.residence() }
    }

    /// A buffer for a kernel to write. Whoever keeps it holds the buffer's borrow.
    pub fn written<T>(mut arg: impl PtrMutArg<T>) -> Self {
        Self { pointer: arg.as_raw_mut_ptr().cast(), bytes: arg.byte_len(), residence: arg.residence() }
    }
}

// SAFETY: the launch is unsafe, and its caller answers for the pointer.
unsafe impl<T> PtrArg<T> for Memory {
    fn as_raw_ptr(&self) -> *const T {
        self.pointer.cast()
    }
    fn residence(&self) -> Residence {
        self.residence
    }
    fn byte_len(&self) -> Option<usize> {
        self.bytes
    }
}

// SAFETY: as above.
unsafe impl<T> PtrMutArg<T> for Memory {
    fn as_raw_mut_ptr(&mut self) -> *mut T {
        self.pointer.cast()
    }
    fn residence(&self) -> Residence {
        self.residence
    }
    fn byte_len(&self) -> Option<usize> {
        self.bytes
    }
}

/// The arguments of the forward kernels. Strides are in elements.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// `[rows, cols]` of the output's type.
    pub out: Memory,
    /// `[rows, cols]` of the input's type.
    pub inp: Memory,
    /// Rows of both.
    pub rows: u32,
    /// Columns of both.
    pub cols: u32,
    /// Elements from a row of `out` to the next.
    pub out_stride: u64,
    /// Elements from a row of `inp` to the next.
    pub inp_stride: u64,
    /// Factor of the elements of `inp`: positive and finite.
    pub scale: f32,
    /// [`LOG`](super::forward::LOG), [`ZERO_MASKED`](super::forward::ZERO_MASKED).
    pub flags: u32,
    /// How many blocks, or clusters, ahead rows are prefetched into L2; 0 for none.
    pub ahead: u32,
    /// Parts that the pair of kernels cuts a row in; the others take no notice.
    pub parts: u32,
}

/// A kernel for rows up to a width, with arguments `A`.
#[derive(Debug)]
pub struct Tier<A = Arguments> {
    /// The kernel.
    pub meta: &'static KernelMeta,
    /// Threads of a block.
    pub block: u32,
    /// Threads that hold a row, or a block's part of it.
    pub threads: u32,
    /// Elements that they hold in vectors. Up to a vector less before and after these lie beside.
    pub elements: u32,
    /// Blocks that a multiprocessor runs at once.
    pub resident: u32,
    /// Launches the kernel.
    ///
    /// # Safety
    /// The kernel's contract holds.
    pub launch: unsafe fn(&dyn Launcher, LaunchConfig, A) -> Result<(), LaunchError>,
}

impl<A> Tier<A> {
    /// Grid and block for `rows` rows.
    pub fn config(&self, rows: u32) -> LaunchConfig {
        LaunchConfig::new(rows.div_ceil(self.block / self.threads), self.block)
    }
}

/// A [`Tier`] of a kernel: threads of a block and of a row, the most columns, blocks of a multiprocessor, and what of
/// the arguments the kernel is launched with.
macro_rules! tier {
    ($kernel:ident, $block:expr, $threads:expr, $elements:expr, $resident:expr, |$a:ident: $ty:ty| ($($argument:expr),*)) => {
        $crate::softmax::operation::Tier {
            meta: <$kernel>::META,
            block: $block as u32,
            threads: $threads as u32,
            elements: $elements as u32,
            resident: $resident,
            launch: |on, config, $a: $ty| {
                // SAFETY: the caller of the function answers for the kernel's contract.
                unsafe { $kernel::launch(on, config, $($argument),*) }
            },
        }
    };
}
pub(super) use tier;

/// The kernels of an operation on one type.
#[derive(Debug)]
pub struct OfType<A: 'static> {
    /// The type.
    pub dtype: DType,
    /// The kernels, those for narrow rows first. The last two take any width: one of a block for a row, and one of a
    /// thread for a row, which is for a CPU.
    pub tiers: &'static [Tier<A>],
}

/// The launch of one kernel of a pair; the memory is that of the (max, sum) pairs, `[rows, parts]`.
pub type SplitLaunch = unsafe fn(&dyn Launcher, LaunchConfig, Memory, Arguments) -> Result<(), LaunchError>;

/// The pair of kernels for any width.
#[derive(Debug)]
pub struct Split {
    /// The kernel that reduces the parts.
    pub reduce: &'static KernelMeta,
    /// The kernel that writes.
    pub write: &'static KernelMeta,
    /// Launches the first; its contract holds.
    pub launch_reduce: SplitLaunch,
    /// Launches the second; its contract holds.
    pub launch_write: SplitLaunch,
}

impl Split {
    /// Threads of a block of both.
    pub const BLOCK: u32 = super::forward_split::BLOCK as u32;
}

/// The kernels from one type to another.
#[derive(Debug)]
pub struct Forward {
    /// Type of the input.
    pub from: DType,
    /// Type of the output.
    pub to: DType,
    /// Kernels of a block for one row or more, for narrow rows first.
    pub tiers: &'static [Tier],
    /// Kernels of a cluster for a row; `elements` are those of one block. For narrow rows first.
    pub clusters: &'static [Tier],
    /// The kernel of a thread for a row, of any width: for a CPU.
    pub serial: Tier,
    /// The pair for all others.
    pub split: Split,
}

/// All kernels, by type.
pub const FORWARD: &[Forward] = &[F32_TO_F32, F16_TO_F16, BF16_TO_BF16, F16_TO_F32, BF16_TO_F32];
