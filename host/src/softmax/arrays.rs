//! Softmax of arrays of the crate `ndarray` of any dimension and layout (feature `ndarray`).

use bytemuck::Pod;
use ndarray::{Array, ArrayBase, ArrayRef, CowArray, Data, Dimension};

use super::{Options, SoftmaxAs, SoftmaxError, softmax_of_slice};
use crate::device::Device;

/// Computes the softmax of an array of `I` along its last axis, as `O`. Arrays that are not row-major are copied first.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{Options, SoftmaxError, softmax_of_array};
/// use ndarray::{Array2, array};
///
/// let logits = array![[0.0f32, 1.0], [0.0, f32::NEG_INFINITY]];
/// let cpu = Device::cpu();
/// let of_columns: Array2<f32> = softmax_of_array(&cpu, &logits.t(), &Options::new())?;
/// assert_eq!(of_columns, array![[0.5, 0.5], [1.0, 0.0]]);
/// # Ok::<(), SoftmaxError>(())
/// ```
///
/// # Errors
/// A row has 2^32 elements or more, the scale is not in (0, 2^127], the device is out of memory, or the device failed.
pub fn softmax_of_array<I: SoftmaxAs<O>, O: Pod, D: Dimension>(
    device: &Device,
    logits: &ArrayBase<impl Data<Elem = I>, D>,
    options: &Options,
) -> Result<Array<O, D>, SoftmaxError> {
    let rows = logits.as_standard_layout();
    let out = softmax_of_slice(device, elements(&rows), shape(&rows), options)?;
    Ok(Array::from_shape_vec(rows.raw_dim(), out).expect("a row-major array of as many elements"))
}

/// The elements of an array in row-major order.
pub(super) fn elements<'a, T, D: Dimension>(array: &'a CowArray<'_, T, D>) -> &'a [T] {
    array.as_slice().expect("a row-major array without gaps")
}

/// The number of rows along the last axis, and the elements per row. An array without axes is one row of one element.
pub(super) fn shape<T, D: Dimension>(array: &ArrayRef<T, D>) -> [usize; 2] {
    match array.shape() {
        [] => [1, 1],
        [outer @ .., cols] => [outer.iter().product(), *cols],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array0, Array3, Axis, s};

    #[test]
    fn views_of_any_layout_are_rows_along_the_last_axis() {
        let cpu = Device::cpu();
        let all = Array3::from_shape_fn((2, 5, 7), |(i, j, k)| ((i * 31 + j * 17 + k * 5) % 13) as f32 - 6.0);
        for view in [all.view(), all.slice(s![.., ..;2, ..;-3]), all.view().permuted_axes([2, 0, 1])] {
            let got: Array3<f32> = softmax_of_array(&cpu, &view, &Options::new()).unwrap();
            assert_eq!(got.shape(), view.shape());
            for (got, logits) in got.lanes(Axis(2)).into_iter().zip(view.lanes(Axis(2))) {
                let sum: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
                let near =
                    |(&got, &x): (&f32, &f32)| (f64::from(got) - f64::from(x).exp() / sum).abs() < 1e-6;
                assert!(got.iter().zip(logits).all(near), "{got} of {logits}");
            }
        }
    }

    #[test]
    fn arrays_without_axes_or_elements_are_allowed() {
        let cpu = Device::cpu();
        let one: Array0<f32> =
            softmax_of_array(&cpu, &Array0::from_elem((), 5.0f32), &Options::new()).unwrap();
        assert_eq!(one.into_scalar(), 1.0);
        for shape in [(0, 3, 4), (3, 0, 4), (3, 4, 0)] {
            let none: Array3<f32> =
                softmax_of_array(&cpu, &Array3::<f32>::zeros(shape), &Options::new()).unwrap();
            assert_eq!(none.dim(), shape);
        }
    }
}
