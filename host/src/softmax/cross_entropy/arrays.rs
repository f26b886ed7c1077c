//! Cross entropy of arrays of the crate `ndarray` of any dimension and layout.

use bytemuck::Pod;
use ndarray::{Array1, ArrayBase, Data, Dimension, Ix1};

use super::{Targets, cross_entropy_of_slice};
use crate::device::{Buffer, Device};
use crate::softmax::arrays::{elements, shape};
use crate::softmax::{Real, SoftmaxError};

/// Computes the cross entropy of each row along the last axis of an array of logits. `targets` has one target per row, in
/// the same order: see [`CrossEntropy::new`](super::CrossEntropy::new).
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{SoftmaxError, cross_entropy_of_array};
/// use ndarray::array;
///
/// let logits = array![[0.0f32, 0.0], [3.0, 3.0]];
/// let losses = cross_entropy_of_array(&Device::cpu(), &logits, &array![1i64, -100])?;
/// assert!((losses[0] - 2f32.ln()).abs() < 1e-6 && losses[1] == 0.0);
/// # Ok::<(), SoftmaxError>(())
/// ```
///
/// # Errors
/// There is not one target per row, a row has 2^32 elements or more, the device is out of memory, or the device failed.
pub fn cross_entropy_of_array<T: Real, C: Pod, D: Dimension>(
    device: &Device,
    logits: &ArrayBase<impl Data<Elem = T>, D>,
    targets: &ArrayBase<impl Data<Elem = C>, Ix1>,
) -> Result<Array1<f32>, SoftmaxError>
where
    for<'a> &'a Buffer<C>: Into<Targets<'a>>,
{
    let (rows, targets) = (logits.as_standard_layout(), targets.as_standard_layout());
    let losses = cross_entropy_of_slice(device, elements(&rows), shape(&rows), elements(&targets))?;
    Ok(Array1::from(losses))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn targets_that_are_too_few_are_an_error() {
        let error =
            cross_entropy_of_array(&Device::cpu(), &array![[0.0f32], [1.0]], &array![0i32]).unwrap_err();
        assert!(error.to_string().contains("1 targets"), "{error}");
    }
}
