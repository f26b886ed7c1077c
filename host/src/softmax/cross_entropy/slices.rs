//! Cross entropy of slices in host memory: copies to the device, computes, and copies back.

use bytemuck::Pod;

use super::{CrossEntropy, Targets};
use crate::device::{Buffer, Device};
use crate::softmax::slices::check_len;
use crate::softmax::{Matrix, Real, SoftmaxError};

/// Computes the cross entropy of each row of row-major logits, `[rows, cols]`, in host memory: see [`CrossEntropy::new`].
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{SoftmaxError, cross_entropy_of_slice};
///
/// let losses = cross_entropy_of_slice(&Device::cpu(), &[0.0f32, 0.0, 3.0, 3.0], [2, 2], &[1i64, -100])?;
/// assert!((losses[0] - 2f32.ln()).abs() < 1e-6 && losses[1] == 0.0);
/// # Ok::<(), SoftmaxError>(())
/// ```
///
/// # Errors
/// The slice does not have `rows * cols` elements, there is not one target per row, a row has 2^32 elements or more, the
/// device is out of memory, or the device failed.
pub fn cross_entropy_of_slice<T: Real, C: Pod>(
    device: &Device,
    logits: &[T],
    [rows, cols]: [usize; 2],
    targets: &[C],
) -> Result<Vec<f32>, SoftmaxError>
where
    for<'a> &'a Buffer<C>: Into<Targets<'a>>,
{
    check_len("logits", logits.len(), [rows, cols])?;
    let (logits, targets) = (device.upload(logits)?, device.upload(targets)?);
    let mut losses = device.alloc_zeroed(rows)?;
    CrossEntropy::new(&mut losses, &Matrix::new(&logits, rows, cols)?, &targets).run(device)?;
    Ok(losses.to_vec()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_that_are_too_few_are_an_error() {
        let error = cross_entropy_of_slice(&Device::cpu(), &[0.0f32; 4], [2, 2], &[0i32]).unwrap_err();
        assert!(error.to_string().contains("1 targets"), "{error}");
    }
}
