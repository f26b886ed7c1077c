// Hint: A thread may load a vector if all four elements exist: `first + 4 <= n`.
// Hint: Otherwise it loads the elements from `first` to `n`, in a loop that may be empty.
// Hint: `*out.add(first).cast() = f32x4::new(2.0 * v.x, ..)` stores a vector.

use cuda_std::mem::f32x4;
use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn vector_load_solution(out: *mut f32, inp: *const f32, n: u32) {
    let (first, n) = (4 * thread::index_1d() as usize, n as usize);
    if first + 4 <= n {
        let v = *inp.add(first).cast::<f32x4>();
        *out.add(first).cast() = f32x4::new(2.0 * v.x, 2.0 * v.y, 2.0 * v.z, 2.0 * v.w);
    } else {
        for i in first..n {
            *out.add(i) = 2.0 * *inp.add(i);
        }
    }
}

// Wrong: four loads of 4 bytes.
// Says: not good yet; requests to load; 32 are enough
#[kernel]
pub unsafe fn vector_load_scalar(out: *mut f32, inp: *const f32, n: u32) {
    let (first, n) = (4 * thread::index_1d() as usize, n as usize);
    for i in first..n.min(first + 4) {
        *out.add(i) = 2.0 * *inp.add(i);
    }
}

// Wrong: without the last elements.
// Says: no thread wrote it
#[kernel]
pub unsafe fn vector_load_no_rest(out: *mut f32, inp: *const f32, n: u32) {
    let (first, n) = (4 * thread::index_1d() as usize, n as usize);
    if first + 4 <= n {
        let v = *inp.add(first).cast::<f32x4>();
        *out.add(first).cast() = f32x4::new(2.0 * v.x, 2.0 * v.y, 2.0 * v.z, 2.0 * v.w);
    }
}

// Wrong: a vector beyond the end.
// Says: 16 bytes from inp[; compare the index of the last
#[kernel]
pub unsafe fn vector_load_beyond(out: *mut f32, inp: *const f32, n: u32) {
    let (first, n) = (4 * thread::index_1d() as usize, n as usize);
    if first < n {
        let v = *inp.add(first).cast::<f32x4>();
        *out.add(first).cast() = f32x4::new(2.0 * v.x, 2.0 * v.y, 2.0 * v.z, 2.0 * v.w);
    }
}

// Wrong: vectors that overlap.
// Says: multiple of 16
#[kernel]
pub unsafe fn vector_load_misaligned(out: *mut f32, inp: *const f32, n: u32) {
    let (first, n) = (thread::index_1d() as usize, n as usize);
    if first + 4 <= n {
        let v = *inp.add(first).cast::<f32x4>();
        *out.add(first).cast() = f32x4::new(2.0 * v.x, 2.0 * v.y, 2.0 * v.z, 2.0 * v.w);
    } else if first < n {
        *out.add(first) = 2.0 * *inp.add(first);
    }
}
