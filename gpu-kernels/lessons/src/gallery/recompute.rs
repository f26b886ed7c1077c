//! Three sigmoids, one after the other, forward and backward: the backward pass needs results stored or recomputed.
//!
//! If they are stored, the forward pass writes three results for one that it reads, and the backward pass reads three: 8
//! accesses to memory per element. If they are computed again there are 5, for three more exponentials, which cost no time.
//@ ptx(recompute_forward_stored): ld.global.v4 == 1, st.global.v4 == 3, .local == 0
//@ ptx(recompute_backward_stored): ld.global.v4 == 3, st.global.v4 == 1, .local == 0
//@ ptx(recompute_forward): ld.global.v4 == 1, st.global.v4 == 1, .local == 0
//@ ptx(recompute_backward): ld.global.v4 == 2, st.global.v4 == 1, .local == 0

use super::elementwise::map;
use cuda_std::mem::{f32x4, load_global, store_global};
use cuda_std::{GpuFloat as _, kernel, thread};

lesson! { buffers(out: f32, s1: f32, s2: f32, x: f32, d_out: f32, d_x: f32) values(len: u32) }

/// The rungs, each the kernels of the forward and of the backward pass.
#[cfg(not(target_arch = "nvptx64"))]
pub const RUNGS: &[super::Sequence<&cuda_std::launch::Instance<Arguments, Grid>>] = &[
    super::Sequence {
        name: "stored",
        idea: "the first two sigmoids are stored for the backward pass",
        steps: &[&recompute_forward_stored::INSTANCES[0], &recompute_backward_stored::INSTANCES[0]],
    },
    super::Sequence {
        name: "recomputed",
        idea: "the backward pass computes them again",
        steps: &[&recompute_forward::INSTANCES[0], &recompute_backward::INSTANCES[0]],
    },
];

/// `1 / (1 + exp(-x))`.
#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Returns the gradient before three sigmoids from the gradient after them; `s1` and `s2` are the first two.
#[inline(always)]
fn backward(s1: f32, s2: f32, d_out: f32) -> f32 {
    let s3 = sigmoid(s2);
    d_out * s3 * (1.0 - s3) * s2 * (1.0 - s2) * s1 * (1.0 - s1)
}

/// `s1 = sigmoid(x)`, `s2 = sigmoid(s1)`, `out = sigmoid(s2)`.
///
/// Launched with at least `len / 4`, rounded up, threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; the arrays hold `len` elements and begin at a multiple of 16 bytes; no other code uses the
/// elements of `out`, `s1` and `s2`.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 4>())]
pub unsafe fn recompute_forward_stored(out: *mut f32, s1: *mut f32, s2: *mut f32, x: *const f32, len: u32) {
    let (i, len) = (4 * thread::index_1d() as usize, len as usize);
    if i + 4 <= len {
        // SAFETY: four elements from `i`, which is a multiple of four, and only this thread writes them.
        unsafe {
            let first = load_global(x.add(i).cast::<f32x4>()).to_array().map(sigmoid);
            let second = first.map(sigmoid);
            for (to, [a, b, c, d]) in [(s1, first), (s2, second), (out, second.map(sigmoid))] {
                store_global(to.add(i).cast(), f32x4::new(a, b, c, d));
            }
        }
    } else {
        for i in i..len {
            // SAFETY: `i` lies in all of them, and only this thread writes the elements.
            unsafe {
                *s1.add(i) = sigmoid(*x.add(i));
                *s2.add(i) = sigmoid(*s1.add(i));
                *out.add(i) = sigmoid(*s2.add(i));
            }
        }
    }
}

/// Computes `d_x` from `d_out` and what [`recompute_forward_stored`](fn@recompute_forward_stored) has stored.
///
/// Launched with at least `len / 4`, rounded up, threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; the arrays hold `len` elements and begin at a multiple of 16 bytes; no other code uses the
/// elements of `d_x`.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 4>())]
pub unsafe fn recompute_backward_stored(
    d_x: *mut f32,
    s1: *const f32,
    s2: *const f32,
    d_out: *const f32,
    len: u32,
) {
    // SAFETY: the vectors have `len` elements.
    unsafe { map(d_x, [s1, s2, d_out], len, |[s1, s2, d_out]| backward(s1, s2, d_out)) }
}

/// `out = sigmoid(sigmoid(sigmoid(x)))`.
///
/// Launched with at least `len / 4`, rounded up, threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; the arrays hold `len` elements and begin at a multiple of 16 bytes; no other code uses the
/// elements of `out`.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 4>())]
pub unsafe fn recompute_forward(out: *mut f32, x: *const f32, len: u32) {
    // SAFETY: the vectors have `len` elements.
    unsafe { map(out, [x], len, |[x]| sigmoid(sigmoid(sigmoid(x)))) }
}

/// Computes `d_x` from `d_out` and `x`, with the sigmoids computed again.
///
/// Launched with at least `len / 4`, rounded up, threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; the arrays hold `len` elements and begin at a multiple of 16 bytes; no other code uses the
/// elements of `d_x`.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 4>())]
pub unsafe fn recompute_backward(d_x: *mut f32, x: *const f32, d_out: *const f32, len: u32) {
    let f = |[x, d_out]: [f32; 2]| {
        let s1 = sigmoid(x);
        backward(s1, sigmoid(s1), d_out)
    };
    // SAFETY: the vectors have `len` elements.
    unsafe { map(d_x, [x, d_out], len, f) }
}
