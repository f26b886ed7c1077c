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
    /// Elements from a row to the next, of `dx`, `dy` and `y`.
    pub strides: [u64; 3],
    /// Factor of the gradient.
    pub scale: f32,
    /// [`LOG`](super::LOG) or 0.
    pub flags: u32,
    /// How many blocks ahead rows are prefetched into L2; 0 for none.
    pub ahead: u32,
}

/// An entry of the table, as [`operation::tier`](crate::softmax::operation) has it, without the arguments.
macro_rules! tier {
    ($($entry:tt)*) => {
        $crate::softmax::operation::tier!($($entry)*, |a: Arguments| (
            a.dx, a.dy, a.y, a.rows, a.cols, a.strides[0], a.strides[1], a.strides[2], a.scale, a.flags, a.ahead
        ))
    };
}
pub(super) use tier;
