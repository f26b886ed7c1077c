//! The matrix multiplications of a row, for a single thread. They are separate functions because a compiler vectorises
//! them only if nothing else is in the way.

use cuda_std::GpuFloat as _;

use super::{MAX_CLASSES, sum_of_products};

/// Returns the weights of feature `k`. After the last class come the weights of later features if one load can read them,
/// otherwise 0; neither counts.
///
/// # Safety
/// `weights` is `[inputs, classes]`, and the feature exists.
#[inline(always)]
unsafe fn weights_of(weights: *const f32, [inputs, classes]: [usize; 2], k: usize) -> [f32; MAX_CLASSES] {
    let first = weights.wrapping_add(k * classes);
    // SAFETY: the elements lie in the shape.
    unsafe {
        if k * classes + MAX_CLASSES <= inputs * classes {
            return first.cast::<[f32; MAX_CLASSES]>().read();
        }
        core::array::from_fn(|c| if c < classes { *first.add(c) } else { 0.0 })
    }
}

/// Returns the sums of a row's features times their weights; the elements after the last class are meaningless.
///
/// # Safety
/// `inp` is `[inputs]`, `weights` `[inputs, classes]`.
#[inline(never)]
pub unsafe fn sums(
    inp: *const f32,
    weights: *const f32,
    shape @ [inputs, _]: [usize; 2],
) -> [f32; MAX_CLASSES] {
    let mut sums = [0.0; MAX_CLASSES];
    for k in 0..inputs {
        // SAFETY: the feature lies in the shapes.
        let (x, weights) = unsafe { (*inp.add(k), weights_of(weights, shape, k)) };
        (0..MAX_CLASSES).for_each(|c| sums[c] = x.mul_add(weights[c], sums[c]));
    }
    sums
}

/// Computes the gradient of a row's features, 0 where they are not positive. `d_logits` is 0 after the last class.
///
/// # Safety
/// `d_inp` and `inp` are `[inputs]`, `weights` `[inputs, classes]`; no other code uses `d_inp`.
#[inline(never)]
pub unsafe fn input_gradients(
    d_inp: *mut f32,
    inp: *const f32,
    weights: *const f32,
    shape @ [inputs, _]: [usize; 2],
    d_logits: &[f32; MAX_CLASSES],
) {
    for k in 0..inputs {
        // SAFETY: the feature lies in the shapes.
        unsafe {
            let sum = sum_of_products(d_logits, &weights_of(weights, shape, k));
            *d_inp.add(k) = if *inp.add(k) > 0.0 { sum } else { 0.0 };
        }
    }
}
