//! The noise of a draw: the same numbers on every device, and no state.

use cuda_std::GpuFloat as _;

/// 4 random words for each counter and key: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
/// 1, 2, 3" (SC 2011), section 4.3.
#[inline(always)]
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut a, mut b, mut c, mut d], [mut k0, mut k1]) = (counter, key);
    for _ in 0..10 {
        let (p, q) = (u64::from(a) * 0xd251_1f53, u64::from(c) * 0xcd9e_8d57);
        [a, b, c, d] = [(q >> 32) as u32 ^ b ^ k0, q as u32, (p >> 32) as u32 ^ d ^ k1, p as u32];
        (k0, k1) = (k0.wrapping_add(0x9e37_79b9), k1.wrapping_add(0xbb67_ae85));
    }
    [a, b, c, d]
}

/// The noise of a row's columns in a draw. The key is the seed; column `col` has word `col % 4` of the counter
/// (`col / 4`, row, draw's lower half, its upper half).
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    /// The key.
    pub seed: u64,
    /// The number of the draw.
    pub draw: u64,
    /// The row.
    pub row: u32,
}

impl Noise {
    /// No noise is less.
    pub const LEAST: f32 = -3.0;

    /// No noise is more.
    pub const MOST: f32 = 23.0;

    /// The words of `4 * group` and the three columns after it.
    #[inline(always)]
    pub fn four(&self, group: u32) -> [u32; 4] {
        let Self { seed, draw, row } = *self;
        let counter = [group, row, draw as u32, (draw >> 32) as u32];
        philox4x32_10(counter, [seed as u32, (seed >> 32) as u32])
    }

    /// The words of `N` columns from `col` on; `N` is a multiple of 4.
    #[inline(always)]
    pub fn words<const N: usize>(&self, col: usize) -> [u32; N] {
        let (first, shift) = ((col / 4) as u32, col % 4);
        let mut words = [0; N];
        if shift == 0 {
            for i in 0..N / 4 {
                let four = self.four(first + i as u32);
                (0..4).for_each(|j| words[4 * i + j] = four[j]);
            }
            return words;
        }
        let [_, mut b, mut c, mut d] = self.four(first);
        for i in 0..N / 4 {
            let [e, f, g, h] = self.four(first + 1 + i as u32);
            let four = match shift {
                1 => [b, c, d, e],
                2 => [c, d, e, f],
                _ => [d, e, f, g],
            };
            (0..4).for_each(|j| words[4 * i + j] = four[j]);
            (b, c, d) = (f, g, h);
        }
        words
    }

    /// The number in (0, 1) of a word: `(word + 1/2) / 2^32` as `f32`, and never 1. Small ones, which make large noise, are exact.
    #[inline(always)]
    pub fn uniform(word: u32) -> f32 {
        ((word as f32 + 0.5) * (1.0 / 4_294_967_296.0)).min(1.0 - f32::EPSILON / 2.0)
    }

    /// The noise of a word, of the standard Gumbel distribution: `-ln(-ln(1 - u))`.
    #[inline(always)]
    pub fn of(word: u32) -> f32 {
        -(-(-Self::uniform(word)).ln_1p()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of Random123's file `kat_vectors`.
    #[test]
    fn words_are_those_of_the_paper_s_authors() {
        for (counter, key, words) in [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ] {
            assert_eq!(philox4x32_10(counter, key), words);
        }
    }

    #[test]
    fn columns_have_their_words_wherever_a_vector_begins() {
        let noise = Noise { seed: 1 << 40 | 5, draw: 3 << 33 | 1, row: 9 };
        let word = |col: usize| noise.four((col / 4) as u32)[col % 4];
        for col in 0..9 {
            assert_eq!(noise.words::<4>(col), core::array::from_fn(|j| word(col + j)));
            assert_eq!(noise.words::<8>(col), core::array::from_fn(|j| word(col + j)));
            assert_eq!(noise.words::<16>(col), core::array::from_fn(|j| word(col + j)));
        }
        for other in [Noise { seed: 5, ..noise }, Noise { draw: 1, ..noise }, Noise { row: 8, ..noise }] {
            assert_ne!(other.four(0), noise.four(0));
        }
    }

    #[test]
    fn noise_is_within_its_bounds() {
        assert!(Noise::of(u32::MAX) > Noise::LEAST && Noise::of(u32::MAX) < -2.8);
        assert!(Noise::of(0) < Noise::MOST && Noise::of(0) > 22.8);
        assert_eq!(Noise::uniform(u32::MAX), 1.0f32.next_down());
    }
}
