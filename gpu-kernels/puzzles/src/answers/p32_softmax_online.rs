// Hint: Start with `largest = f32::NEG_INFINITY` and `sum = 0.0`. In the first step `exp(-inf)` is 0, which is right.
// Hint: A lane without elements still has `-inf`. If all that it subtracts is `-inf` too, that is NaN; so correct only the sums of lanes with elements.

use cuda_std::{GpuFloat as _, kernel, thread, warp};

#[kernel]
pub unsafe fn softmax_online_solution(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    if row < rows {
        let (x, y) = (inp.add((row * cols) as usize), out.add((row * cols) as usize));
        let (mut largest, mut sum) = (f32::NEG_INFINITY, 0.0);
        for col in (lane..cols).step_by(32) {
            let value = *x.add(col as usize);
            let new = value.max(largest);
            sum = sum * (largest - new).exp() + (value - new).exp();
            largest = new;
        }
        let of_row = warp::reduce_max(largest);
        if largest > f32::NEG_INFINITY {
            sum *= (largest - of_row).exp();
        }
        let sum = warp::reduce_sum(sum);
        for col in (lane..cols).step_by(32) {
            *y.add(col as usize) = (*x.add(col as usize) - of_row).exp() / sum;
        }
    }
}

// Wrong: three reads.
// Says: not good yet; reads of each input byte; 2 are enough
#[kernel]
pub unsafe fn softmax_online_three(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
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

// Wrong: the sum is not corrected for a new largest.
// Says: same factor; divided by
#[kernel]
pub unsafe fn softmax_online_uncorrected(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    if row < rows {
        let (x, y) = (inp.add((row * cols) as usize), out.add((row * cols) as usize));
        let (mut largest, mut sum) = (f32::NEG_INFINITY, 0.0);
        for col in (lane..cols).step_by(32) {
            let value = *x.add(col as usize);
            let new = value.max(largest);
            sum = sum + (value - new).exp();
            largest = new;
        }
        let of_row = warp::reduce_max(largest);
        if largest > f32::NEG_INFINITY {
            sum *= (largest - of_row).exp();
        }
        let sum = warp::reduce_sum(sum);
        for col in (lane..cols).step_by(32) {
            *y.add(col as usize) = (*x.add(col as usize) - of_row).exp() / sum;
        }
    }
}

// Wrong: the sums of the lanes are added without a correction.
// Says: same factor; divided by
#[kernel]
pub unsafe fn softmax_online_lanes(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    if row < rows {
        let (x, y) = (inp.add((row * cols) as usize), out.add((row * cols) as usize));
        let (mut largest, mut sum) = (f32::NEG_INFINITY, 0.0);
        for col in (lane..cols).step_by(32) {
            let value = *x.add(col as usize);
            let new = value.max(largest);
            sum = sum * (largest - new).exp() + (value - new).exp();
            largest = new;
        }
        let of_row = warp::reduce_max(largest);
        let sum = warp::reduce_sum(sum);
        for col in (lane..cols).step_by(32) {
            *y.add(col as usize) = (*x.add(col as usize) - of_row).exp() / sum;
        }
    }
}

// Wrong: a start of -1000 that some numbers are below.
// Says: likely cause
#[kernel]
pub unsafe fn softmax_online_neutral(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    if row < rows {
        let (x, y) = (inp.add((row * cols) as usize), out.add((row * cols) as usize));
        let (mut largest, mut sum) = (0.0f32, 0.0);
        for col in (lane..cols).step_by(32) {
            let value = *x.add(col as usize);
            let new = value.max(largest);
            sum = sum * (largest - new).exp() + (value - new).exp();
            largest = new;
        }
        let of_row = warp::reduce_max(largest);
        if largest > f32::NEG_INFINITY {
            sum *= (largest - of_row).exp();
        }
        let sum = warp::reduce_sum(sum);
        for col in (lane..cols).step_by(32) {
            *y.add(col as usize) = (*x.add(col as usize) - of_row).exp() / sum;
        }
    }
}

// Wrong: the largest is replaced before the sum is corrected.
// Says: same factor; divided by
#[kernel]
pub unsafe fn softmax_online_order(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    if row < rows {
        let (x, y) = (inp.add((row * cols) as usize), out.add((row * cols) as usize));
        let (mut largest, mut sum) = (f32::NEG_INFINITY, 0.0);
        for col in (lane..cols).step_by(32) {
            let value = *x.add(col as usize);
            let new = value.max(largest);
            largest = new;
            sum = sum * (largest - new).exp() + (value - new).exp();
        }
        let of_row = warp::reduce_max(largest);
        if largest > f32::NEG_INFINITY {
            sum *= (largest - of_row).exp();
        }
        let sum = warp::reduce_sum(sum);
        for col in (lane..cols).step_by(32) {
            *y.add(col as usize) = (*x.add(col as usize) - of_row).exp() / sum;
        }
    }
}
