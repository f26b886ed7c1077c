//! Products of matrices of `f32` on tensor cores.
//!
//! A number is the sum of two of 11 bits each, and what is left of it after those is less than a part in 2^21. Of the four
//! products of the halves that of both lower ones is as small, and left out. With one of two `HALVES` it is the upper ones'.

use cuda_std::mem::{f32x2, f32x4};
use cuda_std::mma::{FragmentA, FragmentB, FragmentC, mma_sync, mma_sync_tiles, tf32};

use super::extents::{MAX_ROWS, PITCH};

/// The lane's group of four, and its place there.
#[inline(always)]
pub(super) const fn group_of(lane: usize) -> (usize, usize) {
    (lane / 4, lane % 4)
}

/// Sums of products: 16 rows of A with 8 columns of B.
#[derive(Clone, Copy)]
pub(super) struct Products<const HALVES: usize> {
    /// With the upper halves of B: of the upper and of the lower ones of A.
    upper: [[FragmentC; 1]; HALVES],
    /// Of the upper halves of A with the lower ones of B.
    lower: FragmentC,
}

impl<const HALVES: usize> Products<HALVES> {
    pub const ZERO: Self = Self { upper: [[FragmentC::ZERO]; HALVES], lower: FragmentC::ZERO };

    /// Adds the products with 8 more columns of A and rows of B, of which the lane gives its elements in the order of
    /// `mma.sync.aligned.m16n8k8`.
    ///
    /// # Safety
    /// All lanes of the warp come here.
    #[inline(always)]
    pub unsafe fn add(&mut self, a: [f32; 4], b: [f32; 2]) {
        let a: [_; HALVES] = halves(a).map(FragmentA::<tf32>::from_registers);
        let b: [_; HALVES] = halves(b).map(FragmentB::<tf32>::from_registers);
        // SAFETY: the caller's.
        unsafe {
            mma_sync_tiles(&a, &[b[0]], &mut self.upper);
            if HALVES == 2 {
                self.lower = mma_sync(a[0], b[HALVES - 1], self.lower);
            }
        }
    }

    /// The sums.
    #[inline(always)]
    pub fn sums(&self) -> [f32; 4] {
        let ([upper], [lower]) = (self.upper[0], self.upper[HALVES - 1]);
        match HALVES {
            1 => upper.0,
            _ => core::array::from_fn(|i| upper.0[i] + (lower.0[i] + self.lower.0[i])),
        }
    }
}

/// The upper and the lower halves, of which a tensor core reads the upper 19 bits only; or the upper ones.
#[inline(always)]
fn halves<const N: usize, const HALVES: usize>(numbers: [f32; N]) -> [[u32; N]; HALVES] {
    let lower = numbers.map(|x| x - tf32::from_bits(x.to_bits()).to_f32());
    core::array::from_fn(|half| if half == 0 { numbers } else { lower }.map(f32::to_bits))
}

/// Of a matrix of [`MAX_ROWS`] rows of quads, [`PITCH`] apart, the product of columns of 8 quads from `quad` on, transposed, with a
/// matrix of 8 columns: those columns are the pair number `pair` of each quad, and the lane gets the two of the quad `quad + group`
/// with the columns `2 * place` and the next of the other matrix.
///
/// # Safety
/// All lanes of the warp come here, and `matrix` holds the rows. `other(row)` is the element of column `group` of the other
/// one.
#[inline(always)]
pub(super) unsafe fn columns<const HALVES: usize>(
    lane: usize,
    matrix: *const f32x4,
    (quad, pair): (usize, usize),
    other: impl Fn(usize) -> f32,
) -> [[f32; 2]; 2] {
    let (group, place) = group_of(lane);
    let mut products = Products::<HALVES>::ZERO;
    let factors: [_; MAX_ROWS / 8] = core::array::from_fn(|part| {
        let rows = [8 * part + place, 8 * part + 4 + place];
        let of_row = |row: usize| {
            let quad = matrix.wrapping_add(row * PITCH + quad + group);
            // SAFETY: the caller's.
            unsafe { (*quad.cast::<f32x2>().add(pair)).to_array() }
        };
        (of_row(rows[0]), of_row(rows[1]), rows.map(&other))
    });
    for part in 0..MAX_ROWS / 8 {
        let (a, b, other) = factors[part];
        // SAFETY: the caller's.
        unsafe { products.add([a[0], a[1], b[0], b[1]], other) };
    }
    let [a, b, c, d] = products.sums();
    [[a, c], [b, d]]
}
