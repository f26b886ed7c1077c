//! How two elements, or the results of two parts, are combined.

use cuda_std::float::maximum;
use cuda_std::mem::{load_global_nc, u32x4};

use common_kernels::element::{Number, VECTOR_ALIGN};

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

/// Loads 16 bytes of a matrix.
///
/// # Safety
/// `ptr` is a multiple of 16 and points to 16 bytes that no code writes during the launch.
#[inline(always)]
pub(super) unsafe fn load<T>(ptr: *const T) -> u32x4 {
    // SAFETY: `ptr` is aligned and points to a vector that no code writes.
    unsafe { load_global_nc(ptr.cast()) }
}

/// The vector that holds the first of `N` elements, the next one, and the first element's place in them, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Unaligned {
    vectors: [u32x4; 2],
    skip: u32,
}

impl Unaligned {
    /// No elements.
    pub const NONE: Self = Self { vectors: [u32x4::splat(0); 2], skip: 0 };

    /// Loads the elements from `ptr` on, wherever that is in its vector.
    ///
    /// # Safety
    /// The `N - 1` elements before `ptr` and the `2 N` elements from it on are in memory that no code writes during the launch.
    #[inline(always)]
    pub unsafe fn load<T>(ptr: *const T) -> Self {
        let skip = ptr.addr() % VECTOR_ALIGN;
        let first = ptr.wrapping_byte_sub(skip).cast::<u32x4>();
        // SAFETY: two vectors of that memory.
        let vectors = unsafe { [load(first), if skip > 0 { load(first.add(1)) } else { u32x4::splat(0) }] };
        Self { vectors, skip: skip as u32 }
    }

    /// Loads the first `len` elements from `ptr` on one by one. The others are zeros.
    ///
    /// # Safety
    /// The elements exist, and no code writes them.
    #[inline(always)]
    pub unsafe fn gather<T, const N: usize>(ptr: *const T, len: usize) -> Self {
        // SAFETY: the caller's promise.
        Self { vectors: [unsafe { gather::<T, N>(ptr, |j| j < len) }, u32x4::splat(0)], skip: 0 }
    }

    /// Returns the elements.
    #[inline(always)]
    pub fn vector<T>(self) -> u32x4 {
        let [[a, b, c, d], [e, f, g, h]] = self.vectors.map(u32x4::to_array);
        let mut words = [a, b, c, d, e, f, g, h];
        for distance in [2, 1] {
            if self.skip & (4 * distance as u32) != 0 {
                words = core::array::from_fn(|i| words[(i + distance) % 8]);
            }
        }
        if size_of::<T>() < 4 && self.skip & 2 != 0 {
            words = core::array::from_fn(|i| words[i] >> 16 | words[(i + 1) % 8] << 16);
        }
        let [a, b, c, d, ..] = words;
        u32x4::new(a, b, c, d)
    }
}

/// Returns a vector of those of the `N` elements from `ptr` on that are there, and zeros in place of the others.
///
/// # Safety
/// The elements that are there exist, and no code writes them.
#[inline(always)]
pub(super) unsafe fn gather<T, const N: usize>(ptr: *const T, is_there: impl Fn(usize) -> bool) -> u32x4 {
    let mut words = [0; 4];
    for j in 0..N {
        if is_there(j) {
            // SAFETY: an element of 2 or 4 bytes that exists.
            words[j * 4 / N] |= unsafe {
                match size_of::<T>() {
                    2 => u32::from(*ptr.cast::<u16>().wrapping_add(j)) << (16 * (j % 2)),
                    _ => *ptr.cast::<u32>().wrapping_add(j),
                }
            };
        }
    }
    u32x4::from(words)
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
