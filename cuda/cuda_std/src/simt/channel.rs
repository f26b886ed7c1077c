//! The connection between a thread and its scheduler.

use core::cell::Cell;
use std::panic::resume_unwind;

use super::context::{self, Outcome, Ready, Request, ThreadContext};
use super::fiber::FiberYielder;
use super::threads::Waiter;
use crate::pipeline::host::Copies;

/// The panic payload of a thread that leaves its kernel after another one's fault.
pub(super) struct Abandoned;

/// Unwinds a thread after another one's fault.
#[cold]
#[inline(never)]
pub(super) fn abandon() -> ! {
    resume_unwind(Box::new(Abandoned))
}

/// A thread's end of the connection to its scheduler, on the thread's stack.
pub(crate) struct Channel {
    /// Null for a thread that is an OS thread.
    yielder: *const FiberYielder,
    /// Null for a thread that is a fiber.
    waiting: *const Waiter<'static>,
    pub(super) context: Cell<*const ThreadContext<'static>>,
    pub(super) thread: Cell<u32>,
    pub(super) request: Cell<*const Request>,
    pub(super) outcome: Cell<Outcome>,
    /// In a wait for words: its condition.
    pub(super) ready: Cell<Ready>,
    /// Whether the thread has arrived at the cluster's barrier, and must still wait there. It is not in the context,
    /// which is created a little faster without a cell.
    has_arrived: Cell<bool>,
    /// Whether a fiber ends after another thread's fault: every wait begins to unwind it again.
    pub(super) is_ending: Cell<bool>,
    /// The copies that the thread has started; `None` before the first one.
    copies: Cell<Option<Box<Copies>>>,
}

impl Channel {
    /// Creates the channel of a fiber, on its stack below `yielder`.
    pub(super) fn of_fiber(yielder: *const FiberYielder) -> Self {
        Self::new(yielder, core::ptr::null())
    }

    /// Creates the channel of an OS thread.
    pub(super) fn of_thread(waiting: &Waiter<'_>) -> Self {
        Self::new(core::ptr::null(), core::ptr::from_ref(waiting).cast())
    }

    /// Creates a channel for the scheduler's check whether a thread can go on. It cannot wait.
    pub(super) fn of_question() -> Self {
        Self::new(core::ptr::null(), core::ptr::null())
    }

    fn new(yielder: *const FiberYielder, waiting: *const Waiter<'static>) -> Self {
        Channel {
            yielder,
            waiting,
            context: Cell::new(core::ptr::null()),
            thread: Cell::new(0),
            request: Cell::new(core::ptr::null()),
            outcome: Cell::new(Outcome::default()),
            ready: Cell::new(Ready::NEVER),
            has_arrived: Cell::new(false),
            is_ending: Cell::new(false),
            copies: Cell::new(None),
        }
    }

    /// Assigns the channel to another thread.
    #[inline]
    pub(super) fn begin(&self, thread: u32, context: *const ThreadContext<'_>) {
        self.thread.set(thread);
        self.has_arrived.set(false);
        self.copies.set(None);
        self.context.set(context.cast());
    }

    /// Returns whether the thread is a fiber. Others may access a fiber's stack while it waits.
    #[inline(always)]
    pub(crate) fn is_fiber(&self) -> bool {
        !self.yielder.is_null()
    }

    /// Waits until all participants have made their request, and returns this thread's result.
    #[inline(always)]
    pub(crate) fn wait(&self, request: &Request) -> Outcome {
        if context::unwinds() {
            return Outcome::default();
        }
        if self.yielder.is_null() {
            return self.wait_in_seat(request);
        }
        self.request.set(request);
        // SAFETY: the channel lies on the fiber's stack, below its yielder.
        unsafe { &*self.yielder }.suspend(self);
        context::enter(self.context.get());
        if self.is_ending.get() {
            abandon();
        }
        self.outcome.get()
    }

    /// Waits until `ready` has returned true.
    #[inline(always)]
    pub(crate) fn wait_until_ready(&self, request: &Request, ready: Ready) {
        if context::unwinds() {
            return;
        }
        if self.yielder.is_null() {
            return self.waiter().wait_until_ready(request, ready);
        }
        self.ready.set(ready);
        self.wait(request);
    }

    /// Ends a thread that has caught its unwinding after another one's fault, and now sleeps or spins.
    pub(crate) fn look_for_end(&self) {
        // SAFETY: as in `waiter`.
        let waiter = unsafe { self.waiting.as_ref() };
        if (self.is_ending.get() || waiter.is_some_and(Waiter::is_abandoned)) && !context::unwinds() {
            abandon();
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_in_seat(&self, request: &Request) -> Outcome {
        self.waiter().wait(request)
    }

    /// Returns the waiter of an OS thread.
    ///
    /// # Panics
    /// For a channel of [`Self::of_question`]. The scheduler then lets the thread check its condition itself.
    fn waiter(&self) -> &Waiter<'static> {
        // SAFETY: the channel of an OS thread has a waiter, which outlives the thread.
        unsafe { self.waiting.as_ref() }.expect("a condition that waits itself")
    }

    /// Hands the thread's copies to `f`.
    pub(crate) fn with_copies(&self, f: impl FnOnce(&mut Copies)) {
        let mut copies = self.copies.take().unwrap_or_default();
        f(&mut copies);
        self.copies.set(Some(copies));
    }

    /// Performs the copies that continue after the thread has returned.
    #[inline]
    pub(super) fn end_copies(&self) {
        if let Some(copies) = self.copies.take() {
            copies.wgmma.end();
            copies.stores.end();
        }
    }

    /// Makes the thread's writes visible after the cluster's barrier, however it arrives there.
    #[inline]
    pub(crate) fn release_to_cluster(&self) {
        // SAFETY: as above, if there is a waiter.
        if let Some(waiting) = unsafe { self.waiting.as_ref() } {
            waiting.release_to_cluster();
        }
    }

    /// Notes that the thread has arrived at the cluster's barrier, with its earlier writes if `releases`. Returns false
    /// if it has not waited since its last arrival.
    #[inline]
    pub(crate) fn arrive_at_cluster(&self, releases: bool) -> bool {
        if releases {
            self.release_to_cluster();
        }
        !self.has_arrived.replace(true)
    }

    /// Notes that the thread waits at the cluster's barrier. Returns false if it has not arrived there.
    #[inline]
    pub(crate) fn leave_for_cluster(&self) -> bool {
        self.has_arrived.replace(false)
    }
}
