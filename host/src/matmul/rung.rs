//! The rungs of the ladder, for comparisons.

use cuda_std::half::bf16;
use cuda_std::launch::RawBuffer;
use cuda_std::tensor::{Swizzle, TensorMapSpec};
use gpu_kernels::matmul::ladder::{LadderLaunch, OUT_ROWS, Rung, TERMS};

use super::{MatmulError, Matrix, MatrixMut};
use crate::device::Queue;

/// Runs a rung of the ladder: `out = A B^T` for dense `[m, n]`, `[m, k]` and `[n, k]`. On a GPU the work is queued.
///
/// `n` and `k` are multiples of 8, and `k` is not 0.
///
/// # Errors
/// The shapes do not match, a matrix is not dense or tensor copies cannot read it, or the device failed.
#[doc(hidden)]
pub fn run_rung(
    queue: &impl Queue,
    rung: &Rung,
    mut out: MatrixMut<'_, bf16>,
    a: Matrix<'_, bf16>,
    b: Matrix<'_, bf16>,
) -> Result<(), MatmulError> {
    let ([m, k], n) = ([a.rows(), a.cols()], b.rows());
    let device = queue.device();
    let shapes = [
        ("first operand", &a.layout, [m, k]),
        ("second operand", &b.layout, [n, k]),
        ("output", &out.layout, [m, n]),
    ];
    for (what, layout, expected) in shapes {
        let got = layout.shape();
        let is_dense = layout.stride == layout.cols && layout.batch == 1 && !layout.is_transposed;
        if got != expected || !is_dense {
            return Err(MatmulError::ShapesDiffer { a: [m, k], b: [k, n], what, got, expected });
        }
    }
    let [m32, n32, k32] = [m, n, k].map(|extent| extent as u32);
    let (shape, raw) = (&rung.kernel.facts, out.raw());
    let map = |buffer: RawBuffer<bf16>, [rows, cols]: [usize; 2], box_rows| {
        let spec = TensorMapSpec::new::<bf16>([cols as u64, rows as u64], [TERMS, box_rows]);
        device.tensor_map(buffer, &spec.with_swizzle(Swizzle::Bytes128))
    };
    let args = LadderLaunch {
        a_map: map(a.raw(), [m, k], shape.rows)?,
        b_map: map(b.raw(), [n, k], shape.b_rows)?,
        out_map: map(raw, [m, n], OUT_ROWS)?,
        out: raw,
        a: a.raw(),
        b: b.raw(),
        m: m32,
        n: n32,
        k: k32,
    };
    let config = shape.config(m32, n32, device.multiprocessors() as u32);
    // SAFETY: the matrices were checked, the output is borrowed exclusively, and the maps describe them.
    Ok(unsafe { rung.kernel.launch(queue, config, args) }?)
}
