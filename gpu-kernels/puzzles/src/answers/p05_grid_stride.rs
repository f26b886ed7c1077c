// Hint: The step is the number of all threads: `thread::grid_dim_x() * thread::block_dim_x()`.
// Hint: `while i < n { ..; i += step; }`, or `for i in (first..n).step_by(step as usize)`.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn grid_stride_solution(out: *mut f32, inp: *const f32, n: u32) {
    let step = thread::grid_dim_x() * thread::block_dim_x();
    let mut i = thread::index_1d();
    while i < n {
        *out.add(i as usize) = 2.0 * *inp.add(i as usize) + 1.0;
        i += step;
    }
}

// Wrong: no loop.
// Says: no thread wrote it; the grid has 256 threads; in a loop
#[kernel]
pub unsafe fn grid_stride_once(out: *mut f32, inp: *const f32, n: u32) {
    let i = thread::index_1d();
    if i < n {
        *out.add(i as usize) = 2.0 * *inp.add(i as usize) + 1.0;
    }
}

// Wrong: neighbouring elements for one thread.
// Says: not good yet; sectors per load; 4 are enough
#[kernel]
pub unsafe fn grid_stride_chunks(out: *mut f32, inp: *const f32, n: u32) {
    let threads = thread::grid_dim_x() * thread::block_dim_x();
    let each = n.div_ceil(threads);
    let first = thread::index_1d() * each;
    let mut i = first;
    while i < n.min(first + each) {
        *out.add(i as usize) = 2.0 * *inp.add(i as usize) + 1.0;
        i += 1;
    }
}

// Wrong: the threads of a block as the step, so that elements are computed several times.
// Says: two threads write out[
#[kernel]
pub unsafe fn grid_stride_block_step(out: *mut f32, inp: *const f32, n: u32) {
    let mut i = thread::index_1d();
    while i < n {
        *out.add(i as usize) = 2.0 * *inp.add(i as usize) + 1.0;
        i += thread::block_dim_x();
    }
}

// Wrong: the index does not change.
// Says: does not end; does its variable change
#[kernel]
pub unsafe fn grid_stride_forever(out: *mut f32, inp: *const f32, n: u32) {
    let step = thread::grid_dim_x() * thread::block_dim_x();
    let i = thread::index_1d();
    while i < n {
        out.add(i as usize).write_volatile(2.0 * *inp.add(i as usize) + 1.0);
        let i = i + step;
    }
}
