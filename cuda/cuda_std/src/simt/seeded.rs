//! Runs a block in an order shuffled from a seed.
//!
//! A step starts threads of one warp, lets released ones go on, or completes its operations. The warp of the next step
//! is random: in some phases all are equally likely, in others one warp runs as far as it can while the others stand
//! still. So warps drift apart up to their next barrier, as on a GPU. In the fixed order they never do, since a barrier
//! resumes all its threads before any passes its next wait.

use super::super::collective::{self, Lane};
use super::super::context::{Outcome, WARP_SIZE};
use super::super::fault::Fault;
use super::super::schedule::Random;
use super::{Scheduler, Slot, State};

/// How the warp that makes the next step is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// All are equally likely.
    Even,
    /// The first that can, in a random order per phase: the last stands still until all others wait.
    OneAhead,
}

/// The additional state of a seeded block.
pub(super) struct Seeded {
    random: Random,
    pace: Pace,
    /// Lanes that go first in every warp, as far as they can without the others.
    favoured: u32,
    /// Warps that may be able to go on; the last one makes the next step.
    ready: Vec<usize>,
    /// For each warp, the lanes that have not started.
    unstarted: Vec<u32>,
    /// For each warp, the lanes that are released but have not gone on yet.
    released: Vec<u32>,
}

impl Seeded {
    /// Creates the state of a block of `threads` threads, not yet started.
    pub fn new(random: Random, threads: u32) -> Self {
        let warps = threads.div_ceil(WARP_SIZE);
        let lanes = |warp: u32| u32::MAX >> (WARP_SIZE - (threads - warp * WARP_SIZE).min(WARP_SIZE));
        let mut seeded = Self {
            random,
            pace: Pace::Even,
            favoured: u32::MAX,
            ready: Vec::new(),
            unstarted: (0..warps).map(lanes).collect(),
            released: vec![0; warps as usize],
        };
        seeded.begin_phase();
        seeded
    }

    /// Releases the threads that wait in this state.
    pub fn release(&mut self, slots: &[Slot], state: State) {
        self.release_if(slots, |slot| slot.state == state);
    }

    /// Releases the threads for which `goes_on` holds. Returns whether there were any.
    pub fn release_if(&mut self, slots: &[Slot], goes_on: impl Fn(&Slot) -> bool) -> bool {
        let mut any = false;
        for (thread, _) in slots.iter().enumerate().filter(|(_, slot)| goes_on(slot)) {
            self.released[thread / WARP_SIZE as usize] |= 1 << (thread % WARP_SIZE as usize);
            any = true;
        }
        self.begin_phase();
        any
    }

    /// Begins a phase: all warps may be able to go on, in a new order and at a new pace.
    fn begin_phase(&mut self) {
        self.pace = if self.random.one_in(2) { Pace::Even } else { Pace::OneAhead };
        self.favoured = if self.random.one_in(2) { u32::MAX } else { self.random.lanes() };
        self.ready.clear();
        self.ready.extend(0..self.released.len());
        self.random.shuffle(&mut self.ready);
    }

    /// Returns the warp for the next step; `None` if no warp can go on.
    fn choose(&mut self) -> Option<usize> {
        // Now and then another warp takes the lead in the middle of a run.
        if !self.ready.is_empty() && (self.pace == Pace::Even || self.random.one_in(16)) {
            let (chosen, last) = (self.random.below(self.ready.len()), self.ready.len() - 1);
            self.ready.swap(chosen, last);
        }
        self.ready.last().copied()
    }

    /// Returns the lanes of the warp that have something to do.
    fn idle(&self, warp: usize) -> u32 {
        self.unstarted[warp] | self.released[warp]
    }

    /// Returns the lanes that go first: the favoured ones, and sometimes only some of them.
    fn first_of(&mut self, lanes: u32) -> u32 {
        let favoured = if lanes & self.favoured == 0 { lanes } else { lanes & self.favoured };
        if !self.random.one_in(4) {
            return favoured;
        }
        match favoured & self.random.lanes() {
            0 => favoured,
            part => part,
        }
    }

