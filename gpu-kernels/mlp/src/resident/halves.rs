//! Numbers as sums of two `f16`, and their products.
//!
//! A pixel of 0 to 255 is an `f16` as it stands: with zeros in its upper byte it is `pixel / 2^24`, a subnormal. The other
//! factor is split in two halves of 11 bits each, so that the products of both are exact except for a part in 2^22, and
//! their sums are those of `f32`. Numbers are scaled first, because the lower half would otherwise be too small for `f16`.

use cuda_std::half::{f16, f16x2_to_f32, f32_to_f16x2};
use cuda_std::mma::{FragmentA, FragmentB, FragmentC, mma_sync_tiles};

use crate::batch::PIXEL_SCALE;

/// The factor of the weights; weights over 1023 become infinite, and so do their results.
pub(super) const WEIGHTS: f32 = 64.0;

/// The factor of the gradients of both layers' sums; gradients over 63 become infinite.
pub(super) const GRADIENTS: f32 = 1024.0;

/// The factor of the first layer's units; units over 1023 become infinite.
pub(super) const OUTPUTS: f32 = 64.0;

/// Returns the factor that undoes the scale of a product of a pixel and a number that was multiplied by `scale`.
pub(super) const fn unscale(scale: f32) -> f32 {
    (1 << 24) as f32 * PIXEL_SCALE / scale
}

/// Returns the lane's group of four, and its place there.
#[inline(always)]
pub(super) const fn group_of(lane: usize) -> (usize, usize) {
    (lane / 4, lane % 4)
}

/// Returns the nearest pair of `f16`, and with two `HALVES` the pair nearest to the remainder.
#[inline(always)]
pub(super) fn split<const HALVES: usize>(pair: [f32; 2]) -> [u32; HALVES] {
    let upper = f32_to_f16x2(pair);
    let mut halves = [upper; HALVES];
    if HALVES == 2 {
        let rounded = f16x2_to_f32(upper);
        halves[HALVES - 1] = f32_to_f16x2([pair[0] - rounded[0], pair[1] - rounded[1]]);
    }
    halves
}

/// Returns four numbers as pairs of their halves, the upper one in the upper bits.
#[inline(always)]
pub(super) fn halves_of([a, b, c, d]: [f32; 4]) -> [u32; 4] {
    let of_pair = |pair| {
        let [upper, lower] = split::<2>(pair);
        [upper << 16 | lower & 0xffff, upper & 0xffff_0000 | lower >> 16]
    };
    let ([a, b], [c, d]) = (of_pair([a, b]), of_pair([c, d]));
    [a, b, c, d]
}

/// Returns the upper and the lower halves of [`halves_of`], each as two pairs.
#[inline(always)]
pub(super) fn upper_and_lower([a, b, c, d]: [u32; 4]) -> [[u32; 2]; 2] {
    let upper = |a: u32, b: u32| a >> 16 | b & 0xffff_0000;
    let lower = |a: u32, b: u32| a & 0xffff | b << 16;
    [[upper(a, b), upper(c, d)], [lower(a, b), lower(c, d)]]
}

/// Returns the fragment of the pixels in these registers, as `ldmatrix` loads bytes: upper and lower eight rows. If
/// transposed, each register holds a pair of features of two samples: eight samples and the next eight.
///
/// Of four adjacent features the first and the third come first: the order of [`feature_of`].
#[inline(always)]
pub(super) fn pixels([first, second]: [u32; 2], is_transposed: bool) -> FragmentA<f16> {
    let ([a, b], [c, d]) = (apart(first), apart(second));
    let registers = if is_transposed { [a, b, c, d] } else { [a, c, b, d] };
    FragmentA::from_registers(registers)
}

/// Returns the fragment of B of the pixels of eight samples: its columns are the samples, and its rows the features in the
/// order of [`pixels`].
#[inline(always)]
pub(super) fn pixel_columns(samples: u32) -> FragmentB<f16> {
    FragmentB::from_registers(apart(samples))
}

/// Returns the first and the third byte, and the second and the fourth, as pairs of 16 bits.
#[inline(always)]
fn apart(bytes: u32) -> [u32; 2] {
    #[cfg(target_arch = "nvptx64")]
    // One instruction for each. SAFETY: it only computes a number.
    return [0x4240, 0x4341]
        .map(|order| unsafe { cuda_std::intrinsics::byte_perm(bytes as i32, 0, order) as u32 });
    #[cfg(not(target_arch = "nvptx64"))]
    [bytes, bytes >> 8].map(|x| x & 0x00ff_00ff)
}

/// Returns the feature of a tile in a row of the transposed fragment.
#[inline(always)]
pub(super) const fn feature_of(row: usize) -> usize {
    2 * (row % 8) + row / 8
}

/// Returns the sum of the products with both halves.
#[inline(always)]
pub(super) fn join<const HALVES: usize>(products: &[FragmentC; HALVES]) -> [f32; 4] {
    let [upper, lower] = [products[0].0, products[HALVES - 1].0];
    if HALVES == 1 { upper } else { core::array::from_fn(|i| upper[i] + lower[i]) }
}

/// Returns the fragments of B of both halves, from the registers of each.
#[inline(always)]
pub(super) fn fragments<const HALVES: usize>(
    upper: [u32; HALVES],
    lower: [u32; HALVES],
) -> [FragmentB<f16>; HALVES] {
    core::array::from_fn(|half| FragmentB::from_registers([upper[half], lower[half]]))
}

/// Sums of products of halves: 16 rows of A with 8 columns of B. The products of both lower halves are omitted.
#[derive(Clone, Copy)]
pub(super) struct HalfProducts<const HALVES: usize> {
    /// Products with the upper halves of B: of the upper and of the lower halves of A.
    upper: [[FragmentC; 1]; HALVES],
    /// Products of the upper halves of A with the lower halves of B. With single halves, the products of every second part,
    /// so that they do not wait for the others.
    other: [[FragmentC; 1]; 1],
}

impl<const HALVES: usize> HalfProducts<HALVES> {
    pub const ZERO: Self = Self { upper: [[FragmentC::ZERO]; HALVES], other: [[FragmentC::ZERO]] };

    /// Adds the products of part number `part`: 16 more columns of A and rows of B.
    ///
    /// # Safety
    /// All lanes of the warp call this.
    #[inline(always)]
    pub unsafe fn add(&mut self, part: usize, a: [FragmentA<f16>; HALVES], b: [FragmentB<f16>; HALVES]) {
        // SAFETY: the caller's contract.
        unsafe {
            if HALVES == 2 {
                mma_sync_tiles(&a, &[b[0]], &mut self.upper);
                mma_sync_tiles(&[a[0]], &[b[HALVES - 1]], &mut self.other);
            } else if part.is_multiple_of(2) {
                mma_sync_tiles(&a, &[b[0]], &mut self.upper);
            } else {
                mma_sync_tiles(&[a[0]], &[b[0]], &mut self.other);
            }
        }
    }

    /// Returns the sums.
    #[inline(always)]
    pub fn sums(&self) -> [f32; 4] {
        let ([upper], [lower], [other]) = (self.upper[0], self.upper[HALVES - 1], self.other[0]);
        match HALVES {
            1 => core::array::from_fn(|i| upper.0[i] + other.0[i]),
            _ => core::array::from_fn(|i| upper.0[i] + (lower.0[i] + other.0[i])),
        }
    }
}
