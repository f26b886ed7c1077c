//! The scheduler of a block: every GPU thread is a stackful coroutine on the OS thread that runs the block.
//!
//! A fiber runs threads until one of them must wait. That thread keeps the fiber, and the next threads get another one.
//! So a kernel without collectives needs one fiber per block and no switch. When no thread can run, the requests are
//! resolved: the block's barrier if all threads wait there, else the warps' operations.

#[path = "phases.rs"]
mod phases;
#[path = "seeded.rs"]
mod seeded;
#[path = "words.rs"]
mod words;

use corosensei::CoroutineResult;

use super::block::Block;
use super::channel::Channel;
use super::collective::{self, Lane};
use super::context::{Barrier, Collective, Outcome, Request, WARP_SIZE};
use super::fault::{Fault, FaultKind};
use super::fiber::{Team, Work};
use super::limit::Clock;
use super::schedule::Random;
use super::stuck::{self, View};
use seeded::Seeded;

/// What a thread that has started is doing while no thread runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has returned from the kernel.
    Returned,
    /// It waits at a barrier of the block.
    InBarrier,
    /// It waits at the barrier of the cluster.
    InCluster,
    /// It waits for a phase of a barrier in shared memory, for a numbered barrier or for its warpgroup.
    InPhase,
    /// It waits in an operation of its warp.
    InWarpOp,
    /// It waits for words.
    InWords,
}

/// A thread, from its first wait on.
#[derive(Clone, Copy)]
struct Slot {
    state: State,
    /// Number of its fiber.
    fiber: u32,
    /// Valid while the fiber is suspended.
    channel: *const Channel,
}

impl Slot {
    const EMPTY: Slot = Slot { state: State::Returned, fiber: 0, channel: core::ptr::null() };

    fn request(&self) -> Option<&Request> {
        // SAFETY: the thread is suspended in `Channel::wait`, so the channel and the request that it points to live on its
        // stack.
        (self.state != State::Returned).then(|| unsafe { &*(*self.channel).request.get() })
    }

    fn set_outcome(&self, outcome: Outcome) {
        if self.state != State::Returned {
            // SAFETY: the thread is suspended in `Channel::wait`, so the channel lives on its stack.
            unsafe { &*self.channel }.outcome.set(outcome);
        }
    }
}

pub(super) struct Scheduler<'a> {
    block: &'a Block<'a>,
    work: &'a Work<'a>,
    team: Team,
    /// Fibers of the team that hold a thread, or held one.
    busy_fibers: usize,
    /// By thread; empty until a thread waits.
    slots: Vec<Slot>,
    /// The number of waiting threads by state; that of [`State::Returned`] stays 0.
    waiting: [u32; 6],
    /// In a launch with a seed.
    seeded: Option<Box<Seeded>>,
}

impl<'a> Scheduler<'a> {
    /// Creates the scheduler of a block, with random numbers if the launch has a seed.
    pub fn new(work: &'a Work<'a>, random: Option<Random>) -> Self {
        Self {
            block: work.block,
            work,
            team: Team::take(),
            busy_fibers: 0,
            slots: Vec::new(),
            waiting: [0; 6],
            seeded: random.map(|random| Box::new(Seeded::new(random, work.block.threads))),
        }
    }

    /// Keeps the fibers for another block, if there are at most `most` of them in the process. All threads have returned
    /// or were unwound.
    pub fn end(self, most: usize) {
        self.team.give_back(most);
    }

    /// Runs the threads that have started until all have returned or wait for other blocks: at the barrier of the
    /// cluster, for words, for a phase that another block of the cluster may end, or for threads that wait so.
    pub fn advance(&mut self) -> Result<(), Box<Fault>> {
        self.check_time()?;
        if let Some(mut seeded) = self.seeded.take() {
            let result = self.advance_seeded(&mut seeded);
            self.seeded = Some(seeded);
            return result;
        }
        while self.waits_for_block() {
            self.check_time()?;
            if self.waiting(State::InBarrier) == self.block.threads {
                self.release_barrier()?;
            } else if !self.run_warps()? && !self.run_phases()? {
                if self.waiting(State::InWords) > 0 || self.may_be_helped() {
                    return Ok(());
                }
                let fault = self.why_stuck();
                return Err(self.fail(fault));
            }
        }
        Ok(())
    }

    /// Returns whether all threads that have started have returned.
    pub fn has_ended(&self) -> bool {
        self.waiting == [0; 6]
    }

