//! Threads wait for each other here, and the last one to arrive releases the others.
//!
//! This code runs at every barrier and shuffle of every thread. Miri takes microseconds for each step and more for each
//! call, hence the manual loops, and words instead of requests.

#[path = "phases.rs"]
mod phases;
#[path = "views.rs"]
mod views;
#[path = "warp_operations.rs"]
mod warp_operations;
#[path = "words.rs"]
mod words;

use core::cell::{Cell, UnsafeCell};
use core::panic::Location;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::super::block::Block;
use super::super::channel::{self, Channel};
use super::super::collective;
use super::super::context::{Barrier, Collective, Outcome, Ready, Request, ThreadContext, WARP_SIZE, WarpOp};
use super::super::fault::Fault;
use super::super::stuck;

use super::arrivals::Arrivals;
use super::encoding::{EncodedRequest, OutcomeWords, Word};
use super::lent::Lent;
use super::quiet::Quiet;
use super::relaxed::{Relaxed32, Relaxed64};
use super::sleep::{self, Bell};

/// A thread's place at its [`Table`].
pub(crate) struct Waiter<'a> {
    table: &'a Table<'a>,
    number: u32,
    /// Whether it was unwound after another thread's fault. If the kernel has caught that, its next wait repeats it.
    is_abandoned: Cell<bool>,
}

/// A thread's state, as others see it.
#[derive(Default)]
struct WaitState {
    /// What the thread waits for, or that it runs or has returned.
    ask: EncodedRequest,
    /// Where it waits, while it waits. Others read it only to explain a fault, which may order them.
    site: UnsafeCell<Option<Site>>,
    /// Released when `site` is written.
    written: AtomicU32,
    outcome: OutcomeWords,
    /// The thread releases it when it reaches an operation that orders. The thread that completes the operation acquires
    /// it, then releases it to this thread. Polling it would cost Miri more than the rest, so threads do not wait on it.
    order: AtomicU32,
    /// The arrival at the barrier of the cluster.
    cluster_arrival: AtomicU32,
    bell: Bell,
}

/// The parts of a [`Request`] that the words do not have.
#[derive(Clone, Copy)]
struct Site {
    name: &'static str,
    location: &'static Location<'static>,
}

// SAFETY: only its thread writes `site`, while it runs. Others read it while the thread waits, after `written`.
unsafe impl Sync for WaitState {}

/// The threads of a block, or of the blocks of a cluster. Everything except the ordering atomics is changed under the lock.
pub(super) struct Table<'a> {
    blocks: &'a [Block<'a>],
    per_block: u32,
    /// By block and thread.
    waiters: Vec<WaitState>,
    /// By block and warp.
    lent: Vec<Lent>,
    lock: Relaxed32,
    /// Threads that neither wait nor have returned.
    running: Relaxed64,
    returned: Relaxed64,
    /// By block.
    barriers: Vec<Arrivals>,
    cluster: Arrivals,
    phases: phases::Phases,
    /// Set with the first fault of the grid.
    stop: &'a AtomicBool,
    /// In a cooperative grid.
    quiet: Option<&'a Quiet>,
    fault: Mutex<Option<Box<Fault>>>,
}

