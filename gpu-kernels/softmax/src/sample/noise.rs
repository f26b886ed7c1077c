//! The noise of a draw: the same numbers on every device, and no state.

use cuda_std::GpuFloat as _;

/// Returns 4 random words for a counter and a key: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers:
/// as easy as 1, 2, 3" (SC 2011), section 4.3.
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

/// The random numbers of a row in a draw. The key is the seed; the counter is (chunk of columns, row, lower half of the
/// draw's number, upper half).
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
    /// Returns the two words of a chunk in a round: one to choose the chunk, and one to choose a token in it.
    ///
    /// Two rounds share a counter; its upper 10 bits count these pairs of rounds.
    #[inline(always)]
    pub fn words(&self, chunk: u32, round: u32) -> [u32; 2] {
        let Self { seed, draw, row } = *self;
        let counter = [((round / 2) << 22) | chunk, row, draw as u32, (draw >> 32) as u32];
        let [a, b, c, d] = philox4x32_10(counter, [seed as u32, (seed >> 32) as u32]);
        if round.is_multiple_of(2) { [a, b] } else { [c, d] }
    }

    /// Returns `(word + 1/2) / 2^32` as `f32`, in (0, 1), and never 1. Small numbers, which make large noise, are exact.
    #[inline(always)]
    pub fn uniform(word: u32) -> f32 {
        ((word as f32 + 0.5) * (1.0 / 4_294_967_296.0)).min(1.0 - f32::EPSILON / 2.0)
    }

    /// Returns a word's noise, of the standard Gumbel distribution: `-ln(-ln(1 - u))`.
    #[inline(always)]
    pub fn of(word: u32) -> f32 {
        -(-(-Self::uniform(word)).ln_1p()).ln()
    }
}
