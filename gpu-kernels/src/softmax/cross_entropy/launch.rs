//! What the kernels are launched with.

use crate::softmax::operation::Memory;

/// The arguments of the kernels. Strides are in elements.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// `[rows]` of `f32`.
    pub loss: Memory,
    /// `[rows]` of `f32`, or none.
    pub lse: Memory,
    /// `[rows]` of `u32`, or none.
    pub correct: Memory,
    /// `[rows, cols]` of the logits' type, or none.
    pub d_logits: Memory,
    /// `[rows, cols]`.
    pub logits: Memory,
    /// `[rows]`.
    pub targets: Memory,
    /// `[rows]` of `f32`, or none.
    pub d_loss: Memory,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// Elements from a row of `d_logits` to the next.
    pub d_stride: u64,
    /// Elements from a row of `logits` to the next.
    pub stride: u64,
    /// [`I64`](super::I64), [`I32`](super::I32) or [`U8`](super::U8).
    pub target_bytes: u32,
    /// The target of rows that count for nothing.
    pub ignore_index: i64,
    /// Factor of the gradient.
    pub d_scale: f32,
    /// How many blocks later the rows are that L2 is asked for; 0 for none.
    pub ahead: u32,
}

/// A [`Tier`] from the kernel, threads of a block and of a row, the most columns, and blocks of a
/// multiprocessor.
macro_rules! tier {
    ($kernel:ident, $block:expr, $threads:expr, $elements:expr, $resident:expr) => {
        Tier {
            meta: <$kernel>::META,
            block: $block as u32,
            threads: $threads as u32,
            elements: $elements as u32,
            resident: $resident,
            launch: |on, config, a: Arguments| {
                // SAFETY: the caller of the function answers for the kernel's contract.
                unsafe {
                    $kernel::launch(
                        on,
                        config,
                        a.loss,
                        a.lse,
                        a.correct,
                        a.d_logits,
                        a.logits,
                        a.targets,
                        a.d_loss,
                        a.rows,
                        a.cols,
                        a.d_stride,
                        a.stride,
                        a.target_bytes,
                        a.ignore_index,
                        a.d_scale,
                        a.ahead,
                    )
                }
            },
        }
    };
}
pub(super) use tier;
