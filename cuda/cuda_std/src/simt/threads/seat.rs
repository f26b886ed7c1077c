//! Where threads wait for each other, and where it is decided who goes on.

use core::cell::UnsafeCell;
use core::panic::Location;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use super::super::blame::{self, View};
use super::super::block::Block;
use super::super::context::{Barrier, Collective, Outcome, Request, ThreadContext, WARP_SIZE, WarpOp};
use super::super::fault::{Fault, FaultKind};
use super::super::port::Port;
use super::super::rendezvous::{self, Lane};
use super::gathering::Gathering;
use super::latest::{Latest, Unordered};
use super::sleep;
use super::words::{OpWords, OutcomeWords};

/// What a thread panics with to leave its kernel after another one's fault.
struct Abandoned;

/// What a thread is doing, as [`Chair::state`].
const RUNS: u64 = 0;
const IN_BARRIER: u64 = 1;
const IN_WARP_OP: u64 = 2;
const RETURNED: u64 = 3;

/// A thread's place at its [`Table`].
pub(crate) struct Seat<'a> {
    table: &'a Table<'a>,
    number: u32,
}

/// What the others see of a thread.
#[derive(Default)]
struct Chair {
    state: Latest,
    /// What the thread waits for, while it waits. Others read it in order to say what is wrong, which may order them;
    /// in order to complete an operation they read the words.
    request: UnsafeCell<Option<Request>>,
    /// Released when `request` is written.
    written: AtomicU32,
    /// Operands of the warp operation that the thread waits for.
    op: OpWords,
    outcome: OutcomeWords,
    /// Released by the thread when it comes to an operation that orders, acquired by the one that completes it.
    arrival: AtomicU32,
    /// The same for the barrier of the cluster.
    cluster_arrival: AtomicU32,
    /// Goes up when the thread may go on. Released by the one that completes an operation that orders.
    turn: AtomicU32,
}

// SAFETY: `request` is written by its thread alone, while it runs, and read by others while it waits, behind `written`.
unsafe impl Sync for Chair {}

/// The threads of a block, or of the blocks of a cluster. All but the atomics with an order is changed under the lock.
pub(super) struct Table<'a> {
    blocks: &'a [Block<'a>],
    /// By block and thread.
    chairs: Vec<Chair>,
    lock: Unordered,
    /// Threads that neither wait nor have returned.
    running: Latest,
    /// By block.
    barriers: Vec<Gathering>,
    cluster: Gathering,
    /// Set with the first fault of the grid.
    stop: &'a AtomicBool,
    fault: Mutex<Option<Box<Fault>>>,
}

impl Seat<'_> {
    /// Waits until all that take part have asked, and returns this thread's share of the result.
    pub(in super::super) fn wait(&self, request: &Request) -> Outcome {
        let chair = &self.table.chairs[self.number as usize];
        let turn = chair.turn.fetch_add(0, Ordering::Relaxed);
        // SAFETY: the thread runs, so nobody else reads or writes the request.
        unsafe { *chair.request.get() = Some(*request) };
        chair.written.fetch_add(1, Ordering::Release);
        let mut orders = true;
        let mut has_outcome = false;
        match request.collective {
            Collective::Barrier(barrier) => {
                chair.arrival.fetch_add(1, Ordering::Release);
                has_outcome = barrier != Barrier::Sync;
            }
            Collective::Cluster => {}
            Collective::Warp { op: WarpOp::Sync, mask } => {
                chair.arrival.fetch_add(1, Ordering::Release);
                chair.op.write(mask, WarpOp::Sync);
            }
            Collective::Warp { op, mask } => {
                orders = false;
                has_outcome = true;
                chair.op.write(mask, op);
            }
        }
        self.table.lock.with(|| self.table.sit_down(self.number, request));
        while chair.turn.fetch_add(0, Ordering::Relaxed) == turn {
            if self.table.stop.load(Ordering::Relaxed) {
                resume_unwind(Box::new(Abandoned));
            }
            sleep::while_is(&chair.turn, turn);
        }
        if orders {
            chair.turn.fetch_add(0, Ordering::Acquire);
        }
        if has_outcome { chair.outcome.read() } else { Outcome::default() }
    }

    /// Lets what the thread did be seen by those that complete the cluster's barrier.
    pub(in super::super) fn release_to_cluster(&self) {
        self.table.chairs[self.number as usize].cluster_arrival.fetch_add(1, Ordering::Release);
    }
}

