// Hint: Number `i` of `inp` belongs to point `i / 3`, and is its x, y or z: `i % 3`.
// Hint: All numbers with the same `i % 3` are together in `out`, in an array that begins at `i % 3 * n`.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn soa_solution(out: *mut f32, inp: *const f32, n: u32) {
    let i = thread::index_1d();
    if i < 3 * n {
        *out.add((i % 3 * n + i / 3) as usize) = *inp.add(i as usize);
    }
}

// Wrong: a thread per point.
// Says: not good yet; sectors per load; 4 are enough
#[kernel]
pub unsafe fn soa_points(out: *mut f32, inp: *const f32, n: u32) {
    let i = thread::index_1d();
    if i < n {
        for k in 0..3 {
            *out.add((k * n + i) as usize) = *inp.add((3 * i + k) as usize);
        }
    }
}

// Wrong: the way back.
// Says: likely cause
#[kernel]
pub unsafe fn soa_inverse(out: *mut f32, inp: *const f32, n: u32) {
    let i = thread::index_1d();
    if i < 3 * n {
        *out.add((i % n * 3 + i / n) as usize) = *inp.add(i as usize);
    }
}

// Wrong: a guard for the points.
// Says: no thread wrote it
#[kernel]
pub unsafe fn soa_third(out: *mut f32, inp: *const f32, n: u32) {
    let i = thread::index_1d();
    if i < n {
        *out.add((i % 3 * n + i / 3) as usize) = *inp.add(i as usize);
    }
}