    /// Calls `each` with the thread of each lane, in a shuffled order.
    fn shuffled<E>(
        &mut self,
        warp: usize,
        lanes: u32,
        mut each: impl FnMut(u32) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut threads, mut len) = ([0; WARP_SIZE as usize], 0);
        for lane in (0..WARP_SIZE).filter(|lane| lanes & (1 << lane) != 0) {
            threads[len] = warp as u32 * WARP_SIZE + lane;
            len += 1;
        }
        self.random.shuffle(&mut threads[..len]);
        threads[..len].iter().try_for_each(|&thread| each(thread))
    }
}

impl Scheduler<'_> {
    /// Same as `advance`, but in the order of the seed. It also starts threads.
    pub(super) fn advance_seeded(&mut self, seeded: &mut Seeded) -> Result<(), Box<Fault>> {
        loop {
            while let Some(warp) = seeded.choose() {
                self.check_time()?;
                self.step(seeded, warp)?;
            }
            if self.release_phases(seeded) {
                continue;
            }
            if !self.waits_for_block() || self.may_be_helped() {
                return Ok(());
            }
            if self.waiting(State::InBarrier) < self.block.threads {
                if self.waits_for_words() {
                    return Ok(());
                }
                let fault = self.why_stuck();
                return Err(self.fail(fault));
            }
            self.complete_barrier()?;
            seeded.release(&self.slots, State::InBarrier);
        }
    }

    /// Makes one step of the warp, which is the last of `ready`.
    fn step(&mut self, seeded: &mut Seeded, warp: usize) -> Result<(), Box<Fault>> {
        if seeded.idle(warp) & seeded.favoured == 0 {
            self.complete_ops_of(seeded, warp)?;
        }
        let first = seeded.first_of(seeded.idle(warp));
        if first == 0 {
            seeded.ready.pop();
            return Ok(());
        }
        let (new, waiting) = (first & seeded.unstarted[warp], first & seeded.released[warp]);
        if new != 0 && (waiting == 0 || seeded.random.one_in(2)) {
            seeded.unstarted[warp] &= !new;
            return seeded.shuffled(warp, new, |thread| self.run_thread(thread, Self::start));
        }
        seeded.released[warp] &= !waiting;
        seeded.shuffled(warp, waiting, |thread| {
            self.run_thread(thread, |scheduler, thread| scheduler.resume(thread as usize))
        })
    }

    /// Runs a thread until it waits or returns, and lets a test see what it has done.
    fn run_thread(
        &mut self,
        thread: u32,
        run: impl FnOnce(&mut Self, u32) -> Result<(), Box<Fault>>,
    ) -> Result<(), Box<Fault>> {
        let result = run(self, thread);
        if let Some(watch) = self.block.grid.watch {
            watch.look(|| self.block.whose(thread));
        }
        result
    }

    /// Completes the warp's operations as far as possible.
    fn complete_ops_of(&mut self, seeded: &mut Seeded, warp: usize) -> Result<(), Box<Fault>> {
        let (first, released) = (warp * WARP_SIZE as usize, seeded.released[warp]);
        let slots = self.slots.iter().skip(first).take(WARP_SIZE as usize).enumerate();
        let waits =
            |(lane, slot): (usize, &Slot)| slot.state == State::InWarpOp && released & (1 << lane) == 0;
        if !slots.into_iter().any(waits) {
            return Ok(());
        }
        let mut lanes = self.lanes(warp);
        // Released lanes are still in an operation that is over.
        lanes.iter_mut().enumerate().filter(|(lane, _)| released & (1 << lane) != 0).for_each(|(_, lane)| {
            *lane = Lane::Absent;
        });
        let mut outcomes = [Outcome::default(); WARP_SIZE as usize];
        let done = match collective::complete_warp_ops(&lanes, &mut outcomes) {
            Ok(done) => done,
            Err(error) => {
                let fault = self.view().mask_fault(warp as u32, error);
                return Err(self.fail(fault));
            }
        };
        for lane in (0..WARP_SIZE as usize).filter(|lane| done & (1 << lane) != 0) {
            self.slots[first + lane].set_outcome(outcomes[lane]);
        }
        seeded.released[warp] |= done;
        Ok(())
    }
}
