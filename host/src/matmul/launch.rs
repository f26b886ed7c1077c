//! The launches of a multiplication, and the memory between them.

use cuda_std::launch::{LaunchConfig, RawBuffer};
use ferrowarp_device::device::{Buffer, Queue};
use ferrowarp_device::error::Error;
use matmul_kernels::args::{
    A_ALIGNED, A_TRANSPOSED, B_ALIGNED, B_TRANSPOSED, MatmulLaunch, OUT_ALIGNED, OUT_F32, OUT_TENSOR,
};
use matmul_kernels::operation::{reduce_config, serial_config};

use super::align::{self, Copies};
use super::kernel_choice::{Kernel, KernelChoice};
use super::maps::with_maps;
use super::three_products;
use crate::element::Element;

/// The most blocks along y or z of a grid.
pub(super) const MOST_BLOCKS: usize = 65_535;

/// The most bytes of operands and results whose launch begins before the one before it has ended. The time that this saves is a
/// small part of a larger multiplication's, and its blocks would be spread less evenly over the multiprocessors.
const MOST_EARLY_BYTES: u128 = 16 << 20;

/// Launches the kernels for at most [`MOST_BLOCKS`] matrices.
///
/// # Safety
/// The arguments describe a multiplication that the kernels can do, and their memory is valid for it.
pub(super) unsafe fn launch_some<T: Element>(
    queue: &impl Queue,
    choice: KernelChoice<T>,
    args: MatmulLaunch<T>,
    batch: u32,
) -> Result<(), Error> {
    let (shape, splits) = ([args.m, args.n], choice.splits);
    // With one split or a cluster of splits the kernel writes results; otherwise sums, which the second launch adds up.
    let whole = MatmulLaunch { batch, splits, ..args };
    let device = queue.device();
    let [m, n, k] = [args.m, args.n, args.k].map(u128::from);
    let bytes = (m * k + k * n + m * n) * u128::from(batch) * size_of::<T>() as u128;
    let early = |config: LaunchConfig| LaunchConfig {
        programmatic_stream_serialization: config.programmatic_stream_serialization
            && bytes <= MOST_EARLY_BYTES,
        ..config
    };
    let (parts, mut sums) = match choice.needs_sums() {
        true => split(queue, &whole).map(|(parts, sums)| (parts, Some(sums)))?,
        false => (MatmulLaunch { ..whole }, None),
    };
    let split_pitch = parts.split_pitch;
    let along_k = match choice.kernel {
        Kernel::Warpgroups { kernel, transposes: true } => [kernel.a_along_k, kernel.b_along_k],
        _ => [false; 2],
    };
    // SAFETY: the caller's contract. There is memory for the sums of all splits. The second launch runs after the first.
    unsafe {
        // The copies must be there until the kernel is queued.
        let (parts, _copies) = copied(queue, parts, Copies { aligns: choice.aligns, along_k })?;
        match choice.kernel {
            Kernel::Serial(kernel) => kernel.launch(queue, serial_config(shape, batch), parts)?,
            Kernel::Tiles(kernel) => {
                kernel.launch(queue, early(kernel.config(shape, splits, batch)), parts)?
            }
            Kernel::FewRows { kernel, folds } => {
                let parts = MatmulLaunch { flags: parts.flags & !OUT_TENSOR, ..parts };
                let (parts, _copy) = match folds {
                    true => {
                        align::fold(queue, parts, kernel.terms).map(|(parts, copy)| (parts, Some(copy)))?
                    }
                    false => (parts, None),
                };
                let terms = (kernel.terms, kernel.has_tensor_cores);
                let parts = with_maps(device, terms, kernel.box_rows(), parts)?;
                kernel.launch(queue, early(kernel.config(shape, splits, folds, batch)), parts)?;
            }
            Kernel::Warpgroups { kernel, .. } => {
                let units = kernel.units(shape, splits, batch);
                let config = early(kernel.config(units, device.multiprocessors()));
                let parts = with_maps(device, (kernel.terms, true), kernel.box_rows(), parts)?;
                kernel.launch(queue, config, parts)?;
            }
            Kernel::ThreeProducts => three_products::launch(queue, parts.cast())?,
        }
        if let Some(sums) = &mut sums {
            let whole = MatmulLaunch { sums: RawBuffer::<f32>::written(sums), split_pitch, ..whole };
            T::REDUCE.launch(queue, reduce_config(shape, batch), whole)?;
        }
    }
    Ok(())
}

/// Copies operands first. Returns the arguments with the copies, and their memory.
///
/// # Safety
/// Same as for [`align::launch`].
unsafe fn copied<T: Element>(
    queue: &impl Queue,
    args: MatmulLaunch<T>,
    copies: Copies,
) -> Result<(MatmulLaunch<T>, Option<Buffer<u8>>), Error> {
    if copies.aligns == [false; 2] && copies.along_k == [false; 2] {
        return Ok((args, None));
    }
    // SAFETY: the caller's contract.
    let (args, copies) = unsafe { align::launch(queue, args, copies)? };
    Ok((args, Some(copies)))
}

/// Returns the arguments of the kernel that writes each split's sums, and memory for them.
fn split<T: Element>(
    queue: &impl Queue,
    args: &MatmulLaunch<T>,
) -> Result<(MatmulLaunch<T>, Buffer<f32>), Error> {
    let pitch = u64::from(args.n.next_multiple_of(4));
    let matrix = u64::from(args.m) * pitch;
    let split_pitch = matrix * u64::from(args.batch);
    let len = (split_pitch * u64::from(args.splits)) as usize;
    let mut sums = queue.alloc_unwritten::<f32>(len)?;
    let parts = MatmulLaunch {
        out: RawBuffer::<f32>::written(&mut sums).cast(),
        bias: RawBuffer::NULL,
        residual: RawBuffer::NULL,
        out_pitch: pitch,
        out_batch: matrix,
        split_pitch,
        alpha: 1.0,
        flags: args.flags & (A_ALIGNED | B_ALIGNED | A_TRANSPOSED | B_TRANSPOSED) | OUT_F32 | OUT_ALIGNED,
        ..*args
    };
    Ok((parts, sums))
}