impl channel::Waiter for Waiter<'_> {
    fn wait(&self, request: &Request) -> Outcome {
        let table = self.table;
        let waiter = &table.waiters[self.number as usize];
        if self.is_abandoned() {
            channel::abandon();
        }
        self.say_where(request);
        let orders = request.collective.orders();
        if orders {
            waiter.order.fetch_add(1, Ordering::Release);
        }
        if let Collective::Wait(wait) = &request.collective {
            self.wait_for_phase(request, wait);
            return Outcome::default();
        }
        if let Collective::Warp { op: WarpOp::Exchange { exchange, lent }, .. } = request.collective {
            // SAFETY: `lent` is from this thread's own request.
            unsafe { self.lent().write(self.lane(), exchange, lent) };
        }
        table.lock.take();
        let word = waiter.ask.put(request.collective);
        table.sit_down(self.number, word, request);
        table.lock.free();
        loop {
            // Under Miri there are neither bells nor sleep.
            let rings = if cfg!(miri) { 0 } else { waiter.bell.rings() };
            if waiter.ask.runs() {
                break;
            }
            self.look_for_end(request);
            if cfg!(miri) { sleep::yield_now() } else { waiter.bell.wait(rings) }
        }
        if orders {
            waiter.order.fetch_add(0, Ordering::Acquire);
        }
        if let Collective::Warp { op: WarpOp::Exchange { exchange, lent }, .. } = request.collective {
            // SAFETY: `lent` is from this thread's own request, and the exchange is complete.
            unsafe { self.lent().read(self.lane(), exchange, lent) };
        }
        if word.is_fold() {
            return Outcome { value: waiter.outcome.read_low().into(), flag: false };
        }
        if word.has_outcome() { waiter.outcome.read() } else { Outcome::default() }
    }

    fn is_abandoned(&self) -> bool {
        self.is_abandoned.get()
    }

    fn wait_until_ready(&self, request: &Request, ready: Ready) {
        if self.is_abandoned() {
            channel::abandon();
        }
        self.say_where(request);
        // SAFETY: the closure belongs to the caller, which waits for the end of this call.
        self.wait_quietly(request, || unsafe { ready.ask() });
    }

    fn release_to_cluster(&self) {
        self.table.waiters[self.number as usize].cluster_arrival.fetch_add(1, Ordering::Release);
    }
}

impl Waiter<'_> {
    fn lane(&self) -> u32 {
        self.number % self.table.per_block % WARP_SIZE
    }

    /// The words of the thread's warp.
    fn lent(&self) -> &Lent {
        self.table.lent_of(self.number)
    }
}

