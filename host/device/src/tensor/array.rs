//! Tensors from arrays of the crate `ndarray` and back (feature `ndarray`).

use bytemuck::Pod;
use ndarray::{ArrayD, ArrayRef, Dimension};

use super::layout::Shape;
use super::owned::Tensor;
use crate::device::handle::Device;
use crate::error::{Error, Kind};

impl Device {
    /// Allocates a tensor with the elements of an array of 1 to 4 axes and any layout.
    ///
    /// ```
    /// use ferrowarp::device::Device;
    /// use ferrowarp::{Error, Softmax};
    /// use ndarray::array;
    ///
    /// let device = Device::cpu();
    /// let logits = array![[0.0f32, 1.0], [0.0, f32::NEG_INFINITY]];
    /// let of_columns = Softmax::new().run(&device, &device.tensor_of_array(&logits.t())?)?;
    /// assert_eq!(of_columns.to_array()?, array![[0.5, 0.5], [1.0, 0.0]].into_dyn());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The array has another number of axes, the device is out of memory, or it failed.
    pub fn tensor_of_array<T: Pod, D: Dimension>(&self, array: &ArrayRef<T, D>) -> Result<Tensor<T>, Error> {
        let shape: Shape = match *array.shape() {
            [a] => [a].into(),
            [a, b] => [a, b].into(),
            [a, b, c] => [a, b, c].into(),
            [a, b, c, d] => [a, b, c, d].into(),
            ref other => {
                let what = format!("an array has {} axes", other.len());
                return Err(Kind::Unsupported { what, needs: "a tensor has 1 to 4, so reshape it" }.into());
            }
        };
        let rows = array.as_standard_layout();
        self.tensor(rows.as_slice().expect("a row-major array without gaps"), shape)
    }
}

impl<T: Pod> Tensor<T> {
    /// Copies the tensor into an array, after all work queued on the device.
    ///
    /// # Errors
    /// The device failed, now or in an earlier kernel.
    pub fn to_array(&self) -> Result<ArrayD<T>, Error> {
        let elements = self.to_vec()?;
        Ok(ArrayD::from_shape_vec(&*self.shape(), elements).expect("a row-major array of as many elements"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array0, Array3, Array4, s};

    #[test]
    fn arrays_of_any_layout_keep_their_elements() {
        let device = Device::cpu();
        let all = Array3::from_shape_fn((2, 5, 7), |(i, j, k)| i * 100 + j * 10 + k);
        let views = [all.view(), all.slice(s![.., ..;2, ..;-3]), all.view().permuted_axes([2, 0, 1])];
        for view in views.into_iter().chain([all.slice(s![.., 5.., ..])]) {
            let tensor = device.tensor_of_array(&view).unwrap();
            assert_eq!(&*tensor.shape(), view.shape());
            assert_eq!(tensor.to_array().unwrap(), view.into_dyn());
        }
        let row = device.tensor_of_array(&all.slice(s![1, 2, ..])).unwrap();
        assert_eq!(row.to_vec().unwrap(), [120, 121, 122, 123, 124, 125, 126]);
        assert_eq!(
            &*device.tensor_of_array(&Array4::<u8>::zeros((1, 2, 0, 3))).unwrap().shape(),
            [1, 2, 0, 3]
        );
    }

    #[test]
    fn arrays_without_axes_are_refused() {
        let error = Device::cpu().tensor_of_array(&Array0::from_elem((), 5.0f32)).unwrap_err();
        assert_eq!(error.to_string(), "an array has 0 axes; a tensor has 1 to 4, so reshape it");
    }
}
