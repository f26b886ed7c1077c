// Hint: A whole warp has no row, or all its lanes have the same: `if row < rows` is the same for all lanes.
// Hint: `for col in (lane..cols).step_by(32)`: some lanes may have one iteration less. They meet again after the loop.

use cuda_std::{kernel, thread, warp};

#[kernel]
pub unsafe fn row_sums_solution(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (warp, lane) = (thread::index_1d() / 32, warp::lane_id());
    if warp < rows {
        let row = inp.add((warp * cols) as usize);
        let mut sum = 0.0;
        for col in (lane..cols).step_by(32) {
            sum += *row.add(col as usize);
        }
        let sum = warp::reduce_sum(sum);
        if lane == 0 {
            *out.add(warp as usize) = sum;
        }
    }
}

// Wrong: a thread per row.
// Says: not good yet; sectors per load
#[kernel]
pub unsafe fn row_sums_thread(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let row = thread::index_1d();
    if row < rows {
        let mut sum = 0.0;
        for col in 0..cols {
            sum += *inp.add((row * cols + col) as usize);
        }
        *out.add(row as usize) = sum;
    }
}

// Wrong: whole groups of 32 columns only.
// Says: likely cause
#[kernel]
pub unsafe fn row_sums_whole(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (warp, lane) = (thread::index_1d() / 32, warp::lane_id());
    if warp < rows {
        let row = inp.add((warp * cols) as usize);
        let mut sum = 0.0;
        for col in (lane..cols / 32 * 32).step_by(32) {
            sum += *row.add(col as usize);
        }
        let sum = warp::reduce_sum(sum);
        if lane == 0 {
            *out.add(warp as usize) = sum;
        }
    }
}

// Wrong: the shuffles are in the loop, where lanes are missing.
// Says: mask
#[kernel]
pub unsafe fn row_sums_in_loop(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (warp, lane) = (thread::index_1d() / 32, warp::lane_id());
    if warp < rows {
        let row = inp.add((warp * cols) as usize);
        let mut sum = 0.0;
        for col in (lane..cols).step_by(32) {
            sum += warp::reduce_sum(*row.add(col as usize));
        }
        if lane == 0 {
            *out.add(warp as usize) = sum;
        }
    }
}

// Wrong: all lanes write the sum.
// Says: two threads write out[; one thread alone
#[kernel]
pub unsafe fn row_sums_all_write(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (warp, lane) = (thread::index_1d() / 32, warp::lane_id());
    if warp < rows {
        let row = inp.add((warp * cols) as usize);
        let mut sum = 0.0;
        for col in (lane..cols).step_by(32) {
            sum += *row.add(col as usize);
        }
        let sum = warp::reduce_sum(sum);
        *out.add(warp as usize) = sum;
    }
}

// Wrong: a guard for the threads instead of the warps.
// Says: likely cause
#[kernel]
pub unsafe fn row_sums_guard(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (warp, lane) = (thread::index_1d() / 32, warp::lane_id());
    if thread::index_1d() < rows {
        let row = inp.add((warp * cols) as usize);
        let mut sum = 0.0;
        for col in (lane..cols).step_by(32) {
            sum += *row.add(col as usize);
        }
        let sum = warp::reduce_sum(sum);
        if lane == 0 {
            *out.add(warp as usize) = sum;
        }
    }
}
