//! The operations on slices in host memory: copies to the device, computes, and copies back.

use bytemuck::Pod;

use super::{CrossEntropy, Matrix, MatrixMut, Options, Real, SoftmaxAs, SoftmaxError, Targets, softmax};
use crate::device::{Buffer, Device};

/// Computes the softmax of each row of a row-major matrix in host memory: `[rows, cols]` of `I`, as `O`.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{Options, SoftmaxError, softmax_of_slice};
///
/// let logits = [0.0f32, 0.0, 1.0, f32::NEG_INFINITY];
/// let probabilities: Vec<f32> = softmax_of_slice(&Device::cpu(), &logits, [2, 2], &Options::new())?;
/// assert_eq!(probabilities, [0.5, 0.5, 1.0, 0.0]);
/// # Ok::<(), SoftmaxError>(())
/// ```
///
/// # Errors
/// The slice does not have `rows * cols` elements, a row has 2^32 elements or more, the scale is not in (0, 2^127], the
/// device is out of memory, or the device failed.
pub fn softmax_of_slice<I: SoftmaxAs<O>, O: Pod>(
    device: &Device,
    elements: &[I],
    [rows, cols]: [usize; 2],
    options: &Options,
) -> Result<Vec<O>, SoftmaxError> {
    check_len("elements", elements.len(), [rows, cols])?;
    let inp = device.upload(elements)?;
    let mut out = device.alloc_unwritten(elements.len())?;
    softmax(device, &mut MatrixMut::new(&mut out, rows, cols)?, &Matrix::new(&inp, rows, cols)?, options)?;
    Ok(out.to_vec()?)
}

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

fn check_len(what: &'static str, len: usize, shape: [usize; 2]) -> Result<(), SoftmaxError> {
    match shape[0].checked_mul(shape[1]) {
        Some(elements) if elements == len => Ok(()),
        _ => Err(SoftmaxError::SliceLength { what, len, shape }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_are_not_the_shape_are_errors() {
        let cpu = Device::cpu();
        for shape in [[2, 2], [3, 0], [usize::MAX, 3], [usize::MAX, usize::MAX]] {
            let error = softmax_of_slice::<f32, f32>(&cpu, &[0.0; 3], shape, &Options::new()).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("3 elements") && text.contains(&shape[0].to_string()), "{text}");
        }
        let error = cross_entropy_of_slice(&cpu, &[0.0f32; 4], [2, 2], &[0i32]).unwrap_err().to_string();
        assert!(error.contains("1 targets"), "{error}");
    }

    #[test]
    fn without_elements_there_is_nothing() {
        for shape in [[0, 0], [0, 5], [5, 0]] {
            let out: Vec<f32> =
                softmax_of_slice(&Device::cpu(), &[] as &[f32], shape, &Options::new()).unwrap();
            assert!(out.is_empty(), "{shape:?}");
        }
    }
}
