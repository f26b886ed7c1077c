//! A model of how the hardware handles the addresses of a warp. The predictions for kernels use it.

/// Lanes of a warp.
pub(super) const WARP: usize = 32;

/// Passes of a request for these words over the 32 banks of shared memory, which are one 4-byte word wide: the number of
/// words in the bank with the most. A word that several lanes request counts once.
pub(super) fn passes(words: impl IntoIterator<Item = usize>) -> usize {
    let mut words: Vec<usize> = words.into_iter().collect();
    words.sort_unstable();
    words.dedup();
    let mut of_bank = [0; 32];
    words.iter().for_each(|word| of_bank[word % 32] += 1);
    of_bank.into_iter().max().unwrap_or(0)
}
