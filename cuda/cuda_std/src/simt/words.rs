//! Threads that wait for words. They are checked when their block has its turn, and not in between.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::super::channel::Channel;
use super::super::context;
use super::super::fault::Fault;
use super::{Scheduler, Slot, State};

impl Slot {
    /// Returns whether the thread waits for words and its condition holds. If the condition panics here, the thread
    /// goes on and evaluates it itself: it panics too, or waits within the condition, which only the thread can.
    fn is_ready(&self) -> bool {
        if self.state != State::InWords {
            return false;
        }
        // SAFETY: the thread is suspended in `Channel::wait`, so its channel, and the closure of its condition, live on
        // its stack.
        let channel = unsafe { &*self.channel };
        // SAFETY: its context lives there too.
        let context = unsafe { &*channel.context.get() };
        let of_question = Channel::of_question();
        let asking = context.with_channel(&of_question);
        let outer = context::enter(&asking);
        // SAFETY: the closure of the thread's condition lives on its stack.
        let is_ready = catch_unwind(AssertUnwindSafe(|| unsafe { channel.ready.get().ask() }));
        context::enter(outer);
        is_ready.unwrap_or(true)
    }
}

impl Scheduler<'_> {
    /// Runs the block's turn: releases the threads whose condition holds, then runs all that can. Returns whether
    /// another block has released any.
    pub fn take_turn(&mut self) -> Result<bool, Box<Fault>> {
        let any = self.has_phase_left() | (self.waits_for_words() && self.release_words()?);
        self.advance()?;
        Ok(any)
    }

    fn release_words(&mut self) -> Result<bool, Box<Fault>> {
        let mut any = false;
        if let Some(seeded) = &mut self.seeded {
            let ready = |slot: &Slot| slot.is_ready();
            any = seeded.release_if(&self.slots, ready);
            return Ok(any);
        }
        for thread in 0..self.slots.len() {
            if self.slots[thread].is_ready() {
                any = true;
                self.resume(thread)?;
            }
        }
        Ok(any)
    }

    /// Returns whether a thread waits for words.
    pub fn waits_for_words(&self) -> bool {
        self.waiting(State::InWords) > 0
    }
}
