//! Device memory that attention needs in addition to its tensors.

use crate::device::{Buffer, Device, DeviceError};

/// Memory for the partial results of key splits, or for the gradients' statistics of each query. It grows when an attention
/// needs more. A recording refuses that, so run once before.
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
}

impl Workspace {
    /// Returns at least `len` elements on the device.
    pub(super) fn at_least(&mut self, device: &Device, len: usize) -> Result<&mut Buffer<f32>, DeviceError> {
        let fits = |buffer: &Buffer<f32>| buffer.len() >= len && device.is_in_order_with(buffer.device());
        if !self.sums.as_ref().is_some_and(fits) {
            self.sums = Some(device.alloc_unwritten(len)?);
        }
        Ok(self.sums.as_mut().expect("it was filled"))
    }
}
