// Hint: Thread `tid` loads element `i` to `tile[tid + 2]`, or 0 if there is no such element.
// Hint: Four threads load a second element: for example those with `tid < 4`. Place `p` of the tile is element `first + p - 2`, for `p` 0, 1, 130 and 131.
// Hint: An element before the first has a negative index. Compare before you subtract.

use cuda_std::{kernel, shared_array, thread};

#[kernel]
pub unsafe fn moving_average_solution(out: *mut f32, inp: *const f32, n: u32) {
    let tile = shared_array![f32; 132];
    let (i, n) = (thread::index_1d() as usize, n as usize);
    let tid = thread::thread_idx_x() as usize;
    let first = i - tid;
    for p in (tid..132).step_by(128) {
        let at = first + p;
        *tile.add(p) = if at >= 2 && at - 2 < n { *inp.add(at - 2) } else { 0.0 };
    }
    thread::sync_threads();
    if i < n {
        let mut sum = 0.0;
        for k in 0..5 {
            sum += *tile.add(tid + k);
        }
        *out.add(i) = sum / 5.0;
    }
}

// Wrong: no barrier.
// Says: depends on luck; shared memory; sync_threads
#[kernel]
pub unsafe fn moving_average_no_barrier(out: *mut f32, inp: *const f32, n: u32) {
    let tile = shared_array![f32; 132];
    let (i, n) = (thread::index_1d() as usize, n as usize);
    let tid = thread::thread_idx_x() as usize;
    let first = i - tid;
    for p in (tid..132).step_by(128) {
        let at = first + p;
        *tile.add(p) = if at >= 2 && at - 2 < n { *inp.add(at - 2) } else { 0.0 };
    }
    if i < n {
        let mut sum = 0.0;
        for k in 0..5 {
            sum += *tile.add(tid + k);
        }
        *out.add(i) = sum / 5.0;
    }
}

// Wrong: no shared memory.
// Says: not good yet; reads of each input byte
#[kernel]
pub unsafe fn moving_average_global(out: *mut f32, inp: *const f32, n: u32) {
    let (i, n) = (thread::index_1d() as usize, n as usize);
    if i < n {
        let mut sum = 0.0;
        for at in i..i + 5 {
            sum += if at >= 2 && at - 2 < n { *inp.add(at - 2) } else { 0.0 };
        }
        *out.add(i) = sum / 5.0;
    }
}

// Wrong: no halo.
// Says: elements of `out` are wrong; expected
#[kernel]
pub unsafe fn moving_average_no_halo(out: *mut f32, inp: *const f32, n: u32) {
    let tile = shared_array![f32; 132];
    let (i, n) = (thread::index_1d() as usize, n as usize);
    let tid = thread::thread_idx_x() as usize;
    *tile.add(tid + 2) = if i < n { *inp.add(i) } else { 0.0 };
    if tid < 2 {
        *tile.add(tid) = 0.0;
        *tile.add(tid + 130) = 0.0;
    }
    thread::sync_threads();
    if i < n {
        let mut sum = 0.0;
        for k in 0..5 {
            sum += *tile.add(tid + k);
        }
        *out.add(i) = sum / 5.0;
    }
}

// Wrong: the right halo is not written.
// Says: shared memory that no thread wrote
#[kernel]
pub unsafe fn moving_average_unwritten(out: *mut f32, inp: *const f32, n: u32) {
    let tile = shared_array![f32; 132];
    let (i, n) = (thread::index_1d() as usize, n as usize);
    let tid = thread::thread_idx_x() as usize;
    let first = i - tid;
    for p in (tid..130).step_by(128) {
        let at = first + p;
        *tile.add(p) = if at >= 2 && at - 2 < n { *inp.add(at - 2) } else { 0.0 };
    }
    thread::sync_threads();
    if i < n {
        let mut sum = 0.0;
        for k in 0..5 {
            sum += *tile.add(tid + k);
        }
        *out.add(i) = sum / 5.0;
    }
}

// Wrong: an index below 0.
// Says: before you subtract
#[kernel]
pub unsafe fn moving_average_negative(out: *mut f32, inp: *const f32, n: u32) {
    let tile = shared_array![f32; 132];
    let (i, n) = (thread::index_1d() as usize, n as usize);
    let tid = thread::thread_idx_x() as usize;
    let first = i - tid;
    for p in (tid..132).step_by(128) {
        let at = (first + p) as isize - 2;
        *tile.add(p) = if at < n as isize { *inp.offset(at) } else { 0.0 };
    }
    thread::sync_threads();
    if i < n {
        let mut sum = 0.0;
        for k in 0..5 {
            sum += *tile.add(tid + k);
        }
        *out.add(i) = sum / 5.0;
    }
}