    /// Returns the number of threads that wait like this.
    #[inline(always)]
    fn waiting(&self, state: State) -> u32 {
        self.waiting[state as usize]
    }

    /// Returns whether a thread waits for what may happen in its block.
    #[inline(always)]
    fn waits_for_block(&self) -> bool {
        self.waiting(State::InBarrier) + self.waiting(State::InPhase) + self.waiting(State::InWarpOp) > 0
    }

    /// Releases all threads that wait at the barrier of the cluster.
    pub fn release_cluster(&mut self) -> Result<(), Box<Fault>> {
        if let Some(seeded) = &mut self.seeded {
            // They continue in `advance`.
            seeded.release(&self.slots, State::InCluster);
            return Ok(());
        }
        // A thread that reaches the barrier again waits for its next phase.
        (0..self.slots.len()).try_for_each(|thread| self.resume(thread))
    }

    /// Starts every thread; each runs until it waits or returns. With a seed they start in `advance`.
    pub fn start_all(&mut self) -> Result<(), Box<Fault>> {
        if self.seeded.is_some() {
            return Ok(());
        }
        while self.work.next_thread.get() < self.block.threads {
            self.start_next()?;
        }
        Ok(())
    }

    /// Starts this thread, in a launch with a seed.
    fn start(&mut self, thread: u32) -> Result<(), Box<Fault>> {
        self.work.to_start.set(Some(thread));
        self.start_next()
    }

    /// Starts threads until one of them waits.
    #[inline(always)]
    fn start_next(&mut self) -> Result<(), Box<Fault>> {
        let number = self.busy_fibers;
        // The fiber's type requires 'static. When the unit ends, no fiber works for the block any longer.
        let work = core::ptr::from_ref(self.work).cast();
        let started = self.team.fiber(number).map(|fiber| fiber.resume(work));
        match started {
            Ok(CoroutineResult::Yield(channel)) if !channel.is_null() => {
                self.busy_fibers += 1;
                if self.slots.is_empty() {
                    self.slots.resize(self.block.threads as usize, Slot::EMPTY);
                }
                // SAFETY: the fiber is suspended, and its channel lives on its stack.
                let thread = unsafe { &*channel }.thread.get() as usize;
                self.slots[thread] = Slot { state: State::Returned, fiber: number as u32, channel };
                self.has_suspended(thread);
                Ok(())
            }
            // Idle again: the threads it ran have returned.
            Ok(_) => self.check_fault(),
            Err(error) => {
                let kind = FaultKind::OutOfStacks { message: error.to_string() };
                let fault = self.block.fault_of(None, None, kind);
                Err(self.fail(fault))
            }
        }
    }

    /// Lets a waiting thread run until it waits again or returns.
    #[inline(always)]
    fn resume(&mut self, thread: usize) -> Result<(), Box<Fault>> {
        let Slot { state, fiber, .. } = &mut self.slots[thread];
        if *state == State::Returned {
            return Ok(());
        }
        self.waiting[*state as usize] -= 1;
        *state = State::Returned;
        match self.team.fibers[*fiber as usize].resume(core::ptr::from_ref(self.work).cast()) {
            CoroutineResult::Yield(channel) if !channel.is_null() => {
                self.has_suspended(thread);
                Ok(())
            }
            // Idle again: the thread has returned.
            _ => self.check_fault(),
        }
    }

    #[inline(always)]
    fn has_suspended(&mut self, thread: usize) {
        let slot = &mut self.slots[thread];
        // SAFETY: the fiber is suspended in `Channel::wait`, so the channel and its request live on its stack.
        slot.state = match unsafe { &*(*slot.channel).request.get() }.collective {
            Collective::Barrier(_) => State::InBarrier,
            Collective::Cluster => State::InCluster,
            Collective::Wait(_) => State::InPhase,
            Collective::Warp { .. } => State::InWarpOp,
            Collective::Words => State::InWords,
        };
        self.waiting[slot.state as usize] += 1;
    }

    #[inline(never)]
    fn check_fault(&mut self) -> Result<(), Box<Fault>> {
        let fault = self.work.fault.borrow_mut().take();
        fault.map_or(Ok(()), |fault| Err(self.fail(fault)))
    }

    /// Unwinds every suspended thread, and returns the fault.
    #[cold]
    pub fn fail(&mut self, fault: Fault) -> Box<Fault> {
        let waiting = self.slots.drain(..).filter(|slot| slot.state != State::Returned);
        self.team.unwind(self.work, waiting.map(|slot| (slot.fiber as usize, slot.channel)));
        Box::new(fault)
    }

