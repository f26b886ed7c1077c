//! An array in shared memory is an item, which cannot name the parameters of the function around it.

use cuda_std::{kernel, shared_array};

unsafe fn sized<const N: usize>() -> *mut f32 {
    shared_array![f32; N]
}

unsafe fn typed<T>() -> *mut T {
    shared_array![T; 4]
}

#[kernel(cpu_only)]
unsafe fn first(out: *mut f32) {
    unsafe { *out = *sized::<4>() + *typed::<f32>() };
}

fn main() {}
