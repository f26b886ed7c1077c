//! Words that carry their own flag.
//!
//! The lowest bit of each word that a block sends tells which of two rounds the word belongs to. So a waiting thread can
//! check each word on its own. No word is ordered with another, and the data needs no fence and no extra flag. The number
//! loses that bit in both rounds, so the results do not depend on the round.
//!
//! There are two buffers, used in turns. A block sends into a buffer only after it has received the answers to its words of
//! one round ago, from blocks that had read all of the round before. So it overwrites nothing that another block still waits
//! for. In the memory model, only the words themselves are passed.

use cuda_std::grid::{self, Watchdog};

use super::extents::Extents;

/// Nanoseconds: longer than the slowest device needs, and shorter than the operating system's watchdog.
const LONGEST_WAIT: u64 = 1_500_000_000;

/// The buffers of a step's words, and their flag.
#[derive(Clone, Copy)]
pub(super) struct Mail {
    /// Blocks' shares of the second layer's sums, at [`shares_at`], rows ordered by [`column_of`]. Whole numbers are not
    /// unscaled.
    pub sums: *mut [u32; 4],
    /// `[rows, gradient_quads]`: the gradient of those sums, or pairs of halves of it times
    /// [`GRADIENTS`](super::halves::GRADIENTS).
    pub gradients: *mut [u32; 4],
    /// `[rows, quads + LOGITS]`: the second layer's output, and the gradient of the logits.
    pub rows: *mut [u32; 4],
    /// `[MAX_CLASSES, QUADS]`: the last layer, its weights transposed, with the biases after each row.
    pub last: *mut [u32; 4],
    parity: u32,
}

impl Mail {
    /// Returns the mail of a round.
    ///
    /// # Safety
    /// `mail` holds [`Extents::mail_words`] words.
    #[inline(always)]
    pub unsafe fn of(mail: *mut u32, extents: &Extents, round: u32) -> Self {
        let [sums, gradients, rows, last] = extents.mail_quads();
        // The second buffer comes after the whole first one.
        let buffer = if round & 1 == 0 { 0 } else { sums + gradients + rows + last };
        // SAFETY: two buffers of all four arrays, one after the other.
        unsafe {
            let sums_of_rows = mail.cast::<[u32; 4]>().add(buffer);
            let gradients_of_rows = sums_of_rows.add(sums);
            Self {
                sums: sums_of_rows,
                gradients: gradients_of_rows,
                rows: gradients_of_rows.add(gradients),
                last: gradients_of_rows.add(gradients + rows),
                // Rounds 0 and 1 find zeros.
                parity: (round >> 1 & 1) ^ 1,
            }
        }
    }

    /// Sends two words; each loses its lowest bit.
    ///
    /// # Safety
    /// `to` lies in this mail, and only this thread writes it.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn send_pair(&self, to: *mut [u32; 2], words: [u32; 2]) {
        let to = to.cast::<u32>();
        for (i, word) in words.into_iter().enumerate() {
            // SAFETY: the word lies in this mail, and only this thread stores it.
            unsafe { grid::store_relaxed(to.add(i), word & !1 | self.parity) };
        }
    }

    /// Sends four words; each loses its lowest bit.
    ///
    /// # Safety
    /// Same as for [`Self::send_pair`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn send_words(&self, to: *mut [u32; 4], words: [u32; 4]) {
        // SAFETY: the words lie in this mail, and only this thread stores them.
        unsafe { grid::store_all(to, words.map(|word| word & !1 | self.parity)) };
    }

    /// Waits for `N` times four words, all at once; `what` they are.
    ///
    /// # Safety
    /// `from` lies in this mail.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn receive_words<const N: usize>(
        &self,
        what: &'static str,
        from: [*const [u32; 4]; N],
    ) -> [[u32; 4]; N] {
        // If all have arrived, all differences are 0.
        let is_there = |[x, y, z, w]: [u32; 4]| {
            ((x ^ self.parity) | (y ^ self.parity) | (z ^ self.parity) | (w ^ self.parity)) & 1 == 0
        };
        // SAFETY: the caller's contract; only this mail's functions store the words.
        let words = unsafe { Watchdog::new(what, LONGEST_WAIT).wait_until_each(from, is_there) };
        words.map(|words| words.map(|word| word & !1))
    }
}

/// Returns the first quad of a block's share of a row's sums. Each four quads of the share are followed by those of the next
/// seven rows, so that a warp stores what its lanes have in accumulators without gaps.
#[inline(always)]
pub(super) const fn shares_at(extents: &Extents, halves: usize, row: usize, block: usize) -> usize {
    (row / 8 * extents.weight_blocks() + block) * extents.share_quads(halves) * 8 + row % 8 * 4
}

/// Returns the first of the two neighbouring columns of pair `pair` in quad `quad` of a share. The order is that of a lane's
/// accumulators in four adjacent tiles, or in two for whole numbers.
#[inline(always)]
pub(super) const fn column_of<const HALVES: usize>(quad: usize, pair: usize) -> usize {
    32 / HALVES * (quad / 4) + 8 * pair + 2 * (quad % 4)
}
