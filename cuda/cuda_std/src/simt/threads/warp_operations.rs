//! Completes the operations of a warp, and gives each lane its result.

use core::panic::Location;
use core::sync::atomic::Ordering;

use super::super::super::collective::{self, Lane, MaskError};
use super::super::super::context::{Outcome, Request, WARP_SIZE};
use super::super::encoding::Word;
use super::super::lent::Lent;
use super::{Table, WaitState};

impl Table<'_> {
    /// Completes the operation of a lane that has arrived, if all lanes of its mask wait in the same one.
    pub(super) fn complete_warp(&self, block: u32, number: u32, word: Word) {
        let numbers = self.numbers(block);
        let thread = number - numbers.start;
        let (first, lane, mask) = (number - thread % WARP_SIZE, thread % WARP_SIZE, word.mask());
        if mask & (1 << lane) == 0 {
            let error = MaskError::CallerNotInMask { lane, mask };
            return self.fail(self.view(block).mask_fault(thread / WARP_SIZE, error));
        }
        // Lanes mostly arrive in order, so the highest shows soonest that one is missing.
        let mut rest = mask;
        while rest != 0 {
            let highest = 31 - rest.leading_zeros();
            let other = first + highest;
            if other >= numbers.end || !self.waiters[other as usize].ask.is(word) {
                return;
            }
            rest ^= 1 << highest;
        }
        let waiters = &self.waiters[first as usize..numbers.end.min(first + WARP_SIZE) as usize];
        if let Some((fold, of, width)) = word.as_fold() {
            let mut values = collective::UNDEFINED;
            for_lanes(mask, |lane| values[lane] = waiters[lane].ask.low());
            collective::fold(&mut values, (fold, of, width));
            for_lanes(mask, |lane| {
                waiters[lane].outcome.write_low(values[lane & !(width as usize - 1)]);
                waiters[lane].ask.set(Word::RUNS);
            });
        } else if word.is_sync_warp() {
            for_lanes(mask, |lane| {
                waiters[lane].order.fetch_add(0, Ordering::Acquire);
            });
            for_lanes(mask, |lane| {
                waiters[lane].order.fetch_add(1, Ordering::Release);
                waiters[lane].ask.set(Word::RUNS);
            });
        } else if let Some((mode, width)) = word.as_shuffle() {
            for_lanes(mask, |lane| {
                let (value, b) = waiters[lane].ask.shuffled();
                let (source, in_range) = collective::shuffle_source(mode, lane as u32, b, width);
                let value = match mask & 1 << source {
                    _ if !in_range => value,
                    0 => collective::UNDEFINED_WIDE,
                    _ => waiters[source as usize].ask.shuffled().0,
                };
                waiters[lane].outcome.write(Outcome { value, flag: in_range });
            });
            for_lanes(mask, |lane| waiters[lane].ask.set(Word::RUNS));
        } else if let Some(exchange) = word.as_exchange() {
            self.lent_of(number).complete(exchange);
            for_lanes(mask, |lane| waiters[lane].ask.set(Word::RUNS));
        } else {
            let outcomes = outcomes(waiters, mask);
            for_lanes(mask, |lane| {
                waiters[lane].outcome.write(outcomes[lane]);
                waiters[lane].ask.set(Word::RUNS);
            });
        }
        if !cfg!(miri) {
            for_lanes(mask, |lane| waiters[lane].bell.ring());
        }
        self.go_on(mask.count_ones());
    }

    /// Returns the words of a thread's warp.
    pub(super) fn lent_of(&self, number: u32) -> &Lent {
        let (block, thread) = (number / self.per_block, number % self.per_block);
        &self.lent[(block * self.per_block.div_ceil(WARP_SIZE) + thread / WARP_SIZE) as usize]
    }
}

/// Calls `f` with every lane of the mask.
fn for_lanes(mask: u32, mut f: impl FnMut(usize)) {
    let mut rest = mask;
    while rest != 0 {
        f(rest.trailing_zeros() as usize);
        rest &= rest - 1;
    }
}

/// Returns the results of the lanes in `mask`, which all wait in one operation.
fn outcomes(waiters: &[WaitState], mask: u32) -> [Outcome; WARP_SIZE as usize] {
    let mut requests = [None; WARP_SIZE as usize];
    for_lanes(mask, |lane| {
        let collective = waiters[lane].ask.read();
        requests[lane] =
            collective.map(|collective| Request { name: "", collective, location: Location::caller() });
    });
    // Other lanes do not take part, whether they run, wait for something else or have returned.
    let lanes = core::array::from_fn(|lane| requests[lane].as_ref().map_or(Lane::Returned, Lane::Waits));
    collective::outcomes(&lanes, mask)
}
