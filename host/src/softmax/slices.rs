//! Softmax of slices in host memory: copies to the device, computes, and copies back.

use bytemuck::Pod;

use super::{Matrix, MatrixMut, Options, SoftmaxAs, SoftmaxError, softmax};
use crate::device::{Device, Queue as _};

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

/// Refuses a slice whose length does not match the shape.
pub(super) fn check_len(what: &'static str, len: usize, shape: [usize; 2]) -> Result<(), SoftmaxError> {
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
