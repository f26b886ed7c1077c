//! A kernel of one's own.

#![no_std]

use cuda_std::{kernel, thread};

/// `y = 2 * x`.
///
/// # Safety
/// `y` holds as many elements as `x`; at least as many threads are launched.
#[kernel]
pub unsafe fn twice(x: &[f32], y: *mut f32) {
    let i = thread::index_1d() as usize;
    if i < x.len() {
        unsafe { *y.add(i) = 2.0 * x[i] };
    }
}
