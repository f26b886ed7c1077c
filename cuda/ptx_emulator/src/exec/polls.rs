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
    /// The thread's registers when it found this again; none if it has not, or has changed what is not in them.
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

    /// What it means that the instruction found this. The state is asked for only if it found the same before: a sum over
    /// all registers costs more than the instruction.
    fn look(&mut self, at: (usize, usize), found: u64, state: impl FnOnce() -> u64) -> Turn {
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

impl Cx<'_> {
    /// Notes that the thread has executed `ld`, whose words others may store.
    pub fn poll(&mut self, ld: &Ld, address: u64) -> Turn {
        let frame = &*self.frame;
        let values = ld.d.iter().map(|&(d, _)| frame.bits(d).value);
        let found = mixed(core::iter::once(address).chain(values));
        self.polls.look((frame.function, frame.pc), found, || mixed(frame.numbers()))
    }

    /// Notes that a phase of the barrier at this place of shared memory is not over, which `found` stands for.
    pub fn poll_phase(&mut self, barrier: usize, found: u64) -> Turn {
        self.polls.phase = Some((barrier, self.frame.pc));
        // Only if nothing happened for a while are registers compared.
        if !self.grid.progress.is_quiet.get() {
            return Turn::Looked;
        }
        let frame = &*self.frame;
        let found = mixed([barrier as u64, found].into_iter());
        match self.polls.look((frame.function, frame.pc), found, || mixed(frame.numbers())) {
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
