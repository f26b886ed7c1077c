//! Vectors of elements that do not start at a multiple of 16 bytes.

use cuda_std::hint::opaque;
use cuda_std::mem::u32x4;

use super::element::VECTOR_ALIGN;

/// The vector that holds the first of `N` elements, the next one, and the first element's place in them, in bytes.
#[derive(Clone, Copy)]
pub struct Unaligned {
    vectors: [u32x4; 2],
    skip: u32,
}

impl Unaligned {
    /// No elements.
    pub const NONE: Self = Self { vectors: [u32x4::splat(0); 2], skip: 0 };

    /// The elements from byte `skip` of the first vector on, less than 16.
    #[inline(always)]
    pub fn new(vectors: [u32x4; 2], skip: u32) -> Self {
        Self { vectors, skip }
    }

    /// Loads the elements from `ptr` on, wherever that is in its vector. `load` loads a vector.
    /// Those with some of the `N` elements lie within the `N - 1` elements before `ptr` and the `2 N` elements from it on.
    #[inline(always)]
    pub fn load<T>(ptr: *const T, load: impl Fn(*const u32x4) -> u32x4) -> Self {
        let skip = ptr.addr() % VECTOR_ALIGN;
        let first = ptr.wrapping_byte_sub(skip).cast::<u32x4>();
        let after = if skip > 0 { load(first.wrapping_add(1)) } else { u32x4::splat(0) };
        let vectors = [load(first), after];
        Self { vectors, skip: skip as u32 }
    }

    /// Loads the first `len` elements from `ptr` on one by one. The others are zeros.
    ///
    /// # Safety
    /// The elements exist, and no code writes them.
    #[inline(always)]
    pub unsafe fn gather<T, const N: usize>(ptr: *const T, len: usize) -> Self {
        // SAFETY: the caller's promise.
        Self { vectors: [unsafe { gather::<T, N, 4>(ptr, [0, len.min(N)]) }, u32x4::splat(0)], skip: 0 }
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

/// Returns a vector with elements `first` to `end` of the `N` elements from `ptr` on, and zeros in place of the others. `COUNT`
/// loads, four or `N`, are in flight at the same time: it loads the first or the last element again where there is none.
///
/// # Safety
/// These elements exist, and no code writes them.
#[inline(always)]
pub unsafe fn gather<T, const N: usize, const COUNT: usize>(
    ptr: *const T,
    [first, end]: [usize; 2],
) -> u32x4 {
    let (mut words, mut from) = ([0; 4], 0);
    while first < end && from < N {
        let loaded: [u32; COUNT] = core::array::from_fn(|j| {
            let at = from + j;
            let existing = if at < first { first } else { at.min(end - 1) };
            // SAFETY: an element of 2 or 4 bytes that exists.
            let element = unsafe {
                match size_of::<T>() {
                    2 => u32::from(*ptr.cast::<u16>().wrapping_add(existing)),
                    _ => *ptr.cast::<u32>().wrapping_add(existing),
                }
            };
            if at == existing { element } else { 0 }
        });
        for j in (0..COUNT).step_by(N / 4) {
            let [_, b, c, d] = words;
            words = [b, c, d, if N == 8 { loaded[j] | loaded[j + 1] << 16 } else { loaded[j] }];
        }
        // More loads at the same time would take registers that other warps need.
        from = if COUNT < N { opaque(from + COUNT) } else { N };
    }
    u32x4::from(words)
}
