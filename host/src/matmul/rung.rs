//! The rungs of the ladder, for comparisons.

use cuda_std::half::bf16;
use cuda_std::launch::RawBuffer;
use cuda_std::tensor::{Swizzle, TensorMapSpec};
use ferrowarp_device::device::Queue;
use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::{TensorView, TensorViewMut};
use ladders_kernels::matmul::Rung;
use ladders_kernels::matmul::ladder::{LadderLaunch, OUT_ROWS, TERMS};

use crate::operation::Operation;

/// Runs a rung of the ladder: `out = A B^T` for matrices `[m, n]`, `[m, k]` and `[n, k]` without gaps.
///
/// `n` and `k` are multiples of 8, and `k` is not 0.
///
/// # Errors
/// The shapes do not match, a matrix has gaps or tensor copies cannot read it, or the device failed.
#[doc(hidden)]
pub fn run_rung(
    queue: &impl Queue,
    rung: &Rung,
    mut out: TensorViewMut<'_, bf16>,
    a: TensorView<'_, bf16>,
    b: TensorView<'_, bf16>,
) -> Result<(), Error> {
    let operation = Operation::new("a rung of the matmul ladder", queue);
    let [m, k] = operation.extents("first operand", &a)?;
    let [n, _] = operation.extents("second operand", &b)?;
    operation.check("first operand", &a, [m, k]).and_then(|()| operation.dense("first operand", &a))?;
    operation.check("second operand", &b, [n, k]).and_then(|()| operation.dense("second operand", &b))?;
    operation.check("output", &out, [m, n]).and_then(|()| operation.dense("output", &out))?;
    let [m32, n32, k32] = [m, n, k].map(|extent| extent as u32);
    let (device, shape) = (queue.device(), &rung.kernel.facts);
    let (out, a, b) = (out.raw(), a.raw(), b.raw());
    let map = |buffer: RawBuffer<bf16>, [rows, cols]: [usize; 2], box_rows| {
        let spec = TensorMapSpec::new::<bf16>([cols as u64, rows as u64], [TERMS, box_rows]);
        device.tensor_map(buffer, &spec.with_swizzle(Swizzle::Bytes128))
    };
    let args = LadderLaunch {
        a_map: map(a, [m, k], shape.rows)?,
        b_map: map(b, [n, k], shape.b_rows)?,
        out_map: map(out, [m, n], OUT_ROWS)?,
        out,
        a,
        b,
        m: m32,
        n: n32,
        k: k32,
    };
    let config = shape.config(m32, n32, device.multiprocessors() as u32);
    // SAFETY: the matrices were checked, the output is borrowed exclusively, and the maps describe them.
    Ok(unsafe { rung.kernel.launch(queue, config, args) }?)
}
