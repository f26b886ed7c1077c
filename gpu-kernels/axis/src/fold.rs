//! How two elements, or the results of two parts, are combined.

use cuda_std::float::maximum;
use cuda_std::mem::{load_global_nc, u32x4};

use common_kernels::element::Number;

/// Returns the start value of a fold.
#[inline(always)]
pub(super) const fn neutral(is_sum: bool) -> f32 {
    if is_sum { 0.0 } else { f32::NEG_INFINITY }
}

/// Returns the sum, or the larger number; if one of them is NaN, NaN.
#[inline(always)]
pub(super) fn combine(is_sum: bool, a: f32, b: f32) -> f32 {
    if is_sum { a + b } else { maximum(a, b) }
}

/// Combines all elements of an array, as a tree.
#[inline(always)]
pub(super) fn combine_all<const N: usize>(is_sum: bool, mut all: [f32; N]) -> f32 {
    let mut distance = N / 2;
    while distance > 0 {
        for i in 0..distance {
            all[i] = combine(is_sum, all[i], all[i + distance]);
        }
        distance /= 2;
    }
    all[0]
}

/// Combines `count` results in shared memory that are `step` apart. Eight are read at the same time.
///
/// # Safety
/// The results exist, and no thread writes them.
#[inline(always)]
pub(super) unsafe fn combine_shared(is_sum: bool, first: *const f32, [count, step]: [u32; 2]) -> f32 {
    let mut all = neutral(is_sum);
    for at in (0..count).step_by(8) {
        // SAFETY: one of the results.
        let read = |i| if i < count { unsafe { *first.add((i * step) as usize) } } else { neutral(is_sum) };
        let loaded: [f32; 8] = core::array::from_fn(|i| read(at + i as u32));
        all = combine(is_sum, all, combine_all(is_sum, loaded));
    }
    all
}

/// Loads 16 bytes of a matrix.
///
/// # Safety
/// `ptr` is a multiple of 16 and points to 16 bytes that no code writes during the launch.
#[inline(always)]
pub(super) unsafe fn load<T>(ptr: *const T) -> u32x4 {
    // SAFETY: `ptr` is aligned and points to a vector that no code writes.
    unsafe { load_global_nc(ptr.cast()) }
}

/// Writes a result to `out[at]` and `full[at]`, where these are not null.
///
/// # Safety
/// Each pointer that is not null has an element `at` that no other code uses.
#[inline(always)]
pub(super) unsafe fn write<T: Number>(out: *mut T, full: *mut f32, at: usize, result: f32) {
    // SAFETY: a pointer that is not null has the element, which no other code uses.
    unsafe {
        if !out.is_null() {
            *out.add(at) = T::from_f32(result);
        }
        if !full.is_null() {
            *full.add(at) = result;
        }
    }
}
