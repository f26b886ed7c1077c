//! Numbers as sums of two of `f16`, and products of such.
//!
//! A pixel of 0 to 255 is one number of `f16` as it stands: with zeros in its upper byte it is `pixel / 2^24`, a subnormal.
//! What it is multiplied by is split in two halves of 11 bits each, so that the products of both are exact but for a part in
//! 2^22, and their sums are those of `f32`. Numbers are scaled first: the lower half would else be too small for `f16`.

use cuda_std::half::{f16, f16x2_to_f32, f32_to_f16x2};
use cuda_std::mma::{FragmentA, FragmentB, FragmentC, mma_sync_tiles};

use crate::mlp::batch::PIXEL_SCALE;

/// By what the weights are multiplied: those over 1023 are infinite, and so is what comes of them.
pub(super) const WEIGHTS: f32 = 64.0;

/// By what the gradients at the sums of both layers are multiplied: those over 63 are infinite.
pub(super) const GRADIENTS: f32 = 1024.0;

/// By what the first layer's units are multiplied: those over 1023 are infinite.
pub(super) const OUTPUTS: f32 = 64.0;

/// What a product of a pixel and a number that was multiplied by `scale` is multiplied by.
pub(super) const fn unscale(scale: f32) -> f32 {
    (1 << 24) as f32 * PIXEL_SCALE / scale
}

/// The lane's group of four, and its place there.
#[inline(always)]
pub(super) const fn group_of(lane: usize) -> (usize, usize) {
    (lane / 4, lane % 4)
}

/// The nearest pair of `f16`, and with two `HALVES` that nearest to what remains.
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

/// The fragment of the pixels in these registers, as `ldmatrix` gives them of bytes: upper and lower eight rows. Or of the
/// transposed ones, where a register holds a pair of features of two samples: eight samples and the next eight.
///
/// Of four features beside each other the first and the third come first: that is the order of
/// [`feature_of`].
#[inline(always)]
pub(super) fn pixels([first, second]: [u32; 2], is_transposed: bool) -> FragmentA<f16> {
    let ([a, b], [c, d]) = (apart(first), apart(second));
    let registers = if is_transposed { [a, b, c, d] } else { [a, c, b, d] };
    FragmentA::from_registers(registers)
}

/// The fragment of B of the pixels of eight samples: its columns are the samples, and its rows the features in the order of
/// [`pixels`].
#[inline(always)]
pub(super) fn pixel_columns(samples: u32) -> FragmentB<f16> {
    FragmentB::from_registers(apart(samples))
}

/// The first and the third byte, and the second and the fourth one, as pairs of 16 bits.
#[inline(always)]
fn apart(bytes: u32) -> [u32; 2] {
    #[cfg(target_arch = "nvptx64")]
    // One instruction for each. SAFETY: it only computes a number.
    return [0x4240, 0x4341]
        .map(|order| unsafe { cuda_std::intrinsics::byte_perm(bytes as i32, 0, order) as u32 });
    #[cfg(not(target_arch = "nvptx64"))]
    [bytes, bytes >> 8].map(|x| x & 0x00ff_00ff)
}

/// The feature of a tile that a row of the transposed fragment stands for.
#[inline(always)]
pub(super) const fn feature_of(row: usize) -> usize {
    2 * (row % 8) + row / 8
}

/// The sum of the products with both halves.
#[inline(always)]
pub(super) fn join<const HALVES: usize>(products: &[FragmentC; HALVES]) -> [f32; 4] {
    let [upper, lower] = [products[0].0, products[HALVES - 1].0];
    if HALVES == 1 { upper } else { core::array::from_fn(|i| upper[i] + lower[i]) }
}

/// Fragments of B of both halves, from the registers of each.
#[inline(always)]
pub(super) fn fragments<const HALVES: usize>(
    upper: [u32; HALVES],
    lower: [u32; HALVES],
) -> [FragmentB<f16>; HALVES] {
    core::array::from_fn(|half| FragmentB::from_registers([upper[half], lower[half]]))
}

/// Sums of products of halves: 16 rows of A with 8 columns of B. The products of both lower halves are left out.
#[derive(Clone, Copy)]
pub(super) struct HalfProducts<const HALVES: usize> {
    /// With the upper halves of B: of the upper and of the lower ones of A.
    upper: [[FragmentC; 1]; HALVES],
    /// Of the upper halves of A with the lower ones of B; of single halves the products of every second part, so that they do not
    /// wait for the others.
    other: [[FragmentC; 1]; 1],
}

impl<const HALVES: usize> HalfProducts<HALVES> {
    pub const ZERO: Self = Self { upper: [[FragmentC::ZERO]; HALVES], other: [[FragmentC::ZERO]] };

    /// Adds the products of part number `part`: 16 more columns of A and rows of B.
    ///
    /// # Safety
    /// All lanes of the warp come here.
    #[inline(always)]
    pub unsafe fn add(&mut self, part: usize, a: [FragmentA<f16>; HALVES], b: [FragmentB<f16>; HALVES]) {
        // SAFETY: the caller's.
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

    /// The sums.
    #[inline(always)]
    pub fn sums(&self) -> [f32; 4] {
        let ([upper], [lower], [other]) = (self.upper[0], self.upper[HALVES - 1], self.other[0]);
        match HALVES {
            1 => core::array::from_fn(|i| upper.0[i] + other.0[i]),
            _ => core::array::from_fn(|i| upper.0[i] + (lower.0[i] + other.0[i])),
        }
    }
}
