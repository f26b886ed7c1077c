// Hint: Three loops over the row: the largest, the sum of the exponentials, and the results.
// Hint: The neutral element of the maximum is `f32::NEG_INFINITY`. 0 is wrong for a row of negative numbers.

use cuda_std::{GpuFloat as _, kernel, thread, warp};

#[kernel]
pub unsafe fn softmax_stable_solution(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    if row < rows {
        let (x, y) = (inp.add((row * cols) as usize), out.add((row * cols) as usize));
        let mut largest = f32::NEG_INFINITY;
        for col in (lane..cols).step_by(32) {
            largest = largest.max(*x.add(col as usize));
        }
        let largest = warp::reduce_max(largest);
        let mut sum = 0.0;
        for col in (lane..cols).step_by(32) {
            sum += (*x.add(col as usize) - largest).exp();
        }
        let sum = warp::reduce_sum(sum);
        for col in (lane..cols).step_by(32) {
            *y.add(col as usize) = (*x.add(col as usize) - largest).exp() / sum;
        }
    }
}

// Wrong: without the largest.
// Says: NaN; infinite in f32 above 88.7
#[kernel]
pub unsafe fn softmax_stable_overflow(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    if row < rows {
        let (x, y) = (inp.add((row * cols) as usize), out.add((row * cols) as usize));
        let mut largest = f32::NEG_INFINITY;
        for col in (lane..cols).step_by(32) {
            largest = largest.max(*x.add(col as usize));
        }
        let largest = warp::reduce_max(largest);
        let mut sum = 0.0;
        for col in (lane..cols).step_by(32) {
            sum += (*x.add(col as usize)).exp();
        }
        let sum = warp::reduce_sum(sum);
        for col in (lane..cols).step_by(32) {
            *y.add(col as usize) = (*x.add(col as usize)).exp() / sum;
        }
    }
}

// Wrong: 0 as the neutral element of the maximum.
// Says: NaN; division by 0
#[kernel]
pub unsafe fn softmax_stable_zero(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    if row < rows {
        let (x, y) = (inp.add((row * cols) as usize), out.add((row * cols) as usize));
        let mut largest = 0.0f32;
        for col in (lane..cols).step_by(32) {
            largest = largest.max(*x.add(col as usize));
        }
        let largest = warp::reduce_max(largest);
        let mut sum = 0.0;
        for col in (lane..cols).step_by(32) {
            sum += (*x.add(col as usize) - largest).exp();
        }
        let sum = warp::reduce_sum(sum);
        for col in (lane..cols).step_by(32) {
            *y.add(col as usize) = (*x.add(col as usize) - largest).exp() / sum;
        }
    }
}

// Wrong: each lane subtracts the largest of its own elements.
// Says: likely cause
#[kernel]
pub unsafe fn softmax_stable_lane(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    if row < rows {
        let (x, y) = (inp.add((row * cols) as usize), out.add((row * cols) as usize));
        let mut largest = f32::NEG_INFINITY;
        for col in (lane..cols).step_by(32) {
            largest = largest.max(*x.add(col as usize));
        }
        let mut sum = 0.0;
        for col in (lane..cols).step_by(32) {
            sum += (*x.add(col as usize) - largest).exp();
        }
        let sum = warp::reduce_sum(sum);
        for col in (lane..cols).step_by(32) {
            *y.add(col as usize) = (*x.add(col as usize) - largest).exp() / sum;
        }
    }
}

// Wrong: each lane divides by its own sum.
// Says: likely cause
#[kernel]
pub unsafe fn softmax_stable_sum(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    if row < rows {
        let (x, y) = (inp.add((row * cols) as usize), out.add((row * cols) as usize));
        let mut largest = f32::NEG_INFINITY;
        for col in (lane..cols).step_by(32) {
            largest = largest.max(*x.add(col as usize));
        }
        let largest = warp::reduce_max(largest);
        let mut sum = 0.0;
        for col in (lane..cols).step_by(32) {
            sum += (*x.add(col as usize) - largest).exp();
        }
        for col in (lane..cols).step_by(32) {
            *y.add(col as usize) = (*x.add(col as usize) - largest).exp() / sum;
        }
    }
}
