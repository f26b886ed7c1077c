//! Threads that spin: they load a word repeatedly until another thread has stored the value they wait for.
//!
//! Such a thread yields after each load that finds an unchanged value. If its state, including all registers, is unchanged
//! too, it will spin until another thread stores something; if all threads are in this state, the kernel is deadlocked.

/// Remembered loads per thread: a wait may be for several words.
const LOADS: usize = 8;

/// The loads of words that other threads may store.
#[derive(Debug, Default)]
pub(crate) struct Polls {
    loads: Vec<Poll>,
    /// The entry to replace next once all are in use.
    next: usize,
    /// The mbarrier whose phase the thread last waited for in vain, by its offset, and the instruction.
    pub phase: Option<(usize, usize)>,
}

#[derive(Debug)]
struct Poll {
    /// Function and instruction.
    at: (usize, usize),
    /// Address and values, as a number.
    found: u64,
    /// The thread's registers when it found this again; `None` if it has not, or has changed state outside of them.
    state: Option<u64>,
}

/// The result of a thread's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It made progress.
    Moved,
    /// It polled and found the same value, in another state.
    Looked,
    /// It polled and found the same value, in the same state.
    Stood,
}

impl Turn {
    /// The result of this turn and another together.
    pub fn with(self, other: Turn) -> Turn {
        match (self, other) {
            (Turn::Moved, _) | (_, Turn::Moved) => Turn::Moved,
            (Turn::Looked, _) | (_, Turn::Looked) => Turn::Looked,
            (Turn::Stood, Turn::Stood) => Turn::Stood,
        }
    }
}

impl Polls {
    /// Records that the thread has changed state outside the registers of its function.
    pub fn forget_state(&mut self) {
        self.loads.iter_mut().for_each(|poll| poll.state = None);
    }

    /// The turn's result for an instruction that found this. `state` is called only if it found the same before: hashing all
    /// registers costs more than the instruction.
    pub fn look(&mut self, at: (usize, usize), found: u64, state: impl FnOnce() -> u64) -> Turn {
        let new = Poll { at, found, state: None };
        match self.loads.iter().position(|poll| poll.at == at) {
            Some(i) if self.loads[i].found == found => {
                let state = Some(state());
                let is_same = core::mem::replace(&mut self.loads[i].state, state) == state;
                return if is_same { Turn::Stood } else { Turn::Looked };
            }
            Some(i) => self.loads[i] = new,
            None if self.loads.len() < LOADS => self.loads.push(new),
            None => {
                self.loads[self.next] = new;
                self.next = (self.next + 1) % LOADS;
            }
        }
        Turn::Moved
    }
}

/// Hashes numbers, with a collision chance of 2^-64 (FNV-1a, by words).
pub(crate) fn mixed(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0xcbf2_9ce4_8422_2325, |hash: u64, number| {
        (hash ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
    })
}
