//! Fibers: the stacks that kernel threads run on, and what happens there.

use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use corosensei::{Coroutine, Yielder};

use super::context::{self, Outcome, Request, ThreadContext, WARP_SIZE};
use super::fault::{Fault, FaultKind, Place, SourceLine};
use super::shared::BlockShared;
use super::stack::ColouredStack;
use super::{Grid, cluster::Member, panic_hook};
use crate::launch::Dim3;

/// A fiber is resumed with the block that it works for, and yields its port, or null once it is idle.
pub(super) type Fiber = Coroutine<*const Block<'static>, *const Port, (), ColouredStack>;
type FiberYielder = Yielder<*const Block<'static>, *const Port>;

/// Where a thread and its scheduler meet. It lies on the fiber's stack.
pub(crate) struct Port {
    yielder: *const FiberYielder,
    context: Cell<*const ThreadContext<'static>>,
    pub(super) thread: Cell<u32>,
    pub(super) request: Cell<*const Request>,
    pub(super) outcome: Cell<Outcome>,
    /// Whether the thread has arrived at the cluster's barrier, for which it then has to wait. Here and not in its
    /// context, which is made a little faster without a cell.
    pub(crate) has_arrived: Cell<bool>,
}

impl Port {
    /// Waits until all that take part have asked, and returns this thread's share of the result.
    #[inline(always)]
    pub(crate) fn wait(&self, request: &Request) -> Outcome {
        self.request.set(request);
        // SAFETY: the port lies on the fiber's stack, below its yielder.
        unsafe { &*self.yielder }.suspend(self);
        context::enter(self.context.get());
        self.outcome.get()
    }
}

/// What the fibers of a block share with its scheduler.
pub(super) struct Block<'a> {
    pub grid: &'a Grid<'a>,
    pub index: Dim3,
    pub threads: u32,
    pub next_thread: Cell<u32>,
    pub live_lanes: Vec<Cell<u32>>,
    pub shared: &'a BlockShared,
    /// The blocks of its cluster, itself included.
    pub cluster: &'a [Member],
    pub fault: RefCell<Option<Fault>>,
}

/// The fibers of a block: between two blocks all of them are idle.
#[derive(Default)]
pub(super) struct Team {
    pub fibers: Vec<Fiber>,
    /// How many of them are in [`FIBERS`].
    noted: usize,
}

thread_local! {
    /// The teams of this OS thread that have no block: as many as a cluster has had blocks.
    static TEAMS: RefCell<Vec<Team>> = const { RefCell::new(Vec::new()) };
}

/// Fibers of all teams.
static FIBERS: AtomicUsize = AtomicUsize::new(0);

/// Fibers that may be kept while they are idle. A fiber's stack is two mappings, and Linux gives a process 65530.
const MOST_IDLE_FIBERS: usize = 24_000;

impl Team {
    /// A team of this OS thread that has no block, or a new one.
    pub fn take() -> Team {
        TEAMS.with(|teams| teams.borrow_mut().pop()).unwrap_or_default()
    }

    /// Keeps the team for the next block, unless there are very many already.
    pub fn give_back(mut self) {
        self.fibers.retain(|fiber| !fiber.done());
        self.note_size();
        if FIBERS.load(Ordering::Relaxed) <= MOST_IDLE_FIBERS {
            TEAMS.with(|teams| teams.borrow_mut().push(self));
        }
    }

    /// Corrects the number of all fibers by what has changed in this team.
    fn note_size(&mut self) {
        let before = core::mem::replace(&mut self.noted, self.fibers.len());
        FIBERS.fetch_add(self.noted.wrapping_sub(before), Ordering::Relaxed);
    }

    /// The fiber with this number, made if it is the next one.
    pub fn fiber(&mut self, number: usize) -> std::io::Result<&mut Fiber> {
        if number == self.fibers.len() {
            self.fibers.push(Fiber::with_stack(ColouredStack::new()?, fiber_body));
        }
        Ok(&mut self.fibers[number])
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        for fiber in self.fibers.iter_mut().filter(|fiber| !fiber.done()) {
            // SAFETY: an idle fiber waits in `fiber_body`, with nothing on its stack that has a destructor. Those
            // that are not idle when a team is dropped were unwound before.
            unsafe { fiber.force_reset() };
        }
        self.fibers.clear();
        self.note_size();
    }
}

/// The body of a fiber: for one block after the other, runs threads until none is left that has not started.
fn fiber_body(yielder: &FiberYielder, mut block: *const Block<'static>) {
    let port = Port {
        yielder,
        context: Cell::new(core::ptr::null()),
        thread: Cell::new(0),
        request: Cell::new(core::ptr::null()),
        outcome: Cell::new(Outcome::default()),
        has_arrived: Cell::new(false),
    };
    loop {
        // SAFETY: a scheduler resumes its fibers with the block it borrows, and outlives their work for it.
        run_threads(unsafe { &*block }, &port);
        block = yielder.suspend(core::ptr::null());
    }
}

fn run_threads(block: &Block<'_>, port: &Port) {
    while block.next_thread.get() < block.threads {
        let thread = block.next_thread.replace(block.next_thread.get() + 1);
        let live_lanes = &block.live_lanes[(thread / WARP_SIZE) as usize];
        let context = ThreadContext {
            thread_idx: block.coordinates(thread),
            block_idx: block.index,
            block_dim: block.grid.config.block,
            grid_dim: block.grid.config.grid,
            linear: thread,
            block,
            live_lanes,
            port,
        };
        port.thread.set(thread);
        port.has_arrived.set(false);
        port.context.set((&raw const context).cast());
        context::enter(&context);
        let result = catch_unwind(AssertUnwindSafe(block.grid.body));
        context::enter(core::ptr::null());
        live_lanes.set(live_lanes.get() & !(1 << (thread % WARP_SIZE)));
        if let Err(payload) = result {
            if block.fault.borrow().is_some() {
                // The block is being torn down, and this is the unwinding that does it.
                resume_unwind(payload);
            }
            let (kind, location) = match payload.downcast::<FaultKind>() {
                Ok(kind) => (*kind, None),
                Err(_) => {
                    let (message, location) = panic_hook::take();
                    (FaultKind::Panic { message }, location)
                }
            };
            *block.fault.borrow_mut() = Some(block.fault_of(Some(thread), location, kind));
            return;
        }
    }
}

impl Block<'_> {
    #[inline]
    pub fn coordinates(&self, thread: u32) -> Dim3 {
        let Dim3 { x, y, z } = self.grid.config.block;
        if y == 1 && z == 1 {
            return Dim3::new(thread, 0, 0);
        }
        Dim3::new(thread % x, thread / x % y, thread / x / y)
    }

    pub fn fault_of(&self, thread: Option<u32>, location: Option<SourceLine>, kind: FaultKind) -> Fault {
        let place = Place { block: self.index, thread: thread.map(|thread| self.coordinates(thread)) };
        Fault { kernel: self.grid.kernel, place, location, kind }
    }
}
