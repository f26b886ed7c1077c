//! Words that carry their own flag.
//!
//! The lowest bit of each word that a block sends says which of two rounds it is of, so that who waits knows of every word
//! by itself that it is the one waited for: no word is ordered with another, and there is neither a fence nor a flag beside
//! the data. The number loses that bit, whichever the round: what is computed does not depend on it.
//!
//! There are two buffers, used in turns. A block sends what goes into a buffer after it has received answers to what it sent
//! one round ago, and those were given by blocks that had read all of the round before: nothing is overwritten that
//! somebody still waits for. In the sense of the memory model nothing but the words themselves is passed.

use cuda_std::grid::{self, Watchdog};
use cuda_std::mem::f32x4;

use super::extents::Extents;

/// Where a step's words go, and their flag.
#[derive(Clone, Copy)]
pub(super) struct Mail {
    /// `[rows, weight blocks, quads]`: each block's share of the second layer's sums.
    pub sums: *mut [u32; 4],
    /// `[rows, quads]`: the gradient at those sums.
    pub gradients: *mut [u32; 4],
    /// `[rows, quads + LOGITS]`: the second layer's output, and the gradient at the logits.
    pub rows: *mut [u32; 4],
    parity: u32,
}

impl Mail {
    /// That of a round.
    ///
    /// # Safety
    /// `mail` holds [`Extents::mail_words`] words.
    #[inline(always)]
    pub unsafe fn of(mail: *mut u32, extents: &Extents, round: u32) -> Self {
        let ([sums, gradients, rows], buffer) = (extents.mail_quads(), (round & 1) as usize);
        let mail = mail.cast::<[u32; 4]>();
        // SAFETY: two buffers of each, one after the other.
        unsafe {
            Self {
                sums: mail.add(buffer * sums),
                gradients: mail.add(2 * sums + buffer * gradients),
                rows: mail.add(2 * (sums + gradients) + buffer * rows),
                // Rounds 0 and 1 find zeros.
                parity: (round >> 1 & 1) ^ 1,
            }
        }
    }

    /// Sends four numbers.
    ///
    /// # Safety
    /// `to` lies in this mail, and is this thread's.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn send(&self, to: *mut [u32; 4], numbers: [f32; 4]) {
        // SAFETY: the caller's.
        unsafe { grid::store_all(to, numbers.map(|x| x.to_bits() & !1 | self.parity)) };
    }

    /// Waits for `N` times four numbers, all at once.
    ///
    /// # Safety
    /// `from` lies in this mail.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn receive<const N: usize>(
        &self,
        watchdog: Watchdog,
        from: [*const [u32; 4]; N],
    ) -> [f32x4; N] {
        // Of those that are there all differences are 0.
        let is_there = |[x, y, z, w]: [u32; 4]| {
            ((x ^ self.parity) | (y ^ self.parity) | (z ^ self.parity) | (w ^ self.parity)) & 1 == 0
        };
        // SAFETY: the caller's; the words are stored by `send` alone.
        let words = unsafe { watchdog.wait_until_each(from, is_there) };
        words.map(|words| words.map(|word| f32::from_bits(word & !1)).into())
    }
}
