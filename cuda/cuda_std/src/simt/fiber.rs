//! Fibers: the stacks that kernel threads run on, and the code that runs there.

use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicUsize, Ordering};
use corosensei::{Coroutine, CoroutineResult};

use super::block::Block;
use super::channel::{Channel, FiberYielder};
use super::context::{self, ThreadContext, WARP_SIZE};
use super::fault::Fault;
use super::stack::ColouredStack;

/// A fiber is resumed with its [`Work`].
pub(super) type Fiber = Coroutine<*const (), *const Channel, (), ColouredStack>;

/// What the fibers of a block share with its scheduler.
pub(super) struct Work<'a> {
    pub block: &'a Block<'a>,
    pub next_thread: Cell<u32>,
    /// In a launch with a seed, the thread to start now.
    pub to_start: Cell<Option<u32>>,
    pub fault: RefCell<Option<Fault>>,
}

impl<'a> Work<'a> {
    /// Creates the work of all threads of the block, not yet started.
    pub fn new(block: &'a Block<'a>) -> Self {
        Self { block, next_thread: Cell::new(0), to_start: Cell::new(None), fault: RefCell::new(None) }
    }
}

/// The number of times that a thread may catch its unwinding. With `panic = "abort"` no thread can be unwound.
const MOST_UNWINDINGS: u32 = if cfg!(panic = "abort") { 0 } else { 64 };

/// The fibers of a block: between two blocks all of them are idle.
#[derive(Default)]
pub(super) struct Team {
    pub fibers: Vec<Fiber>,
    /// The number of them that [`FIBERS`] counts.
    noted: usize,
}

thread_local! {
    /// The teams of this OS thread that have no block: at most the number of blocks of a cluster.
    static TEAMS: RefCell<Vec<Team>> = const { RefCell::new(Vec::new()) };
}

/// The number of fibers in all teams.
static FIBERS: AtomicUsize = AtomicUsize::new(0);

/// The number of idle fibers that may be kept. A fiber's stack is two mappings, and Linux gives a process 65530.
pub(super) const MOST_IDLE_FIBERS: usize = 24_000;

impl Team {
    /// Returns a team of this OS thread that has no block, or a new one.
    pub fn take() -> Team {
        TEAMS.with(|teams| teams.borrow_mut().pop()).unwrap_or_default()
    }

    /// Keeps the team for the next block, unless there are more than `most` fibers already.
    pub fn give_back(mut self, most: usize) {
        self.fibers.retain(|fiber| !fiber.done());
        self.note_size();
        if FIBERS.load(Ordering::Relaxed) <= most {
            TEAMS.with(|teams| teams.borrow_mut().push(self));
        }
    }

    /// Updates the number of all fibers by the change in this team.
    fn note_size(&mut self) {
        let before = core::mem::replace(&mut self.noted, self.fibers.len());
        FIBERS.fetch_add(self.noted.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Unwinds the threads that these fibers hold, after a fault of the block. A fiber whose thread catches that without
    /// end is leaked: others may have references into its stack.
    pub fn unwind(&mut self, work: &Work<'_>, held: impl Iterator<Item = (usize, *const Channel)>) {
        let mut lost: Vec<usize> = held
            .filter(|&(number, channel)| {
                // SAFETY: the fiber is suspended, and its channel lives on its stack in `fiber_body`, which never ends.
                let channel = unsafe { &*channel };
                channel.is_ending.set(true);
                let fiber = &mut self.fibers[number];
                let mut resume = || fiber.resume(core::ptr::from_ref(work).cast());
                // Null once it is idle.
                let has_ended = (0..MOST_UNWINDINGS)
                    .any(|_| matches!(resume(), CoroutineResult::Yield(channel) if channel.is_null()));
                channel.is_ending.set(!has_ended);
                !has_ended
            })
            .map(|(number, _)| number)
            .collect();
        context::enter(core::ptr::null());
        lost.sort_unstable();
        lost.into_iter().rev().for_each(|number| core::mem::forget(self.fibers.remove(number)));
    }

    /// Returns the fiber with this number, and creates it if it is the next one.
    pub fn fiber(&mut self, number: usize) -> std::io::Result<&mut Fiber> {
        if number == self.fibers.len() {
            self.fibers.push(Fiber::with_stack(ColouredStack::take()?, fiber_body));
        }
        Ok(&mut self.fibers[number])
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        for mut fiber in self.fibers.drain(..) {
            if !fiber.done() {
                // SAFETY: an idle fiber waits in `fiber_body`, with nothing on its stack that has a destructor. Other
                // fibers were unwound before the team is dropped.
                unsafe { fiber.force_reset() };
            }
            fiber.into_stack().give_back();
        }
        self.note_size();
    }
}

/// The body of a fiber: for one block after the other, runs threads until all have started.
fn fiber_body(yielder: &FiberYielder, mut work: *const ()) {
    let channel = Channel::of_fiber(yielder);
    loop {
        // SAFETY: a scheduler resumes its fibers with the work it borrows, and outlives what they do for it.
        run_threads(unsafe { &*work.cast::<Work<'static>>() }, &channel);
        work = yielder.suspend(core::ptr::null());
    }
}

fn run_threads(work: &Work<'_>, channel: &Channel) {
    if work.block.grid.seed.is_some() {
        return run_each(work, channel, || work.to_start.take());
    }
    run_each(work, channel, || {
        let thread = work.next_thread.get();
        (thread < work.block.threads).then(|| work.next_thread.replace(thread + 1))
    });
}

#[inline(always)]
fn run_each(work: &Work<'_>, channel: &Channel, next: impl Fn() -> Option<u32>) {
    let block = work.block;
    while let Some(thread) = next() {
        let context = ThreadContext::new(block, thread, channel);
        channel.begin(thread, &context);
        let result = context.run();
        // All threads of the block run on this OS thread, so this need not be one atomic operation.
        let live_lanes = block.live_lanes_of(thread);
        live_lanes
            .store(live_lanes.load(Ordering::Relaxed) & !(1 << (thread % WARP_SIZE)), Ordering::Relaxed);
        if channel.is_ending.get() {
            // The block has failed. Whatever the thread ended with, it is not the first fault, and its destructor may panic.
            core::mem::forget(result);
            return;
        }
        if let Err(payload) = result {
            *work.fault.borrow_mut() = Some(block.fault_from(thread, payload));
            return;
        }
    }
}
