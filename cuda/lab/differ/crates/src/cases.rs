//! What kernels share: where a thread's case is.

use cuda_std::thread;

use crate::place::Place;

/// A function of the table: input, number, output.
pub type Run = fn(&[u8], u32, &mut [u8]);

/// A function with its cases.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
pub struct Entry {
    /// The kernel's name.
    pub kernel: &'static str,
    /// What it runs.
    pub run: Run,
    /// Bytes of an output.
    pub output: usize,
    /// Numbers and inputs.
    pub cases: fn() -> Vec<crate::inputs::Case>,
}

/// Runs the case of this thread.
///
/// # Safety
/// There are `count` places, their inputs lie within `inputs`, and their outputs within `outputs`, apart from each other.
#[inline(always)]
pub unsafe fn run(
    places: *const Place,
    count: u32,
    inputs: *const u8,
    outputs: *mut u8,
    run: impl Fn(&[u8], u32, &mut [u8]),
) {
    let index = thread::index_1d();
    if index < count {
        // SAFETY: the caller's promise, for this thread's place.
        unsafe {
            let place = *places.add(index as usize);
            let input =
                core::slice::from_raw_parts(inputs.add(place.input_at as usize), place.input_len as usize);
            let output = core::slice::from_raw_parts_mut(
                outputs.add(place.output_at as usize),
                place.output_len as usize,
            );
            run(input, place.number, output);
        }
    }
}
