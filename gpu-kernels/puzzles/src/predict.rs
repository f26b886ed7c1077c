//! Kernels whose counts a reader predicts: `cargo xtask learn predict`. `host/learn/src/predictions.rs` has the questions.

use cuda_std::{kernel, shared_array, thread};

/// Copies with this distance between the elements of neighbouring threads.
#[kernel]
pub unsafe fn strided(out: *mut f32, inp: *const f32, stride: u32) {
    let i = thread::index_1d();
    *out.add(i as usize) = *inp.add((i * stride) as usize);
}

/// Copies from this element on.
#[kernel]
pub unsafe fn shifted(out: *mut f32, inp: *const f32, first: u32) {
    let i = thread::index_1d();
    *out.add(i as usize) = *inp.add((i + first) as usize);
}

/// All threads read one element.
#[kernel]
pub unsafe fn one_for_all(out: *mut f32, inp: *const f32, at: u32) {
    let i = thread::index_1d();
    *out.add(i as usize) = *inp.add(at as usize);
}

/// Thread `i` reads a word of shared memory `distance` words after that of thread `i - 1`.
#[kernel]
pub unsafe fn banks(out: *mut f32, inp: *const f32, distance: u32) {
    let tile = shared_array![f32; 2048];
    let (tid, i) = (thread::thread_idx_x(), thread::index_1d());
    for word in (tid..2048).step_by(32) {
        *tile.add(word as usize) = *inp.add(i as usize);
    }
    thread::sync_threads();
    *out.add(i as usize) = *tile.add((tid * distance) as usize);
}

/// Odd and even threads, or odd and even warps, take different branches.
#[kernel]
pub unsafe fn branches(out: *mut f32, inp: *const f32, size: u32) {
    let i = thread::index_1d();
    let mut x = *inp.add(i as usize);
    if i / size % 2 == 0 {
        for _ in 0..size {
            x = x * 1.5 + 1.0;
        }
    }
    *out.add(i as usize) = x;
}
