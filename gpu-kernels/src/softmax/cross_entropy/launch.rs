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
    /// How many blocks ahead rows are prefetched into L2; 0 for none.
    pub ahead: u32,
}
