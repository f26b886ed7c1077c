//! Multiplies `f32` as three products: splits both operands into parts and multiplies the parts.

use cuda_std::launch::RawBuffer;
use cuda_std::tensor::{Swizzle, TensorMap, TensorMapSpec};
use matmul_kernels::args::{A_TRANSPOSED, B_TRANSPOSED, MatmulLaunch};
use matmul_kernels::operation::split::SplitLaunch;
use matmul_kernels::operation::{SPLIT, THREE_PRODUCTS, split_config};

use ferrowarp_device::device::Queue;
use ferrowarp_device::error::Error;

/// The parts of an operand, `[2 matrices, rows, pitch]`.
#[derive(Clone, Copy)]
struct Parts {
    rows: u32,
    terms: u32,
    matrices: u32,
    first: usize,
}

impl Parts {
    fn pitch(&self) -> u64 {
        u64::from(self.terms.next_multiple_of(4))
    }

    fn len(&self) -> usize {
        2 * self.matrices as usize * self.rows as usize * self.pitch() as usize
    }
}

/// Launches the kernels.
///
/// # Safety
/// The arguments describe a multiplication that the kernel can do, and their memory is valid for it.
pub(super) unsafe fn launch(queue: &impl Queue, args: MatmulLaunch<f32>) -> Result<(), Error> {
    let device = queue.device();
    let matrices = |batch_pitch: u64| if batch_pitch == 0 { 1 } else { args.batch };
    let a = Parts { rows: args.m, terms: args.k, matrices: matrices(args.a_batch), first: 0 };
    let b = Parts { rows: args.n, terms: args.k, matrices: matrices(args.b_batch), first: a.len() };
    let mut buffer = queue.alloc_unwritten::<f32>(a.len() + b.len())?;
    let parts = RawBuffer::<f32>::written(&mut buffer);
    // The parts of B are stored transposed.
    let is_transposed = [args.flags & A_TRANSPOSED != 0, args.flags & B_TRANSPOSED == 0];
    let operands = [(a, args.a, args.a_pitch, args.a_batch), (b, args.b, args.b_pitch, args.b_batch)];
    for ((to, inp, inp_pitch, inp_batch), is_transposed) in operands.into_iter().zip(is_transposed) {
        let split = SplitLaunch {
            out: parts.skip(to.first),
            inp,
            out_pitch: to.pitch(),
            inp_pitch,
            inp_batch,
            rows: to.rows,
            terms: to.terms,
            is_transposed: is_transposed.into(),
        };
        // SAFETY: the operand is valid by the caller's contract, and the buffer has room for the parts.
        unsafe { SPLIT.launch(queue, split_config(to.rows, to.terms, to.matrices), split)? };
    }
    let map = |parts_of: Parts| -> Result<TensorMap, Error> {
        let sizes = [parts_of.terms, parts_of.rows, 2 * parts_of.matrices].map(u64::from);
        let matrix = u64::from(parts_of.rows) * parts_of.pitch();
        let spec = TensorMapSpec::new::<f32>(sizes, [THREE_PRODUCTS.terms, 128, 1])
            .with_strides([1, parts_of.pitch(), matrix])
            .with_swizzle(Swizzle::Bytes128);
        Ok(device.tensor_map(parts.skip(parts_of.first), &spec)?)
    };
    // The memory that the maps describe, so that the launch's accesses are tracked.
    let (a_parts, b_parts) = (parts.skip(a.first), parts.skip(b.first));
    let args = MatmulLaunch { a_map: map(a)?, b_map: map(b)?, a: a_parts, b: b_parts, ..args };
    let units = THREE_PRODUCTS.units([args.m, args.n], args.splits, args.batch);
    let config = THREE_PRODUCTS.config(units, device.multiprocessors());
    // SAFETY: the result is valid by the caller's contract, and the maps describe the parts, which earlier launches write.
    Ok(unsafe { THREE_PRODUCTS.launch(queue, config, args) }?)
}