impl<'a> Table<'a> {
    /// Creates the table for the blocks of a cluster, or one block.
    pub fn new(blocks: &'a [Block<'a>], stop: &'a AtomicBool, quiet: Option<&'a Quiet>) -> Self {
        let threads: usize = blocks.iter().map(|block| block.threads as usize).sum();
        let running = Relaxed64::default();
        running.set(threads as u64);
        Self {
            blocks,
            per_block: blocks[0].threads,
            waiters: core::iter::repeat_with(WaitState::default).take(threads).collect(),
            lent: Lent::of_warps(blocks.len() as u32 * blocks[0].threads.div_ceil(WARP_SIZE)),
            lock: Relaxed32::default(),
            running,
            returned: Relaxed64::default(),
            barriers: blocks.iter().map(|_| Arrivals::default()).collect(),
            cluster: Arrivals::default(),
            phases: phases::Phases::default(),
            stop,
            quiet,
            fault: Mutex::default(),
        }
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> u32 {
        self.waiters.len() as u32
    }

    /// Returns the block of the thread with this number, and its number there.
    pub fn place(&self, number: u32) -> (&'a Block<'a>, u32) {
        (&self.blocks[(number / self.per_block) as usize], number % self.per_block)
    }

    /// Runs the thread with this number from beginning to end.
    pub fn run(&self, number: u32) {
        let (block, thread) = self.place(number);
        let waiting = Waiter { table: self, number, is_abandoned: Cell::new(false) };
        // SAFETY: the waiter outlives the channel.
        let channel = unsafe { Channel::of_thread(&waiting) };
        let context = ThreadContext::new(block, thread, &channel);
        channel.begin(thread, &context);
        let result = context.run();
        block.live_lanes_of(thread).fetch_and(!(1 << (thread % WARP_SIZE)), Ordering::Relaxed);
        match result {
            // Whatever the thread ended with, it is not the first fault, and its destructor may panic.
            result if waiting.is_abandoned.get() => core::mem::forget(result),
            Ok(()) => self.stand_up(number),
            Err(payload) => self.fail(block.fault_from(thread, payload)),
        }
    }

    /// Ends the grid. Only the first fault of a table is kept.
    pub fn fail(&self, fault: Fault) {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| Box::new(fault));
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Wakes all threads, so that they see that the grid ends.
    pub fn wake(&self) {
        self.waiters.iter().for_each(|waiter| waiter.bell.ring());
    }

    /// Returns the fault, when no thread runs any more.
    pub fn into_fault(self) -> Option<Box<Fault>> {
        self.fault.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a thread has returned.
    fn stand_up(&self, number: u32) {
        self.lock.take();
        self.waiters[number as usize].ask.set(Word::RETURNED);
        self.returned.add(1);
        if self.running.sub(1) == 0 {
            self.check_running();
        }
        self.note_stop();
        self.lock.free();
    }

    /// Notes that a thread has requested an operation. Completes it if this was the last thread.
    fn sit_down(&self, number: u32, word: Word, request: &Request) {
        let running = self.running.sub(1);
        let block = number / self.per_block;
        match request.collective {
            Collective::Warp { .. } => self.complete_warp(block, number, word),
            Collective::Barrier(barrier) => {
                if self.barriers[block as usize].join(request, self.per_block.into()) {
                    self.complete_barrier(block, barrier);
                }
            }
            Collective::Cluster => {
                if self.cluster.join(request, self.waiters.len() as u64) {
                    self.complete_cluster();
                }
            }
            // Each thread checks on its own whether it may go on.
            Collective::Words | Collective::Wait(_) => {}
        }
        if running == 0 {
            self.check_running();
        }
        self.note_stop();
    }

    /// Notes that threads go on from an operation.
    fn go_on(&self, threads: u32) {
        self.running.add(threads.into());
        if let Some(quiet) = self.quiet {
            quiet.go_on(threads.into());
        }
    }

    /// Notes that a thread waits or has returned.
    fn note_stop(&self) {
        if let Some(quiet) = self.quiet {
            quiet.stop();
        }
    }

    /// Fails if no thread runs and not all have returned: then no thread will ever continue.
    fn check_running(&self) {
        let is_stuck = self.running.get() == 0 && self.returned.get() < self.waiters.len() as u64;
        if is_stuck && !self.stop.load(Ordering::Relaxed) && !self.phases.any() {
            self.fail(self.why_stuck());
        }
    }

    fn complete_barrier(&self, block: u32, barrier: Barrier) {
        let arrivals = &self.barriers[block as usize];
        if arrivals.is_mixed.get() != 0
            && let Some(fault) = self.view(block).why_apart()
        {
            return self.fail(fault);
        }
        let agreeing = arrivals.leave();
        let outcome = (barrier != Barrier::Sync)
            .then(|| collective::barrier_outcome(barrier, agreeing, self.per_block.into()));
        let numbers = self.numbers(block);
        let mut number = numbers.start;
        while number < numbers.end {
            self.waiters[number as usize].order.fetch_add(0, Ordering::Acquire);
            number += 1;
        }
        self.let_all_go(numbers, outcome);
    }

    fn complete_cluster(&self) {
        if self.cluster.is_mixed.get() != 0
            && let Some(fault) = stuck::why_cluster_stuck(&self.views())
        {
            return self.fail(fault);
        }
        self.cluster.leave();
        let mut number = 0;
        while number < self.threads() {
            self.waiters[number as usize].cluster_arrival.fetch_add(0, Ordering::Acquire);
            number += 1;
        }
        self.let_all_go(0..self.threads(), None);
    }

    /// Releases threads from a barrier: what the caller has acquired comes before what they do from now on.
    fn let_all_go(&self, numbers: core::ops::Range<u32>, outcome: Option<Outcome>) {
        let mut number = numbers.start;
        while number < numbers.end {
            let waiter = &self.waiters[number as usize];
            if let Some(outcome) = outcome {
                waiter.outcome.write(outcome);
            }
            waiter.order.fetch_add(1, Ordering::Release);
            waiter.ask.set(Word::RUNS);
            if !cfg!(miri) {
                waiter.bell.ring();
            }
            number += 1;
        }
        self.go_on(numbers.end - numbers.start);
    }

    /// Returns the numbers of a block's threads.
    fn numbers(&self, block: u32) -> core::ops::Range<u32> {
        block * self.per_block..(block + 1) * self.per_block
    }

    /// Returns what a thread waits for, and orders the caller after it.
    fn request(&self, number: u32) -> Option<Request> {
        let waiter = &self.waiters[number as usize];
        let collective = waiter.ask.read()?;
        waiter.written.fetch_add(0, Ordering::Acquire);
        // SAFETY: the thread wrote its site before it noted that it waits, and does not write it again before it is
        // released, which takes the lock that the caller holds.
        let Site { name, location } = unsafe { *waiter.site.get() }?;
        Some(Request { name, collective, location })
    }
}
