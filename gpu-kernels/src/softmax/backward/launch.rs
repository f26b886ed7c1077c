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
                let [dx_stride, dy_stride, y_stride] = a.strides;
                // SAFETY: the caller of the function answers for the kernel's contract.
                unsafe {
                    $kernel::launch(
                        on, config, a.dx, a.dy, a.y, a.rows, a.cols, dx_stride, dy_stride, y_stride, a.scale,
                        a.flags, a.ahead,
                    )
                }
            },
        }
    };
}
pub(super) use tier;
