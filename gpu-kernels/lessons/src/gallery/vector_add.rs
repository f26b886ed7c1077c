//! Vector addition: everybody's first kernel.
//!
//! Every addition moves 12 bytes, so only memory matters: the second rung loads 16 bytes at a time.
//@ ptx(vector_add_scalar): ld.global.b32 == 2, st.global.b32 == 1, .local == 0
//@ ptx(vector_add_vec4): ld.global.v4 == 2, st.global.v4 == 1, .local == 0

use cuda_std::mem::{f32x4, load_global, store_global};
use cuda_std::{kernel, thread};

lesson! {
    buffers(out: f32, a: f32, b: f32)
    values(len: u32)
    facts(Grid)
    "scalar" = vector_add_scalar[0]: "a thread adds one pair";
    "vec4" = vector_add_vec4[0]: "a thread adds four, 16 bytes an access";
}

/// `out[i] = a[i] + b[i]`, one thread per element.
///
/// Launched with at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; the three hold `len` elements, and no other code uses the elements of `out`.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn vector_add_scalar(out: *mut f32, a: *const f32, b: *const f32, len: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        // SAFETY: `i` lies in all three, and only this thread writes the element.
        unsafe { *out.add(i) = *a.add(i) + *b.add(i) };
    }
}

/// `out[i] = a[i] + b[i]`, four elements per thread. One thread takes the elements after the last four.
///
/// Launched with at least `len / 4`, rounded up, threads along x, in blocks of 256.
///
/// # Safety
/// Same as for [`vector_add_scalar`](fn@vector_add_scalar); all three begin at a multiple of 16 bytes.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 4>())]
pub unsafe fn vector_add_vec4(out: *mut f32, a: *const f32, b: *const f32, len: u32) {
    let (i, len) = (4 * thread::index_1d() as usize, len as usize);
    if i + 4 <= len {
        // SAFETY: four elements from `i`, which is a multiple of four, and only this thread writes them.
        unsafe {
            let (x, y) = (load_global(a.add(i).cast::<f32x4>()), load_global(b.add(i).cast::<f32x4>()));
            store_global(out.add(i).cast(), f32x4::new(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w));
        }
    } else {
        for i in i..len {
            // SAFETY: `i` lies in all three, and only this thread writes the element.
            unsafe { *out.add(i) = *a.add(i) + *b.add(i) };
        }
    }
}
