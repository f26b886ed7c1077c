//! The transpose of a matrix.

use bytemuck::Pod;
use cuda_std::launch::RawBuffer;
use gpu_kernels::axis::args::{ALIGNED, TransposeLaunch};
use gpu_kernels::axis::{Blocks, TransposeKernels};

use super::{AxisError, Matrix, MatrixMut, check_device, choices, counted};
use crate::device::{Device, Queue};
use crate::rows::starts_aligned;

/// The name in errors.
const NAME: &str = "a transpose";

/// The transpose of a matrix; [`run`](Self::run) computes it. Elements may have any type of 2 or 4 bytes.
///
/// ```
/// use ferrowarp::axis::{AxisError, Matrix, MatrixMut, Transpose};
/// use ferrowarp::device::Device;
///
/// let device = Device::cpu();
/// let (inp, mut out) = (device.upload(&[1u16, 2, 3, 4, 5, 6])?, device.alloc_zeroed::<u16>(6)?);
/// Transpose::new(MatrixMut::new(&mut out, 3, 2)?, Matrix::new(&inp, 2, 3)?).run(&device)?;
/// assert_eq!(out.to_vec()?, [1, 4, 2, 5, 3, 6]);
/// # Ok::<(), AxisError>(())
/// ```
pub struct Transpose<'a, T> {
    out: MatrixMut<'a, T>,
    inp: Matrix<'a, T>,
}

impl<'a, T: Pod> Transpose<'a, T> {
    /// Prepares the transpose. The input is `[rows, cols]`, the output `[cols, rows]`.
    pub fn new(out: MatrixMut<'a, T>, inp: Matrix<'a, T>) -> Self {
        const { assert!(size_of::<T>() == 2 || size_of::<T>() == 4, "elements of 2 or 4 bytes can be transposed") };
        Self { out, inp }
    }

    /// Computes the transpose. On a GPU the work is queued.
    ///
    /// # Errors
    /// The output has another shape, the matrix is too large, an operand lives on another device, or the device failed.
    pub fn run(self, queue: &impl Queue) -> Result<(), AxisError> {
        self.run_by(queue, choices(queue.device().limits())[0])
    }

    /// Runs it with the kernels for a GPU or for a CPU.
    #[doc(hidden)]
    pub fn run_by(self, queue: &impl Queue, blocks: Blocks) -> Result<(), AxisError> {
        let shape = self.checked(queue.device())?;
        if shape.contains(&0) {
            return Ok(());
        }
        if size_of::<T>() == 2 {
            self.launch::<u16>(queue, blocks, shape)
        } else {
            self.launch::<u32>(queue, blocks, shape)
        }
    }

    fn launch<W: TransposeKernels>(
        mut self,
        queue: &impl Queue,
        blocks: Blocks,
        [rows, cols]: [u32; 2],
    ) -> Result<(), AxisError> {
        let (out_stride, inp_stride) = (self.out.stride(), self.inp.stride());
        let (out, inp) = (self.out.raw(), self.inp.raw());
        let is_aligned = starts_aligned(&[(out, out_stride), (inp, inp_stride)]);
        let args = TransposeLaunch {
            out: cast::<T, W>(out),
            inp: cast::<T, W>(inp),
            out_stride: out_stride as u64,
            inp_stride: inp_stride as u64,
            rows,
            cols,
            flags: if is_aligned { ALIGNED } else { 0 },
        };
        let kernel = W::transpose(blocks);
        let Some(config) = kernel.config([rows, cols], size_of::<T>()) else {
            let tiles = (rows as usize).div_ceil(kernel.tile as usize)
                * (cols as usize).div_ceil(kernel.tile as usize);
            let most = i32::MAX as usize;
            return Err(AxisError::TooLarge { operation: NAME, what: "tiles", value: tiles, most });
        };
        // SAFETY: shapes and devices were checked, and the output is borrowed exclusively. Elements and words have the same
        // size, and buffers start at multiples of it. Later uses of the memory wait for the device or are queued after this.
        unsafe { kernel.launch(queue, config, args)? };
        Ok(())
    }

    /// Checks everything and returns the rows and columns of the input.
    fn checked(&self, device: &Device) -> Result<[u32; 2], AxisError> {
        let shape @ [rows, cols] = self.inp.shape();
        check_device(NAME, device, "input", self.inp.device())?;
        check_device(NAME, device, "output", self.out.device())?;
        let (got, expected) = (self.out.shape(), [cols, rows]);
        if got != expected {
            return Err(AxisError::ShapesDiffer { operation: NAME, got, expected });
        }
        counted(NAME, shape)
    }
}

/// Reinterprets the elements as words.
fn cast<T, W>(buffer: RawBuffer<T>) -> RawBuffer<W> {
    RawBuffer { pointer: buffer.pointer.cast(), bytes: buffer.bytes, residence: buffer.residence }
}
