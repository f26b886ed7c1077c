//! What the softmax operation launches, with the types of its matrices erased.

use core::ffi::c_void;

use cuda_std::launch::{Instance, LaunchConfig, PtrArg, PtrMutArg, Residence, SliceArg};

use super::forward_tiers::{reduce, softmax, write};
use crate::element::{DType, Element, Output};

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

    /// A buffer that a kernel takes as a slice. Whoever keeps it holds the buffer's borrow.
    pub fn slice<T>(arg: impl SliceArg<T>) -> Self {
        let (pointer, len) = arg.as_raw_slice();
        let bytes = Some(len * size_of::<T>());
        Self { pointer: pointer.cast_mut().cast(), bytes, residence: arg.residence() }
    }

    /// A buffer for a kernel to write. Whoever keeps it holds the buffer's borrow.
    pub fn written<T>(mut arg: impl PtrMutArg<T>) -> Self {
        Self { pointer: arg.as_raw_mut_ptr().cast(), bytes: arg.byte_len(), residence: arg.residence() }
    }
}

// SAFETY: the launch is unsafe, and its caller answers for the pointer. Of what nobody knows the length the kernel gets
// no element.
unsafe impl<T> SliceArg<T> for Memory {
    fn as_raw_slice(&self) -> (*const T, usize) {
        (self.pointer.cast(), self.bytes.unwrap_or(0) / size_of::<T>())
    }
    fn residence(&self) -> Residence {
        self.residence
    }
}

// SAFETY: as above.
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
    /// The (max, sum) of each part of each row, between the kernels of the pair; the others take no notice.
    pub pairs: Memory,
    /// Parts that the pair of kernels cuts a row in.
    pub parts: u32,
}

/// Which rows a kernel is for.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    /// Type of the input.
    pub from: DType,
    /// Type of the output.
    pub to: DType,
    /// Threads of a block.
    pub block: u32,
    /// Threads that hold a row, or a block's part of it.
    pub threads: u32,
    /// Elements that they hold in vectors. Up to a vector less before and after these lie beside.
    pub elements: u32,
    /// Whether a cluster of blocks holds a row, and each block so many elements.
    pub is_cluster: bool,
}

impl Fit {
    /// For rows of `N` elements a vector, of which `threads` threads hold `vectors` each.
    pub const fn of<I: Element<N>, O: Output<N>, const N: usize>(
        block: usize,
        threads: usize,
        vectors: usize,
        is_cluster: bool,
    ) -> Self {
        let elements = (N * threads * vectors) as u32;
        Self { elements, is_cluster, threads: threads as u32, ..Self::any_width::<I, O, N>(block) }
    }

    /// For rows of any width, a block each.
    pub const fn any_width<I: Element<N>, O: Output<N>, const N: usize>(block: usize) -> Self {
        let block = block as u32;
        Self { from: I::DTYPE, to: O::DTYPE, block, threads: block, elements: u32::MAX, is_cluster: false }
    }

    /// As [`Self::of`], or [`Self::any_width`].
    pub const fn of_any<I: Element<N>, O: Output<N>, const N: usize>(
        block: usize,
        threads: usize,
        vectors: usize,
        is_any_width: bool,
    ) -> Self {
        if is_any_width {
            Self::any_width::<I, O, N>(block)
        } else {
            Self::of::<I, O, N>(block, threads, vectors, false)
        }
    }

    /// Grid and block for `rows` rows.
    pub fn config(&self, rows: u32) -> LaunchConfig {
        LaunchConfig::new(rows.div_ceil(self.block / self.threads), self.block)
    }

    const fn is(&self, from: DType, to: DType, is_cluster: bool) -> bool {
        self.from as u8 == from as u8 && self.to as u8 == to as u8 && self.is_cluster == is_cluster
    }
}

/// A kernel for rows up to a width, with arguments `A`.
pub type Tier<A = Arguments> = Instance<A, Fit>;

/// Those of `tiers` for these types, which stand one after the other.
const fn tiers_of<A>(
    tiers: &'static [Tier<A>],
    from: DType,
    to: DType,
    is_cluster: bool,
) -> &'static [Tier<A>] {
    let mut first = 0;
    while first < tiers.len() && !tiers[first].facts.is(from, to, is_cluster) {
        first += 1;
    }
    let mut end = first;
    while end < tiers.len() && tiers[end].facts.is(from, to, is_cluster) {
        end += 1;
    }
    tiers.split_at(end).0.split_at(first).1
}

/// The kernels of an operation on one type.
#[derive(Debug)]
pub struct OfType<A: 'static> {
    /// The type.
    pub dtype: DType,
    /// The kernels, those for narrow rows first; the last one takes any width.
    pub tiers: &'static [Tier<A>],
}

impl<A> OfType<A> {
    /// Those of `tiers` for each type.
    pub const fn each(tiers: &'static [Tier<A>]) -> [Self; 3] {
        [
            Self { dtype: DType::F32, tiers: tiers_of(tiers, DType::F32, DType::F32, false) },
            Self { dtype: DType::F16, tiers: tiers_of(tiers, DType::F16, DType::F16, false) },
            Self { dtype: DType::Bf16, tiers: tiers_of(tiers, DType::Bf16, DType::Bf16, false) },
        ]
    }
}

/// The pair of kernels for any width.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    /// The kernel that reduces the parts.
    pub reduce: &'static Tier,
    /// The kernel that writes.
    pub write: &'static Tier,
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
    /// The pair for all others.
    pub split: Split,
}

impl Forward {
    const fn between(from: DType, to: DType) -> Self {
        let tiers = softmax::INSTANCES;
        let reduce = &tiers_of(reduce::INSTANCES, from, to, false)[0];
        let write = &tiers_of(write::INSTANCES, from, to, false)[0];
        Self {
            from,
            to,
            tiers: tiers_of(tiers, from, to, false),
            clusters: tiers_of(tiers, from, to, true),
            split: Split { reduce, write },
        }
    }
}

/// All kernels, by type.
pub const FORWARD: &[Forward] = &[F32_TO_F32, F16_TO_F16, BF16_TO_BF16, F16_TO_F32, BF16_TO_F32];

/// The kernels from `f32` to `f32`.
pub const F32_TO_F32: Forward = Forward::between(DType::F32, DType::F32);
/// The kernels from `f16` to `f16`.
pub const F16_TO_F16: Forward = Forward::between(DType::F16, DType::F16);
/// The kernels from `bf16` to `bf16`.
pub const BF16_TO_BF16: Forward = Forward::between(DType::Bf16, DType::Bf16);
/// The kernels from `f16` to `f32`.
pub const F16_TO_F32: Forward = Forward::between(DType::F16, DType::F32);
/// The kernels from `bf16` to `f32`.
pub const BF16_TO_F32: Forward = Forward::between(DType::Bf16, DType::F32);
