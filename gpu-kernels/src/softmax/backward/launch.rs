//! What the kernels are launched with.

use crate::softmax::operation::Memory;

/// The arguments of the kernels. Matrices are `[rows, cols]`, strides in elements.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// The gradient at the logits.
    pub dx: Memory,
    /// The gradient at the result.
    pub dy: Memory,
    /// The result.
    pub y: Memory,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// Elements from a row of `dx` to the next.
    pub dx_stride: u64,
    /// Elements from a row of `dy` to the next.
    pub dy_stride: u64,
    /// Elements from a row of `y` to the next.
    pub y_stride: u64,
    /// Factor of the gradient.
    pub scale: f32,
    /// [`LOG`](super::LOG) or 0.
    pub flags: u32,
    /// How many blocks ahead rows are prefetched into L2; 0 for none.
    pub ahead: u32,
}
