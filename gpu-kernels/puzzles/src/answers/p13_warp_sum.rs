// Hint: All 32 lanes must take part in the shuffles, also those without an element: they contribute 0.
// Hint: `inp.get(i).copied().unwrap_or(0.0)` is the element or 0.
// Hint: A loop with `delta` 16, 8, 4, 2, 1 adds `warp::warp_shuffle_down(u32::MAX, sum, delta, 32).0`. Then lane 0 writes
// `out[i / 32]`, if there is such an element: `i < inp.len()`.

use cuda_std::{kernel, thread, warp};

#[kernel]
pub unsafe fn warp_sum_solution(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [16, 8, 4, 2, 1] {
        sum += warp::warp_shuffle_down(u32::MAX, sum, delta, 32).0;
    }
    if warp::lane_id() == 0 && i < inp.len() {
        *out.add(i / 32) = sum;
    }
}

// Wrong: lanes without an element do not take part.
// Says: mask; neutral value
#[kernel]
pub unsafe fn warp_sum_mask(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    if i < inp.len() {
        let mut sum = inp[i];
        for delta in [16, 8, 4, 2, 1] {
            sum += warp::warp_shuffle_down(u32::MAX, sum, delta, 32).0;
        }
        if warp::lane_id() == 0 {
            *out.add(i / 32) = sum;
        }
    }
}

// Wrong: a neutral element that is not neutral.
// Says: expected; written by thread
#[kernel]
pub unsafe fn warp_sum_neutral(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    let mut sum = inp.get(i).copied().unwrap_or(1.0);
    for delta in [16, 8, 4, 2, 1] {
        sum += warp::warp_shuffle_down(u32::MAX, sum, delta, 32).0;
    }
    if warp::lane_id() == 0 && i < inp.len() {
        *out.add(i / 32) = sum;
    }
}

// Wrong: the last step is missing.
// Says: expected; written by thread; look at the formula
#[kernel]
pub unsafe fn warp_sum_steps(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [16, 8, 4, 2] {
        sum += warp::warp_shuffle_down(u32::MAX, sum, delta, 32).0;
    }
    if warp::lane_id() == 0 && i < inp.len() {
        *out.add(i / 32) = sum;
    }
}

// Wrong: all lanes write.
// Says: depends on luck; one thread alone should write it
#[kernel]
pub unsafe fn warp_sum_all_write(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [16, 8, 4, 2, 1] {
        sum += warp::warp_shuffle_down(u32::MAX, sum, delta, 32).0;
    }
    if i < inp.len() {
        *out.add(i / 32) = sum;
    }
}

// Wrong: lane 0 adds alone.
// Says: not good yet; few threads do all the work
#[kernel]
pub unsafe fn warp_sum_one_lane(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    if i % 32 == 0 && i < inp.len() {
        let mut sum = 0.0;
        for k in i..inp.len().min(i + 32) {
            sum += inp[k];
        }
        *out.add(i / 32) = sum;
    }
}
