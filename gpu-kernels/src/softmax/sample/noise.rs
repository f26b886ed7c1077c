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

/// The random numbers of a row in a draw. The key is the seed; the counter is (a chunk of columns, row, draw's lower half, its
/// upper half).
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
    /// The two words of a chunk in a round: for the choice of the chunk, and for that of a token in it.
    ///
    /// Two rounds share a counter, whose upper 10 bits count such pairs of rounds.
    #[inline(always)]
    pub fn words(&self, chunk: u32, round: u32) -> [u32; 2] {
        let Self { seed, draw, row } = *self;
        let counter = [((round / 2) << 22) | chunk, row, draw as u32, (draw >> 32) as u32];
        let [a, b, c, d] = philox4x32_10(counter, [seed as u32, (seed >> 32) as u32]);
        if round.is_multiple_of(2) { [a, b] } else { [c, d] }
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
    fn rows_draws_seeds_chunks_and_rounds_have_words_of_their_own() {
        let noise = Noise { seed: 1 << 40 | 5, draw: 3 << 33 | 1, row: 9 };
        let others = [Noise { seed: 5, ..noise }, Noise { draw: 1, ..noise }, Noise { row: 8, ..noise }];
        let [seed, draw, row] = others.map(|other| other.words(0, 0));
        let [a, b, c, d, e, f] =
            [(0, 0), (1, 0), (0, 1), (0, 2), (0, 3), (1, 3)].map(|(chunk, round)| noise.words(chunk, round));
        let words = [seed, draw, row, a, b, c, d, e, f];
        for (i, word) in words.iter().enumerate() {
            assert!(!words[..i].contains(word), "{i}");
        }
    }

    #[test]
    fn noise_is_finite_and_the_uniform_number_below_1() {
        assert!(Noise::of(u32::MAX) < -2.8 && Noise::of(0) > 22.8 && Noise::of(0) < 23.0);
        assert_eq!(Noise::uniform(u32::MAX), 1.0f32.next_down());
    }
}
