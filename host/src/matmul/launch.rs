//! The launches of a multiplication, and the memory between them.

use cuda_std::launch::RawBuffer;
use gpu_kernels::matmul::args::{
    A_ALIGNED, A_TRANSPOSED, B_ALIGNED, B_TRANSPOSED, MatmulLaunch, OUT_ALIGNED, OUT_F32, OUT_TENSOR,
};
use gpu_kernels::matmul::operation::{reduce_config, serial_config};

use super::kernel_choice::Kernel;
use super::maps::with_maps;
use super::{KernelChoice, MatmulError, align, three_products};
use crate::device::{Buffer, Device, DeviceError};

/// The most blocks along y or z of a grid.
pub(super) const MOST_BLOCKS: usize = 65_535;

/// Memory for the sums of splits, aligned copies of operands, and the parts of `f32` operands multiplied as three products.
/// It grows when a multiplication needs more. A recording refuses that, so run once before.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::matmul::{Matmul, MatmulError, Matrix, MatrixMut, Workspace};
///
/// let device = Device::cpu();
/// let (a, b) = (device.upload(&[1.0f32, 2.0])?, device.upload(&[3.0f32, 4.0])?);
/// let (mut out, mut workspace) = (device.alloc_zeroed::<f32>(1)?, Workspace::default());
/// for _ in 0..2 {
///     Matmul::new(MatrixMut::new(&mut out, 1, 1)?, Matrix::new(&a, 1, 2)?, Matrix::new(&b, 2, 1)?)
///         .run_with(&device, &mut workspace)?;
/// }
/// assert_eq!(out.to_vec()?, [11.0]);
/// # Ok::<(), MatmulError>(())
/// ```
#[derive(Debug, Default)]
pub struct Workspace {
    pub(super) sums: Option<Buffer<f32>>,
    pub(super) parts: Option<Buffer<f32>>,
}

/// Returns at least `len` elements on the device, in the buffer if it has them, or in a new one.
pub(super) fn at_least<'a>(
    buffer: &'a mut Option<Buffer<f32>>,
    device: &Device,
    len: usize,
) -> Result<&'a mut Buffer<f32>, DeviceError> {
    let fits = |buffer: &Buffer<f32>| buffer.len() >= len && device.is_in_order_with(buffer.device());
    if !buffer.as_ref().is_some_and(fits) {
        *buffer = Some(device.alloc_unwritten(len)?);
    }
    Ok(buffer.as_mut().expect("it was filled"))
}

/// Launches the kernels for at most [`MOST_BLOCKS`] matrices.
///
/// # Safety
/// The arguments describe a multiplication that the kernels can do, and their memory is valid for it.
pub(super) unsafe fn launch_some<T: super::Real>(
    device: &Device,
    workspace: &mut Workspace,
    choice: KernelChoice<T>,
    args: MatmulLaunch<T>,
    batch: u32,
) -> Result<(), MatmulError> {
    let (shape, splits) = ([args.m, args.n], choice.splits);
    // With one split or a cluster of splits the kernel writes results; otherwise sums, which the second launch adds up.
    let whole = MatmulLaunch { batch, splits, ..args };
    let (parts, sums) = if choice.needs_sums() {
        split(device, workspace, &whole)?
    } else {
        (MatmulLaunch { ..whole }, None)
    };
    let split_pitch = parts.split_pitch;
    // SAFETY: the caller's contract. The workspace holds the sums of all splits. The second launch runs after the first.
    unsafe {
        match choice.kernel {
            Kernel::Serial(kernel) => kernel.launch(device, serial_config(shape, batch), parts)?,
            Kernel::Tiles(kernel) => kernel.launch(device, kernel.config(shape, splits, batch), parts)?,
            Kernel::FewRows(kernel) => {
                let parts = MatmulLaunch { flags: parts.flags & !OUT_TENSOR, ..parts };
                let terms = (kernel.terms, kernel.has_tensor_cores);
                let parts = with_maps(device, terms, kernel.box_rows(), parts)?;
                kernel.launch(device, kernel.config(shape, splits, batch), parts)?;
            }
            Kernel::Warpgroups { kernel, aligns } => {
                let parts = if aligns { align::launch(device, &mut workspace.parts, parts)? } else { parts };
                let units = kernel.units(shape, splits, batch);
                let config = kernel.config(units, device.multiprocessors());
                let parts = with_maps(device, (kernel.terms, true), kernel.box_rows(), parts)?;
                kernel.launch(device, config, parts)?;
            }
            Kernel::ThreeProducts => three_products::launch(device, &mut workspace.parts, parts.cast())?,
        }
        if let Some(sums) = sums {
            let whole = MatmulLaunch { sums, split_pitch, ..whole };
            T::REDUCE.launch(device, reduce_config(shape, batch), whole)?;
        }
    }
    Ok(())
}

/// Returns the arguments of the kernel that writes each split's sums into the workspace, and the sums.
fn split<T: super::Real>(
    device: &Device,
    workspace: &mut Workspace,
    args: &MatmulLaunch<T>,
) -> Result<(MatmulLaunch<T>, Option<RawBuffer<f32>>), MatmulError> {
    let pitch = u64::from(args.n.next_multiple_of(4));
    let matrix = u64::from(args.m) * pitch;
    let split_pitch = matrix * u64::from(args.batch);
    let len = (split_pitch * u64::from(args.splits)) as usize;
    let sums = at_least(&mut workspace.sums, device, len)?;
    let sums = RawBuffer::<f32>::written(sums);
    let parts = MatmulLaunch {
        out: sums.cast(),
        bias: RawBuffer::NULL,
        residual: RawBuffer::NULL,
        out_pitch: pitch,
        out_batch: matrix,
        split_pitch,
        alpha: 1.0,
        flags: args.flags & (A_ALIGNED | B_ALIGNED | A_TRANSPOSED | B_TRANSPOSED) | OUT_F32 | OUT_ALIGNED,
        ..*args
    };
    Ok((parts, Some(sums)))
}
