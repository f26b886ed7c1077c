//! Words that the lanes of a warp pass in an [`Exchange`].
//!
//! A lane writes its own words before it signals that it waits. The last lane of the warp replaces them by each lane's
//! results before it releases the others.

use core::iter;

use super::super::context::WARP_SIZE;
use super::relaxed::Relaxed64;
use crate::mma::Exchange;

const LANES: usize = WARP_SIZE as usize;

/// The words of a warp.
pub(super) struct Lent(Box<[Relaxed64]>);

impl Lent {
    /// Creates the words of each of `warps` warps.
    pub fn of_warps(warps: u32) -> Vec<Lent> {
        iter::repeat_with(Lent::new).take(warps as usize).collect()
    }

    fn new() -> Self {
        // Most kernels use none, so the words come from memory that is zero already.
        let words = Box::new_zeroed_slice(LANES * Exchange::MOST_WORDS);
        // SAFETY: a `Relaxed64` is an integer, and may be zero.
        Self(unsafe { words.assume_init() })
    }

    /// Copies this lane's operands.
    ///
    /// # Safety
    /// `lent` points to what the exchange needs.
    pub unsafe fn write(&self, lane: u32, exchange: Exchange, lent: *const ()) {
        // SAFETY: `lent` points to what the exchange needs.
        unsafe { exchange.write(lent, |i, word| self.word(lane as usize, i).set(word)) };
    }

    /// Copies this lane's results to what it has lent.
    ///
    /// # Safety
    /// Same as for [`Self::write`], after [`Self::complete`].
    pub unsafe fn read(&self, lane: u32, exchange: Exchange, lent: *mut ()) {
        // SAFETY: `lent` points to what the exchange needs.
        unsafe { exchange.read(lent, |i| self.word(lane as usize, i).get()) };
    }

    /// Computes the results of all lanes, when all have written.
    pub fn complete(&self, exchange: Exchange) {
        exchange
            .complete_words(|lane, i| self.word(lane, i).get(), |lane, i, word| self.word(lane, i).set(word));
    }

    fn word(&self, lane: usize, i: usize) -> &Relaxed64 {
        &self.0[lane * Exchange::MOST_WORDS + i]
    }
}
