//! The arguments of the kernels. Strides are in elements.

use cuda_std::KernelArgs;

/// A flag: the result is the sum of the elements, and otherwise their maximum.
pub const SUM: u32 = 1;
/// A flag: every row of every matrix starts at a multiple of 16 bytes, and a row is a whole number of vectors of 16 bytes.
pub const ALIGNED: u32 = 2;
/// A flag: each row of the output starts at the same element of a vector of 16 bytes as the input's.
pub const ALIKE: u32 = 4;
/// A flag: blocks along x have tiles along the rows of the input, and otherwise along its columns.
pub const WIDE: u32 = 8;
/// A flag: rows of the output start at any element of a vector of 16 bytes.
pub const LEAD: u32 = 16;

/// The arguments of the kernels that reduce parts of rows or columns.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct ReduceArgs<T> {
    /// `[outputs]`, written if there is one part; or null.
    pub out: *mut T,
    /// `[parts, outputs]`, written; or null.
    pub full: *mut f32,
    /// `[rows, cols]`.
    pub inp: *const T,
    /// Distance from one row of `inp` to the next.
    pub stride: u64,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// Elements of a row or column in each part. The last part may have fewer.
    pub chunk: u32,
    /// The logarithm of the number of threads that share a row, or of the vectors that a block has side by side.
    pub log_threads: u32,
    /// The factor of each element before the maximum is taken: -1 for a minimum.
    pub sign: f32,
    /// The factor of the result.
    pub scale: f32,
    /// [`SUM`], [`ALIGNED`].
    pub flags: u32,
}

/// The arguments of the kernel that combines parts.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct FinishArgs<T> {
    /// `[outputs]`, written; or null.
    pub out: *mut T,
    /// `[outputs]`, written; or null.
    pub full: *mut f32,
    /// `[parts, outputs]`.
    pub parts: *const f32,
    /// Number of parts.
    pub count: u32,
    /// Results.
    pub outputs: u32,
    /// The factor of each result.
    pub scale: f32,
    /// [`SUM`].
    pub flags: u32,
}

/// The arguments of the cumulative sums.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct ScanArgs<T> {
    /// `[rows, cols]`, written.
    pub out: *mut T,
    /// `[rows, cols]`.
    pub inp: *const T,
    /// `[rows, tiles, 4]`: the sums of the tiles, zeros before the launch; or null if blocks share no rows.
    pub sums: *mut u32,
    /// Distance from one row of `out` to the next.
    pub out_stride: u64,
    /// Distance from one row of `inp` to the next.
    pub inp_stride: u64,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// Tiles of a row.
    pub tiles: u32,
    /// The number of threads that share a row, if blocks do not.
    pub threads: u32,
    /// [`ALIKE`].
    pub flags: u32,
}

/// The arguments of the transpose.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct TransposeArgs<T> {
    /// `[cols, rows]`, written.
    pub out: *mut T,
    /// `[rows, cols]`.
    pub inp: *const T,
    /// Distance from one row of `out` to the next.
    pub out_stride: u64,
    /// Distance from one row of `inp` to the next.
    pub inp_stride: u64,
    /// Rows of `inp`.
    pub rows: u32,
    /// Columns of `inp`.
    pub cols: u32,
    /// The logarithm of the rows of `inp` in a tile.
    pub log_rows: u32,
    /// The logarithm of the columns of `inp` in a tile.
    pub log_cols: u32,
    /// [`WIDE`].
    pub flags: u32,
}

/// The arguments of a cast. Extents and strides are of four axes; the last one is the innermost.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct CastArgs<I, O> {
    /// Written.
    pub out: *mut O,
    /// Read; or null.
    pub inp: *const I,
    /// Elements along each axis.
    pub extents: [u64; 4],
    /// Distance from one index of each axis of `out` to the next.
    pub out_strides: [u64; 4],
    /// Distance from one index of each axis of `inp` to the next.
    pub inp_strides: [u64; 4],
    /// The value of every element if `inp` is null.
    pub value: f32,
    /// [`ALIGNED`]: the last axis has no gaps, and starts at multiples of 16 bytes.
    pub flags: u32,
}

impl<T> ReduceArgs<T> {
    #[inline(always)]
    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

impl<T> ScanArgs<T> {
    #[inline(always)]
    pub(super) fn is_alike(&self) -> bool {
        self.flags & ALIKE != 0
    }
}

impl<I, O> CastArgs<I, O> {
    #[inline(always)]
    pub(super) fn is_aligned(&self) -> bool {
        self.flags & ALIGNED != 0
    }
}
