//! Threads that spin: they load a word again and again, until another thread has stored what they wait for.
//!
//! Such a thread gives way to the others after each load that finds what it found before. If it is in the same state as
//! then, all its registers included, it will go on so until somebody stores something; when all threads are, nobody will.

use super::thread::Cx;
use crate::instr::Ld;

/// Loads of one thread that are remembered: a wait may be for several words.
const LOADS: usize = 8;

/// The loads of words that others may store.
#[derive(Debug, Default)]
pub(super) struct Polls {
    loads: Vec<Poll>,
    /// Where the next one goes when there are as many as can be.
    next: usize,
    /// The barrier in shared memory whose phase the thread has last waited for in vain, and the instruction.
    pub phase: Option<(usize, usize)>,
}

#[derive(Debug)]
struct Poll {
    /// Function and instruction.
    at: (usize, usize),
    /// Address and values, as a number.
    found: u64,
    /// The thread's registers then; none if the thread has changed what is not in them.
    state: Option<u64>,
}

/// What the turn of a thread came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It did something.
    Moved,
    /// It found what it had found before, in another state.
    Looked,
    /// It found what it had found before, in the state that it was in then.
    Stood,
}

impl Turn {
    /// What this turn and another one came to together.
    pub fn with(self, other: Turn) -> Turn {
        match (self, other) {
            (Turn::Moved, _) | (_, Turn::Moved) => Turn::Moved,
            (Turn::Looked, _) | (_, Turn::Looked) => Turn::Looked,
            (Turn::Stood, Turn::Stood) => Turn::Stood,
        }
    }
}

impl Polls {
    /// The thread has changed what is not in the registers of its function.
    pub fn forget_state(&mut self) {
        self.loads.iter_mut().for_each(|poll| poll.state = None);
    }

    fn look(&mut self, new: Poll) -> Turn {
        let Some(poll) = self.loads.iter_mut().find(|poll| poll.at == new.at) else {
            if self.loads.len() < LOADS {
                self.loads.push(new);
            } else {
                self.loads[self.next] = new;
                self.next = (self.next + 1) % LOADS;
            }
            return Turn::Moved;
        };
        let old = core::mem::replace(poll, new);
        match poll {
            Poll { found, .. } if *found != old.found => Turn::Moved,
            Poll { state, .. } if *state == old.state => Turn::Stood,
            _ => Turn::Looked,
        }
    }
}

impl Cx<'_> {
    /// Notes that the thread has executed `ld`, whose words others may store.
    pub fn poll(&mut self, ld: &Ld, address: u64) -> Turn {
        let values = ld.d.iter().map(|&(d, _)| self.frame.bits(d).value);
        let found = mixed(core::iter::once(address).chain(values));
        let (at, state) = ((self.frame.function, self.frame.pc), Some(mixed(self.frame.numbers())));
        self.polls.look(Poll { at, found, state })
    }
}

impl Cx<'_> {
    /// Notes that a phase of the barrier at this place of shared memory is not over, which `found` stands for.
    pub fn poll_phase(&mut self, barrier: usize, found: u64) -> Turn {
        self.polls.phase = Some((barrier, self.frame.pc));
        // Only if nothing happened for a while are registers compared.
        if !self.grid.progress.is_quiet.get() {
            return Turn::Looked;
        }
        let found = mixed([barrier as u64, found].into_iter());
        let (at, state) = ((self.frame.function, self.frame.pc), Some(mixed(self.frame.numbers())));
        match self.polls.look(Poll { at, found, state }) {
            Turn::Stood => Turn::Stood,
            Turn::Moved | Turn::Looked => Turn::Looked,
        }
    }
}

/// A number for numbers: another one for others, but for a chance in 2^64 (FNV-1a, by words).
fn mixed(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0xcbf2_9ce4_8422_2325, |hash: u64, number| {
        (hash ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
    })
}
