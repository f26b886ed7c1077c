// Hint: It is puzzle 22 with a conversion.

use cuda_std::half::bf16;
use cuda_std::{kernel, thread, warp};

#[kernel]
pub unsafe fn half_precision_solution(out: *mut f32, inp: *const bf16, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    if row < rows {
        let row_of_inp = inp.add((row * cols) as usize);
        let mut sum = 0.0f32;
        for col in (lane..cols).step_by(32) {
            sum += (*row_of_inp.add(col as usize)).to_f32();
        }
        let sum = warp::reduce_sum(sum);
        if lane == 0 {
            *out.add(row as usize) = sum;
        }
    }
}

// Wrong: the sum is rounded to `bf16` in each step.
// Says: rounding error; too few bits
#[kernel]
pub unsafe fn half_precision_in_bf16(out: *mut f32, inp: *const bf16, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    if row < rows {
        let row_of_inp = inp.add((row * cols) as usize);
        let mut sum = 0.0f32;
        for col in (lane..cols).step_by(32) {
            sum = bf16::from_f32(sum + (*row_of_inp.add(col as usize)).to_f32()).to_f32();
        }
        let sum = warp::reduce_sum(sum);
        if lane == 0 {
            *out.add(row as usize) = sum;
        }
    }
}

// Wrong: a thread per row.
// Says: not good yet; sectors per load
#[kernel]
pub unsafe fn half_precision_thread(out: *mut f32, inp: *const bf16, rows: u32, cols: u32) {
    let row = thread::index_1d();
    if row < rows {
        let mut sum = 0.0f32;
        for col in 0..cols {
            sum += (*inp.add((row * cols + col) as usize)).to_f32();
        }
        *out.add(row as usize) = sum;
    }
}

// Wrong: the bits as an integer.
// Says: likely cause
#[kernel]
pub unsafe fn half_precision_bits(out: *mut f32, inp: *const bf16, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    if row < rows {
        let row_of_inp = inp.add((row * cols) as usize);
        let mut sum = 0.0f32;
        for col in (lane..cols).step_by(32) {
            sum += (*row_of_inp.add(col as usize)).to_bits() as f32;
        }
        let sum = warp::reduce_sum(sum);
        if lane == 0 {
            *out.add(row as usize) = sum;
        }
    }
}

// Wrong: the result is rounded to `bf16`.
// Says: rounding error; rounded twice
#[kernel]
pub unsafe fn half_precision_rounded(out: *mut f32, inp: *const bf16, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    if row < rows {
        let row_of_inp = inp.add((row * cols) as usize);
        let mut sum = 0.0f32;
        for col in (lane..cols).step_by(32) {
            sum += (*row_of_inp.add(col as usize)).to_f32();
        }
        let sum = warp::reduce_sum(sum);
        if lane == 0 {
            *out.add(row as usize) = bf16::from_f32(sum).to_f32();
        }
    }
}