    /// Releases all threads from a barrier. They all wait, and it must be at the same barrier.
    fn release_barrier(&mut self) -> Result<(), Box<Fault>> {
        self.complete_barrier()?;
        (0..self.slots.len()).try_for_each(|thread| self.resume(thread))
    }

    /// Gives all threads the outcome of the barrier that they wait at.
    fn complete_barrier(&mut self) -> Result<(), Box<Fault>> {
        let mut requests = self.slots.iter().filter_map(Slot::request);
        let Some(first) = requests.next() else {
            return Ok(());
        };
        if !requests.all(|request| collective::same_barrier(first, request)) {
            let fault = self.why_stuck();
            return Err(self.fail(fault));
        }
        if let Collective::Barrier(form) = first.collective
            && form != Barrier::Sync
        {
            let agreeing =
                self.slots.iter().filter_map(Slot::request).filter(|request| collective::agrees(request));
            let outcome =
                collective::barrier_outcome(form, agreeing.count() as u64, self.block.threads.into());
            self.slots.iter().for_each(|slot| slot.set_outcome(outcome));
        }
        Ok(())
    }

    /// Completes warp operations and runs their lanes until none can go on. Returns whether any could.
    fn run_warps(&mut self) -> Result<bool, Box<Fault>> {
        let mut progress = false;
        let mut outcomes = [Outcome::default(); WARP_SIZE as usize];
        for warp in 0..self.block.live_lanes.len() {
            while self.waiting(State::InWarpOp) > 0 {
                let done = match collective::complete_warp_ops(&self.lanes(warp), &mut outcomes) {
                    Ok(done) => done,
                    Err(error) => {
                        let fault = self.view().mask_fault(warp as u32, error);
                        return Err(self.fail(fault));
                    }
                };
                if done == 0 {
                    break;
                }
                progress = true;
                self.check_time()?;
                let first = warp * WARP_SIZE as usize;
                for lane in (0..WARP_SIZE as usize).filter(|lane| done & (1 << lane) != 0) {
                    self.slots[first + lane].set_outcome(outcomes[lane]);
                    self.resume(first + lane)?;
                }
            }
        }
        Ok(progress)
    }

    fn lanes(&self, warp: usize) -> collective::Lanes<'_> {
        core::array::from_fn(|lane| match self.slots.get(warp * WARP_SIZE as usize + lane) {
            None => Lane::Absent,
            Some(slot) => slot.request().map_or(Lane::Returned, Lane::Waits),
        })
    }

    /// Fails if the launch is over its time limit.
    #[inline]
    fn check_time(&mut self) -> Result<(), Box<Fault>> {
        match self.block.grid.clock.filter(|clock| clock.has_expired()) {
            None => Ok(()),
            Some(clock) => Err(self.fail_late(clock)),
        }
    }

    #[cold]
    fn fail_late(&mut self, clock: &Clock) -> Box<Fault> {
        let mut slots = self.slots.iter().zip(0..);
        let waiting = slots.find_map(|(slot, thread)| Some((thread, slot.request()?.location.into())));
        let (thread, location) = waiting.unzip();
        let fault = self.block.fault_of(thread, location, clock.fault());
        self.fail(fault)
    }

    /// Returns the fault of a block in which no thread can continue.
    #[cold]
    pub fn why_stuck(&self) -> Fault {
        // Some thread waits for others of its block, or the block could go on.
        self.view().why_stuck().unwrap_or_else(|| stuck::unknown(self.block))
    }

    /// Returns the request of a thread that waits at the barrier of the cluster.
    pub fn in_cluster(&self) -> Option<&Request> {
        self.slots.iter().find(|slot| slot.state == State::InCluster)?.request()
    }

    /// Returns whether all threads wait at this barrier of the cluster.
    pub fn all_wait_at(&self, barrier: &Request) -> bool {
        let waits =
            |slot: &Slot| slot.request().is_some_and(|other| collective::same_barrier(other, barrier));
        !self.slots.is_empty() && self.slots.iter().all(waits)
    }

    /// Returns what the threads wait for.
    pub fn view(&self) -> View<'a> {
        View::new(self.block, self.slots.iter().map(|slot| slot.request().copied()))
    }

    /// Returns the block that it schedules.
    pub fn block(&self) -> &'a Block<'a> {
        self.block
    }
}
