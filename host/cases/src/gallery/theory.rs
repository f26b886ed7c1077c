//! A model of what the hardware does with the addresses of a warp. The predictions for kernels use it.

/// Lanes of a warp.
pub(super) const WARP: usize = 32;

/// Passes over the 32 banks of shared memory, a word of 4 bytes wide, that a request for these words takes: as many as
/// the bank that holds most of them has. A word that several lanes want counts once.
pub(super) fn passes(words: impl IntoIterator<Item = usize>) -> usize {
    let mut words: Vec<usize> = words.into_iter().collect();
    words.sort_unstable();
    words.dedup();
    let mut of_bank = [0; 32];
    words.iter().for_each(|word| of_bank[word % 32] += 1);
    of_bank.into_iter().max().unwrap_or(0)
}
