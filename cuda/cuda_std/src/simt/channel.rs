//! Where a thread and its scheduler meet.

use core::cell::Cell;

use super::context::{self, Outcome, Ready, Request, ThreadContext};
use super::fiber::FiberYielder;
use super::threads::Waiter;
use crate::pipeline::host::Copies;

/// A thread's side of its scheduler. It lies on the thread's stack.
pub(crate) struct Channel {
    /// Null for a thread that is an OS thread.
    yielder: *const FiberYielder,
    /// Null for a thread that is a fiber.
    waiting: *const Waiter<'static>,
    pub(super) context: Cell<*const ThreadContext<'static>>,
    pub(super) thread: Cell<u32>,
    pub(super) request: Cell<*const Request>,
    pub(super) outcome: Cell<Outcome>,
    /// In a wait for words: whether it is over.
    pub(super) ready: Cell<Ready>,
    /// Whether the thread has arrived at the cluster's barrier, for which it then has to wait. Here and not in its
    /// context, which is made a little faster without a cell.
    has_arrived: Cell<bool>,
    /// The copies that the thread has started; none as long as it has not.
    copies: Cell<Option<Box<Copies>>>,
}

impl Channel {
    /// The channel of a fiber, below whose yielder it lies.
    pub(super) fn of_fiber(yielder: *const FiberYielder) -> Self {
        Self::new(yielder, core::ptr::null())
    }

    /// The channel of an OS thread.
    pub(super) fn of_thread(waiting: &Waiter<'_>) -> Self {
        Self::new(core::ptr::null(), core::ptr::from_ref(waiting).cast())
    }

    /// The channel of a thread while its scheduler asks whether it can go on: it cannot wait.
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
            copies: Cell::new(None),
        }
    }

    /// Makes the channel that of another thread.
    #[inline]
    pub(super) fn begin(&self, thread: u32, context: *const ThreadContext<'_>) {
        self.thread.set(thread);
        self.has_arrived.set(false);
        self.copies.set(None);
        self.context.set(context.cast());
    }

    /// Whether the thread is a fiber, whose stack others may look at while it waits.
    #[inline(always)]
    pub(crate) fn is_fiber(&self) -> bool {
        !self.yielder.is_null()
    }

    /// Waits until all that take part have asked, and returns this thread's share of the result.
    #[inline(always)]
    pub(crate) fn wait(&self, request: &Request) -> Outcome {
        if self.yielder.is_null() {
            return self.wait_in_seat(request);
        }
        self.request.set(request);
        // SAFETY: the channel lies on the fiber's stack, below its yielder.
        unsafe { &*self.yielder }.suspend(self);
        context::enter(self.context.get());
        self.outcome.get()
    }

    /// Waits until `ready` has been true.
    #[inline(always)]
    pub(crate) fn wait_until_ready(&self, request: &Request, ready: Ready) {
        if self.yielder.is_null() {
            return self.waiter().wait_until_ready(request, ready);
        }
        self.ready.set(ready);
        self.wait(request);
    }

    #[cold]
    #[inline(never)]
    fn wait_in_seat(&self, request: &Request) -> Outcome {
        self.waiter().wait(request)
    }

    /// The waiter of an OS thread.
    ///
    /// # Panics
    /// For the channel of a question. The scheduler then lets the thread ask itself.
    fn waiter(&self) -> &Waiter<'static> {
        // SAFETY: the channel of an OS thread has a waiting, which lives longer than the thread.
        unsafe { self.waiting.as_ref() }.expect("a condition that waits itself")
    }

    /// Hands the thread's copies to `f`.
    pub(crate) fn with_copies(&self, f: impl FnOnce(&mut Copies)) {
        let mut copies = self.copies.take().unwrap_or_default();
        f(&mut copies);
        self.copies.set(Some(copies));
    }

    /// Makes the copies that go on when the thread has returned.
    #[inline]
    pub(super) fn end_copies(&self) {
        if let Some(copies) = self.copies.take() {
            copies.wgmma.end();
            copies.stores.end();
        }
    }

    /// Lets what the thread has written be seen after the cluster's barrier, whatever way it arrives there.
    #[inline]
    pub(crate) fn release_to_cluster(&self) {
        // SAFETY: as above, if there is a waiting.
        if let Some(waiting) = unsafe { self.waiting.as_ref() } {
            waiting.release_to_cluster();
        }
    }

    /// Notes that the thread has arrived at the cluster's barrier, with its earlier writes if `releases`. False if it
    /// has not waited since it last arrived.
    #[inline]
    pub(crate) fn arrive_at_cluster(&self, releases: bool) -> bool {
        if releases {
            self.release_to_cluster();
        }
        !self.has_arrived.replace(true)
    }

    /// Notes that the thread waits at the cluster's barrier. False if it has not arrived there.
    #[inline]
    pub(crate) fn leave_for_cluster(&self) -> bool {
        self.has_arrived.replace(false)
    }
}