impl<'a> Table<'a> {
    /// The table for the blocks of a cluster, or one block.
    pub fn new(blocks: &'a [Block<'a>], stop: &'a AtomicBool) -> Self {
        let threads: usize = blocks.iter().map(|block| block.threads as usize).sum();
        let running = Latest::default();
        running.set(threads as u64);
        Self {
            blocks,
            chairs: core::iter::repeat_with(Chair::default).take(threads).collect(),
            lock: Unordered::default(),
            running,
            barriers: blocks.iter().map(|_| Gathering::default()).collect(),
            cluster: Gathering::default(),
            stop,
            fault: Mutex::default(),
        }
    }

    /// How many threads it is for.
    pub fn threads(&self) -> u32 {
        self.chairs.len() as u32
    }

    /// The block of the thread in this seat, and its number there.
    pub fn place(&self, number: u32) -> (&'a Block<'a>, u32) {
        let per_block = self.blocks[0].threads;
        (&self.blocks[(number / per_block) as usize], number % per_block)
    }

    /// Runs the thread in this seat from beginning to end.
    pub fn run(&self, number: u32) {
        let (block, thread) = self.place(number);
        let seat = Seat { table: self, number };
        let port = Port::of_thread(&seat);
        let context = ThreadContext::new(block, thread, &port);
        port.begin(thread, &context);
        let result = context.run();
        block.live_lanes_of(thread).fetch_and(!(1 << (thread % WARP_SIZE)), Ordering::Relaxed);
        match result {
            Ok(()) => self.lock.with(|| self.stand_up(number)),
            Err(payload) if payload.is::<Abandoned>() => {}
            Err(payload) => self.fail(block.fault_from(thread, payload)),
        }
    }

    /// Ends the grid. The first fault at a table is the one that counts.
    pub fn fail(&self, fault: Fault) {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| Box::new(fault));
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The fault, when no thread runs any more.
    pub fn into_fault(self) -> Option<Box<Fault>> {
        self.fault.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread has returned.
    fn stand_up(&self, number: u32) {
        self.chairs[number as usize].state.set(RETURNED);
        self.running.sub(1);
        self.check_running();
    }

    /// A thread has asked for an operation. Completes it if it was the last.
    fn sit_down(&self, number: u32, request: &Request) {
        let is_warp_op = matches!(request.collective, Collective::Warp { .. });
        self.chairs[number as usize].state.set(if is_warp_op { IN_WARP_OP } else { IN_BARRIER });
        self.running.sub(1);
        let per_block = self.blocks[0].threads;
        let block = number / per_block;
        match request.collective {
            Collective::Barrier(barrier) => {
                if self.barriers[block as usize].join(request, per_block.into()) {
                    self.complete_barrier(block, barrier);
                }
            }
            Collective::Cluster => {
                if self.cluster.join(request, self.chairs.len() as u64) {
                    self.complete_cluster();
                }
            }
            Collective::Warp { mask, .. } => {
                let thread = number % per_block;
                self.complete_warp(block, thread / WARP_SIZE, thread % WARP_SIZE, mask);
            }
        }
        self.check_running();
    }

    /// When nobody runs, nobody will ever go on.
    fn check_running(&self) {
        let waits = |chair: &Chair| matches!(chair.state.get(), IN_BARRIER | IN_WARP_OP);
        let is_stuck = self.running.get() == 0 && !self.stop.load(Ordering::Relaxed);
        if is_stuck && self.chairs.iter().any(waits) {
            self.fail(self.why_stuck());
        }
    }

    fn complete_barrier(&self, block: u32, barrier: Barrier) {
        let gathering = &self.barriers[block as usize];
        if gathering.is_mixed.get() != 0
            && let Some(fault) = self.view(block).why_apart()
        {
            return self.fail(fault);
        }
        let agreeing = gathering.leave();
        let outcome = (barrier != Barrier::Sync)
            .then(|| rendezvous::barrier_outcome(barrier, agreeing, self.blocks[0].threads.into()));
        self.let_go(self.numbers(block), |_| true, outcome, |chair| &chair.arrival);
    }

    fn complete_cluster(&self) {
        if self.cluster.is_mixed.get() != 0
            && let Some(fault) = blame::why_cluster_stuck(&self.views())
        {
            return self.fail(fault);
        }
        self.cluster.leave();
        self.let_go(0..self.threads(), |_| true, None, |chair| &chair.cluster_arrival);
    }

    /// Completes the operation of the lane that has come, if all lanes of its mask are there.
    fn complete_warp(&self, block: u32, warp: u32, lane: u32, mask: u32) {
        let numbers = self.numbers(block);
        let first = numbers.start + warp * WARP_SIZE;
        let waits = |number| number < numbers.end && self.chairs[number as usize].state.get() == IN_WARP_OP;
        // Lanes mostly come in order, so the highest says soonest that somebody is missing.
        let mut missing = mask;
        while missing != 0 && waits(first + missing.ilog2()) {
            missing &= !(1 << missing.ilog2());
        }
        if missing != 0 && mask & (1 << lane) != 0 {
            return;
        }
        let mut requests = [None; WARP_SIZE as usize];
        let mut lane = 0;
        while lane < WARP_SIZE {
            let number = first + lane;
            if waits(number) {
                let (mask, op) = self.chairs[number as usize].op.read();
                let collective = Collective::Warp { mask, op };
                requests[lane as usize] =
                    Some(Request { name: "", collective, location: Location::caller() });
            }
            lane += 1;
        }
        // Whether a lane runs, waits for something else or has returned: it does not take part now.
        let mut lanes = [Lane::Returned; WARP_SIZE as usize];
        let mut lane = 0;
        while lane < WARP_SIZE as usize {
            if let Some(request) = &requests[lane] {
                lanes[lane] = Lane::Waits(request);
            }
            lane += 1;
        }
        let done = match rendezvous::complete_warp_ops(&lanes) {
            Ok(done) => done,
            Err(error) => return self.fail(self.view(block).mask_fault(warp, error)),
        };
        let Some(first_request) = requests.get(done.lanes.trailing_zeros() as usize).copied().flatten()
        else {
            return;
        };
        if matches!(first_request.collective, Collective::Warp { op: WarpOp::Sync, .. }) {
            let numbers = first..first + WARP_SIZE;
            return self.let_go(numbers, |lane| done.lanes & (1 << lane) != 0, None, |chair| &chair.arrival);
        }
        let mut rest = done.lanes;
        while rest != 0 {
            let lane = rest.trailing_zeros();
            let chair = &self.chairs[(first + lane) as usize];
            chair.outcome.write(done.outcomes[lane as usize]);
            chair.state.set(RUNS);
            chair.turn.fetch_add(1, Ordering::Relaxed);
            sleep::wake(&chair.turn, 1);
            rest &= rest - 1;
        }
        self.running.add(done.lanes.count_ones().into());
    }

    /// Lets threads go on from an operation that orders: what each did before its arrival comes before what any does
    /// from now on. Of the numbers those that take part, by their place.
    fn let_go(
        &self,
        numbers: core::ops::Range<u32>,
        takes_part: impl Fn(u32) -> bool,
        outcome: Option<Outcome>,
        arrival: impl Fn(&Chair) -> &AtomicU32,
    ) {
        let mut number = numbers.start;
        while number < numbers.end {
            if takes_part(number - numbers.start) {
                arrival(&self.chairs[number as usize]).fetch_add(0, Ordering::Acquire);
            }
            number += 1;
        }
        let mut count = 0;
        number = numbers.start;
        while number < numbers.end {
            if takes_part(number - numbers.start) {
                let chair = &self.chairs[number as usize];
                if let Some(outcome) = outcome {
                    chair.outcome.write(outcome);
                }
                chair.state.set(RUNS);
                chair.turn.fetch_add(1, Ordering::Release);
                sleep::wake(&chair.turn, 1);
                count += 1;
            }
            number += 1;
        }
        self.running.add(count);
    }

    /// The numbers of a block's threads.
    fn numbers(&self, block: u32) -> core::ops::Range<u32> {
        let per_block = self.blocks[0].threads;
        block * per_block..(block + 1) * per_block
    }

    /// What a thread waits for; orders the caller behind it.
    fn request(&self, number: u32) -> Option<Request> {
        let chair = &self.chairs[number as usize];
        if !matches!(chair.state.get(), IN_BARRIER | IN_WARP_OP) {
            return None;
        }
        chair.written.fetch_add(0, Ordering::Acquire);
        // SAFETY: the thread wrote its request before it began to wait, and writes none before it is let go, which
        // takes the lock that the caller holds.
        unsafe { *chair.request.get() }
    }

    /// What the threads of a block wait for, to say what is wrong.
    #[cold]
    fn view(&self, block: u32) -> View<'a> {
        View::new(&self.blocks[block as usize], self.numbers(block).map(|number| self.request(number)))
    }

    #[cold]
    fn views(&self) -> Vec<View<'a>> {
        (0..self.blocks.len() as u32).map(|block| self.view(block)).collect()
    }

    #[cold]
    fn why_stuck(&self) -> Fault {
        let views = self.views();
        let unknown = || {
            let kind = FaultKind::Panic { message: "nobody can go on".into() };
            self.blocks[0].fault_of(None, None, kind)
        };
        let in_block = views.iter().find_map(View::why_stuck);
        in_block.or_else(|| blame::why_cluster_stuck(&views)).unwrap_or_else(unknown)
    }
}
