// Hint: All lanes call the shuffle, and then only those with `lane >= delta` add.
// Hint: The five steps have `delta` 1, 2, 4, 8 and 16.

use cuda_std::{kernel, thread, warp};

#[kernel]
pub unsafe fn warp_scan_solution(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    let lane = warp::lane_id();
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [1, 2, 4, 8, 16] {
        let other = warp::warp_shuffle_up(u32::MAX, sum, delta, 32).0;
        if lane >= delta {
            sum += other;
        }
    }
    if i < inp.len() {
        *out.add(i) = sum;
    }
}

// Wrong: a lane without another one adds its own value.
// Says: likely cause
#[kernel]
pub unsafe fn warp_scan_own(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    let lane = warp::lane_id();
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [1, 2, 4, 8, 16] {
        let other = warp::warp_shuffle_up(u32::MAX, sum, delta, 32).0;
        sum += other;
    }
    if i < inp.len() {
        *out.add(i) = sum;
    }
}

// Wrong: the shuffle is in the `if`.
// Says: mask
#[kernel]
pub unsafe fn warp_scan_in_if(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    let lane = warp::lane_id();
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [1, 2, 4, 8, 16] {
        if lane >= delta {
            sum += warp::warp_shuffle_up(u32::MAX, sum, delta, 32).0;
        }
    }
    if i < inp.len() {
        *out.add(i) = sum;
    }
}

// Wrong: the last step is missing.
// Says: in each warp, lanes from 16 to 31 are wrong
#[kernel]
pub unsafe fn warp_scan_steps(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    let lane = warp::lane_id();
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [1, 2, 4, 8] {
        let other = warp::warp_shuffle_up(u32::MAX, sum, delta, 32).0;
        if lane >= delta {
            sum += other;
        }
    }
    if i < inp.len() {
        *out.add(i) = sum;
    }
}

// Wrong: without the element itself.
// Says: likely cause
#[kernel]
pub unsafe fn warp_scan_exclusive(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    let lane = warp::lane_id();
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [1, 2, 4, 8, 16] {
        let other = warp::warp_shuffle_up(u32::MAX, sum, delta, 32).0;
        if lane >= delta {
            sum += other;
        }
    }
    if i < inp.len() {
        *out.add(i) = sum - inp[i];
    }
}

// Wrong: the wrong direction.
// Says: likely cause
#[kernel]
pub unsafe fn warp_scan_down(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    let lane = warp::lane_id();
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [1, 2, 4, 8, 16] {
        let other = warp::warp_shuffle_down(u32::MAX, sum, delta, 32).0;
        if lane + delta < 32 {
            sum += other;
        }
    }
    if i < inp.len() {
        *out.add(i) = sum;
    }
}
