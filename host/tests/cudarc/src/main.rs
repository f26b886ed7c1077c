//! Adds operations to a program that uses cudarc: on its memory and its stream, without a synchronisation in between, and in a
//! context that it created.

use std::error::Error;
use std::ptr;

use cudarc::driver::{CudaContext, DevicePtr, DevicePtrMut, result, sys};
use ferrowarp::device::{BufferView, BufferViewMut, Device, Stream};
use ferrowarp::{Matmul, Softmax, TensorView, TensorViewMut};

/// Rows and columns of a square matrix.
const SIDE: usize = 300;

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<f32> = (0..SIDE * SIDE).map(|i| (i * 7919 % 1013) as f32 / 500.0).collect();
    in_a_created_context(&numbers)?;
    in_the_primary_context(&numbers)?;
    println!("all results are right");
    Ok(())
}

/// Both libraries use a context that is not the primary one.
fn in_a_created_context(numbers: &[f32]) -> Result<(), Box<dyn Error>> {
    result::init()?;
    let (gpu, mut context) = (result::device::get(0)?, ptr::null_mut());
    // SAFETY: the out parameter is valid; without parameters it is an ordinary context.
    unsafe { sys::cuCtxCreate_v4(&mut context, ptr::null_mut(), 0, gpu) }.result()?;
    let mut results = [vec![0.0f32; SIDE * SIDE], vec![0.0; SIDE * SIDE]];
    {
        // SAFETY: the context is destroyed below, when the device and what belongs to it are gone.
        let device = unsafe { Device::attach(context.cast()) }?;
        if device.raw_context() != Some(context.cast()) {
            return Err("the device has another context".into());
        }
        // SAFETY: the context is current.
        let memory = unsafe { result::malloc_sync(3 * size_of_val(numbers)) }?;
        // SAFETY: there is memory for three matrices.
        unsafe { result::memcpy_htod_sync(memory, numbers) }?;
        result::ctx::synchronize()?;
        let address = |at: usize| {
            ptr::with_exposed_provenance_mut::<f32>(memory as usize).wrapping_add(at * numbers.len())
        };
        // SAFETY: the three matrices lie one after the other; nothing else uses them before the device has ended its work.
        let (from, to, square) = unsafe {
            (
                BufferView::from_raw(&device, address(0), numbers.len()),
                BufferViewMut::from_raw(&device, address(1), numbers.len()),
                BufferViewMut::from_raw(&device, address(2), numbers.len()),
            )
        };
        let matrix = TensorView::new(from, [SIDE, SIDE])?;
        Softmax::new().run_into(&device, TensorViewMut::new(to, [SIDE, SIDE])?, matrix)?;
        Matmul::new().run_into(&device, TensorViewMut::new(square, [SIDE, SIDE])?, matrix, matrix)?;
        // A buffer of our own and scratch memory are in the context too.
        if Matmul::new().run(&device, matrix, matrix)?.to_vec()?.len() != numbers.len() {
            return Err("the product has another shape".into());
        }
        device.synchronize()?;
        for (at, result) in (1..).zip(&mut results) {
            // SAFETY: the memory holds the results.
            unsafe { result::memcpy_dtoh_sync(result, memory + (at * size_of_val(numbers)) as u64) }?;
        }
        // SAFETY: all work has ended.
        unsafe { result::free_sync(memory) }?;
    }
    let (mut flags, mut is_active) = (0, 0);
    // SAFETY: the out parameters are valid.
    unsafe { sys::cuDevicePrimaryCtxGetState(gpu, &mut flags, &mut is_active) }.result()?;
    if is_active != 0 {
        return Err("the device's primary context was retained".into());
    }
    // SAFETY: nothing uses the context any more.
    unsafe { sys::cuCtxDestroy_v2(context) }.result()?;
    check(numbers, &results[0], &results[1])
}

/// Both libraries use the device's primary context.
fn in_the_primary_context(numbers: &[f32]) -> Result<(), Box<dyn Error>> {
    let context = CudaContext::new(0)?;
    let theirs = context.new_stream()?;
    let logits = theirs.clone_htod(numbers)?;
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
    check(numbers, &probabilities, &product)
}

/// Compares with f64.
fn check(numbers: &[f32], probabilities: &[f32], product: &[f32]) -> Result<(), Box<dyn Error>> {
    let number = |row: usize, col: usize| f64::from(numbers[row * SIDE + col]);
    for (row, (probabilities, product)) in probabilities.chunks(SIDE).zip(product.chunks(SIDE)).enumerate() {
        let sum: f64 = (0..SIDE).map(|col| number(row, col).exp()).sum();
        for col in 0..SIDE {
            let expected = number(row, col).exp() / sum;
            let of_product: f64 = (0..SIDE).map(|i| number(row, i) * number(i, col)).sum();
            let errors =
                [f64::from(probabilities[col]) / expected - 1.0, f64::from(product[col]) / of_product - 1.0];
            if errors.iter().any(|error| !(error.abs() < 1e-5)) {
                return Err(format!("row {row}, column {col}: relative errors {errors:?}").into());
            }
        }
    }
    Ok(())
}
