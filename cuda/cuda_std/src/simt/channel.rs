//! The connection between a thread and its scheduler.

use core::cell::Cell;
use std::panic::resume_unwind;

use corosensei::Yielder;

use super::context::{self, Outcome, Ready, Request, ThreadContext};
use super::states::{State, States};

/// A fiber is resumed with the block that it works for, and yields its channel, or null once it is idle.
pub(super) type FiberYielder = Yielder<*const (), *const Channel>;

/// How an OS thread waits.
pub(super) trait Waiter {
    /// Waits until all participants have made their request, and returns this thread's result.
    fn wait(&self, request: &Request) -> Outcome;

    /// Waits until `ready` is true. This thread evaluates it, with the ordering of its loads and no other.
    fn wait_until_ready(&self, request: &Request, ready: Ready);

    /// Returns whether the thread was unwound after another one's fault.
    fn is_abandoned(&self) -> bool;

    /// Makes what the thread did visible to the thread that completes the cluster's barrier.
    fn release_to_cluster(&self);
}

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
    /// `None` for a thread that is a fiber.
    waiter: Option<*const dyn Waiter>,
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
    /// What features keep for the thread; `None` before the first value.
    states: Cell<Option<Box<States>>>,
}

impl Channel {
    /// Creates the channel of a fiber, on its stack below `yielder`.
    pub(super) fn of_fiber(yielder: *const FiberYielder) -> Self {
        Self::new(yielder, None)
    }

    /// Creates the channel of an OS thread.
    ///
    /// # Safety
    /// The waiter outlives the channel.
    pub(super) unsafe fn of_thread<'a>(waiter: &'a (dyn Waiter + 'a)) -> Self {
        // SAFETY: only the lifetime changes, and the waiter outlives the channel.
        let waiter = unsafe { core::mem::transmute::<&'a (dyn Waiter + 'a), &'static dyn Waiter>(waiter) };
        Self::new(core::ptr::null(), Some(waiter))
    }

    /// Creates a channel for the scheduler's check whether a thread can go on. It cannot wait.
    pub(super) fn of_question() -> Self {
        Self::new(core::ptr::null(), None)
    }

    fn new(yielder: *const FiberYielder, waiter: Option<*const dyn Waiter>) -> Self {
        Channel {
            yielder,
            waiter,
            context: Cell::new(core::ptr::null()),
            thread: Cell::new(0),
            request: Cell::new(core::ptr::null()),
            outcome: Cell::new(Outcome::default()),
            ready: Cell::new(Ready::NEVER),
            has_arrived: Cell::new(false),
            is_ending: Cell::new(false),
            states: Cell::new(None),
        }
    }

    /// Assigns the channel to another thread.
    #[inline]
    pub(super) fn begin(&self, thread: u32, context: *const ThreadContext<'_>) {
        self.thread.set(thread);
        self.has_arrived.set(false);
        self.states.set(None);
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
        let is_abandoned = self.os_waiter().is_some_and(Waiter::is_abandoned);
        if (self.is_ending.get() || is_abandoned) && !context::unwinds() {
            abandon();
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_in_seat(&self, request: &Request) -> Outcome {
        self.waiter().wait(request)
    }

    /// Returns the waiter of a thread that is an OS thread.
    fn os_waiter(&self) -> Option<&dyn Waiter> {
        // SAFETY: the caller of `of_thread` guarantees that the waiter outlives the channel.
        self.waiter.map(|waiter| unsafe { &*waiter })
    }

    /// Returns the waiter of an OS thread.
    ///
    /// # Panics
    /// For a channel of [`Self::of_question`]. The scheduler then lets the thread check its condition itself.
    fn waiter(&self) -> &dyn Waiter {
        self.os_waiter().expect("a condition that waits itself")
    }

    /// Hands what a feature keeps for the thread to `f`, new at first.
    pub(crate) fn with_state<T: State + Default, R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let mut states = self.states.take().unwrap_or_default();
        let result = f(states.of());
        self.states.set(Some(states));
        result
    }

    /// Ends what features keep for the thread, which has returned.
    #[inline]
    pub(super) fn end_states(&self) {
        if let Some(states) = self.states.take() {
            states.end();
        }
    }

    /// Makes the thread's writes visible after the cluster's barrier, however it arrives there.
    #[inline]
    pub(crate) fn release_to_cluster(&self) {
        if let Some(waiter) = self.os_waiter() {
            waiter.release_to_cluster();
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
