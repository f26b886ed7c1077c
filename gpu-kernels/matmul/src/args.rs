//! The arguments of the operation's kernels.

use cuda_std::tensor::TensorMap;
use cuda_std::{KernelArgs, grid};

/// Waits for the launches before, and lets the next one begin. All threads of a kernel call it before they touch global memory,
/// because launches [overlap](cuda_std::launch::LaunchConfig::with_programmatic_stream_serialization).
#[inline(always)]
pub fn begin() {
    grid::wait_for_dependencies();
    grid::launch_dependents();
}

/// A bit of [`MatmulArgs::flags`]: `out` and `residual` hold `f32`; otherwise they hold the type of the operands.
pub const OUT_F32: u32 = 1;
/// A bit of `flags`: every row of A starts at a multiple of 16 bytes.
pub const A_ALIGNED: u32 = 2;
/// A bit of `flags`: every row of B starts at a multiple of 16 bytes.
pub const B_ALIGNED: u32 = 4;
/// A bit of `flags`: four neighbours of `out` and of `residual` can be accessed at once.
pub const OUT_ALIGNED: u32 = 8;
/// A bit of `flags`: negative results become 0.
pub const RELU: u32 = 16;
/// A bit of `flags`: the results go through GeLU in its tanh form.
pub const GELU: u32 = 32;
/// A bit of `flags`, read on a CPU only: A is stored as its transpose.
pub const A_TRANSPOSED: u32 = 64;
/// A bit of `flags`, read on a CPU only: B is stored as its transpose.
pub const B_TRANSPOSED: u32 = 128;

/// A bit of `flags`, read on a CPU only: the processor has AVX-512.
pub const AVX512: u32 = 256;
/// A bit of `flags`: [`MatmulArgs::out_map`] is a map of `out`, which holds the type of the operands.
pub const OUT_TENSOR: u32 = 512;

/// `out = activation(alpha A B + bias + residual)`, for each matrix of a batch.
///
/// A is `[m, k]`, B is `[k, n]`, `out` and `residual` are `[m, n]`, `bias` is `[n]`. A `_pitch` is the distance from one row
/// of a stored matrix to the next; a `_batch` is the distance from one matrix of a batch to the next. Both count elements.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct MatmulArgs<T> {
    /// A, for kernels with tensor copies; the others do not read it.
    pub a_map: TensorMap,
    /// B, like `a_map`.
    pub b_map: TensorMap,
    /// The result, with [`OUT_TENSOR`].
    pub out_map: TensorMap,
    /// Written: `f32` with [`OUT_F32`], otherwise `T`.
    pub out: *mut u8,
    /// The first operand, or its transpose.
    pub a: *const T,
    /// The second operand, or its transpose.
    pub b: *const T,
    /// Added to each row, or null.
    pub bias: *const T,
    /// Added to the result, of the type of `out`, or null. It may be `out`.
    pub residual: *const u8,
    /// The sums of several splits, for the kernel that adds them up; otherwise null.
    pub sums: *const f32,
    /// Elements from one row to the next.
    pub out_pitch: u64,
    /// Elements from one row to the next, of the matrix as it is stored.
    pub a_pitch: u64,
    /// Like `a_pitch`.
    pub b_pitch: u64,
    /// Elements from one row to the next.
    pub residual_pitch: u64,
    /// Elements from one matrix of the batch to the next.
    pub out_batch: u64,
    /// Like `out_batch`; 0 for one matrix that all use.
    pub a_batch: u64,
    /// Like `a_batch`.
    pub b_batch: u64,
    /// Like `a_batch`.
    pub residual_batch: u64,
    /// Elements of `out` from the sums of one split of k to the sums of the next.
    pub split_pitch: u64,
    /// Rows of the result.
    pub m: u32,
    /// Columns of the result.
    pub n: u32,
    /// Terms of a sum.
    pub k: u32,
    /// Matrices, for kernels whose grid does not have the number.
    pub batch: u32,
    /// If `b_map` has [folded](fn@super::operation::align::matmul_fold) rows of B, the terms of A from one row of a group to the next;
    /// otherwise 0.
    pub folded: u32,
    /// Splits of k. With more than one, `out` holds their sums in `f32`, without the rest of the formula.
    pub splits: u32,
    /// The factor of A B.
    pub alpha: f32,
    /// The bits above.
    pub flags: u32,
}

impl<T> MatmulArgs<T> {
    /// Returns whether the results are the plain sums. Kernels check this once, and then jump over the whole epilogue.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        let is_empty = self.bias.is_null() && self.residual.is_null();
        self.alpha == 1.0 && is_empty && self.flags & (RELU | GELU) == 0
    }

    /// Returns whether a bit of `flags` is set.
    #[inline(always)]
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl<T> MatmulLaunch<T> {
    /// Returns the same arguments for operands of another type of the same size. The launch's caller ensures a match.
    pub fn cast<U>(self) -> MatmulLaunch<U> {
        MatmulLaunch {
            a_map: self.a_map,
            b_map: self.b_map,
            out_map: self.out_map,
            out: self.out,
            a: self.a.cast(),
            b: self.b.cast(),
            bias: self.bias.cast(),
            residual: self.residual,
            sums: self.sums,
            out_pitch: self.out_pitch,
            a_pitch: self.a_pitch,
            b_pitch: self.b_pitch,
            residual_pitch: self.residual_pitch,
            out_batch: self.out_batch,
            a_batch: self.a_batch,
            b_batch: self.b_batch,
            residual_batch: self.residual_batch,
            split_pitch: self.split_pitch,
            m: self.m,
            n: self.n,
            k: self.k,
            batch: self.batch,
            folded: self.folded,
            splits: self.splits,
            alpha: self.alpha,
            flags: self.flags,
        }
    }
}
