//! Device memory that attention needs in addition to its tensors.

use cuda_std::launch::RawBuffer;

use crate::device::{Buffer, Device, DeviceError};

/// Memory for the partial results of key splits, for the gradients' statistics of each query, and for the number of tiles that
/// blocks have taken. It grows when an attention needs more. A recording refuses that, so run once before.
///
/// ```
/// use ferrowarp::attention::{Attention, AttentionError, Tensor, TensorMut, Workspace};
/// use ferrowarp::bf16;
/// use ferrowarp::device::Device;
///
/// let device = Device::cpu();
/// let ones = device.upload(&[bf16::ONE; 8])?;
/// let (mut out, mut workspace) = (device.alloc_zeroed::<bf16>(8)?, Workspace::default());
/// for _ in 0..2 {
///     let tensor = Tensor::new(&ones, [1, 1, 1, 8])?;
///     let to = TensorMut::new(&mut out, [1, 1, 1, 8])?;
///     Attention::new(to, tensor, tensor, tensor).run_with(&device, &mut workspace)?;
/// }
/// assert_eq!(out.to_vec()?, [bf16::ONE; 8]);
/// # Ok::<(), AttentionError>(())
/// ```
#[derive(Debug, Default)]
pub struct Workspace {
    sums: Option<Buffer<f32>>,
    /// 0 between launches.
    taken: Option<Buffer<u32>>,
    /// Whether it is for one run, which needs no number of tiles.
    is_for_one_run: bool,
}

impl Workspace {
    pub(super) fn for_one_run() -> Self {
        Self { is_for_one_run: true, ..Self::default() }
    }

    /// Returns the number of tiles that blocks have taken, unless the workspace is for one run.
    pub(super) fn taken(&mut self, device: &Device) -> Result<Option<RawBuffer<u32>>, DeviceError> {
        if self.is_for_one_run {
            return Ok(None);
        }
        let is_in_order = |buffer: &Buffer<u32>| device.is_in_order_with(buffer.device());
        if !self.taken.as_ref().is_some_and(is_in_order) {
            self.taken = Some(device.alloc_zeroed(1)?);
        }
        Ok(self.taken.as_mut().map(RawBuffer::written))
    }

    /// Forgets the number of tiles after a launch that failed.
    pub(super) fn forget_taken(&mut self) {
        self.taken = None;
    }

    /// Returns at least `len` elements on the device.
    pub(super) fn at_least(&mut self, device: &Device, len: usize) -> Result<&mut Buffer<f32>, DeviceError> {
        let fits = |buffer: &Buffer<f32>| buffer.len() >= len && device.is_in_order_with(buffer.device());
        if !self.sums.as_ref().is_some_and(fits) {
            self.sums = Some(device.alloc_unwritten(len)?);
        }
        Ok(self.sums.as_mut().expect("it was filled"))
    }
}
