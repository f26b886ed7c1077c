// Hint: Let the first half of all threads have the even elements: there are `n.div_ceil(2)` of them.
// Hint: Thread `t` has element `2 * t` in the first half, and `2 * (t - half) + 1` in the second.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn divergence_solution(data: *mut u32, n: u32, rounds: u32) {
    let (t, half) = (thread::index_1d(), n.div_ceil(2));
    let i = if t < half { 2 * t } else { 2 * (t - half) + 1 };
    if i < n {
        let mut x = *data.add(i as usize);
        if i % 2 == 0 {
            for _ in 0..rounds {
                x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            }
        } else {
            x = x.wrapping_add(1);
        }
        *data.add(i as usize) = x;
    }
}

// Wrong: even and odd lanes.
// Says: not good yet; branches at which a warp diverges; 0 are enough
#[kernel]
pub unsafe fn divergence_lanes(data: *mut u32, n: u32, rounds: u32) {
    let i = thread::index_1d();
    if i < n {
        let mut x = *data.add(i as usize);
        if i % 2 == 0 {
            for _ in 0..rounds {
                x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            }
        } else {
            x = x.wrapping_add(1);
        }
        *data.add(i as usize) = x;
    }
}

// Wrong: half of an odd number, rounded down.
// Says: elements of `data` are wrong
#[kernel]
pub unsafe fn divergence_rounding(data: *mut u32, n: u32, rounds: u32) {
    let (t, half) = (thread::index_1d(), n / 2);
    let i = if t < half { 2 * t } else { 2 * (t - half) + 1 };
    if i < n {
        let mut x = *data.add(i as usize);
        if i % 2 == 0 {
            for _ in 0..rounds {
                x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            }
        } else {
            x = x.wrapping_add(1);
        }
        *data.add(i as usize) = x;
    }
}

// Wrong: only the even elements.
// Says: no thread changed it
#[kernel]
pub unsafe fn divergence_even(data: *mut u32, n: u32, rounds: u32) {
    let i = 2 * thread::index_1d();
    if i < n {
        let mut x = *data.add(i as usize);
        for _ in 0..rounds {
            x = x.wrapping_mul(1664525).wrapping_add(1013904223);
        }
        *data.add(i as usize) = x;
    }
}

// Wrong: all threads run the loop, and half of them for nothing.
// Says: not good yet; instructions of all warps
#[kernel]
pub unsafe fn divergence_both(data: *mut u32, n: u32, rounds: u32) {
    let i = thread::index_1d();
    if i < n {
        let x = *data.add(i as usize);
        let mut y = x;
        for _ in 0..rounds {
            y = y.wrapping_mul(1664525).wrapping_add(1013904223);
        }
        *data.add(i as usize) = if i % 2 == 0 { y } else { x.wrapping_add(1) };
    }
}
