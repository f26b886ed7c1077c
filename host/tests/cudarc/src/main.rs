//! Adds operations to a program that uses cudarc: on its memory and its stream, without a synchronisation in between.

use std::error::Error;

use cudarc::driver::{CudaContext, DevicePtr, DevicePtrMut};
use ferrowarp::device::{BufferView, BufferViewMut, Device, Stream};
use ferrowarp::{Matmul, Softmax, TensorView, TensorViewMut};

/// Rows and columns of a square matrix.
const SIDE: usize = 300;

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<f32> = (0..SIDE * SIDE).map(|i| (i * 7919 % 1013) as f32 / 500.0).collect();
    let context = CudaContext::new(0)?;
    let theirs = context.new_stream()?;
    let logits = theirs.clone_htod(&numbers)?;
    let mut probabilities = theirs.alloc_zeros::<f32>(SIDE * SIDE)?;
    let mut product = theirs.alloc_zeros::<f32>(SIDE * SIDE)?;

    // Both libraries use the primary context.
    let device = Device::cuda(0)?;
    // SAFETY: cudarc's stream of that context lives to the end of this function.
    let ours = unsafe { Stream::from_raw(&device, theirs.cu_stream().cast())? };
    {
        // While these guards live, cudarc counts the memory as used by its stream.
        let (from, _from) = logits.device_ptr(&theirs);
        let (to, _to) = probabilities.device_ptr_mut(&theirs);
        let (square, _square) = product.device_ptr_mut(&theirs);
        let address = |address: u64| std::ptr::with_exposed_provenance_mut::<f32>(address as usize);
        // SAFETY: cudarc allocated the memory with as many elements, and our work is in the order of its stream.
        let (from, to, square) = unsafe {
            (
                BufferView::from_raw(&device, address(from), SIDE * SIDE),
                BufferViewMut::from_raw(&device, address(to), SIDE * SIDE),
                BufferViewMut::from_raw(&device, address(square), SIDE * SIDE),
            )
        };
        let matrix = TensorView::new(from, [SIDE, SIDE])?;
        Softmax::new().run_into(&ours, TensorViewMut::new(to, [SIDE, SIDE])?, matrix)?;
        Matmul::new().run_into(&ours, TensorViewMut::new(square, [SIDE, SIDE])?, matrix, matrix)?;
    }
    let (probabilities, product) = (theirs.clone_dtoh(&probabilities)?, theirs.clone_dtoh(&product)?);
    check(&numbers, &probabilities, &product)
}

/// Compares with f64.
fn check(numbers: &[f32], probabilities: &[f32], product: &[f32]) -> Result<(), Box<dyn Error>> {
    let number = |row: usize, col: usize| f64::from(numbers[row * SIDE + col]);
    for (row, (probabilities, product)) in probabilities.chunks(SIDE).zip(product.chunks(SIDE)).enumerate() {
        let sum: f64 = (0..SIDE).map(|col| number(row, col).exp()).sum();
        for col in 0..SIDE {
            let expected = number(row, col).exp() / sum;
            let of_product: f64 = (0..SIDE).map(|i| number(row, i) * number(i, col)).sum();
            let errors = [
                f64::from(probabilities[col]) / expected - 1.0,
                f64::from(product[col]) / of_product - 1.0,
            ];
            if errors.iter().any(|error| !(error.abs() < 1e-5)) {
                return Err(format!("row {row}, column {col}: relative errors {errors:?}").into());
            }
        }
    }
    println!("both results are right");
    Ok(())
}
