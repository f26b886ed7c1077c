//! The context of a running kernel thread, and its requests to the scheduler for collective operations.
//!
//! Features import this module, and it imports none of them: what a feature keeps for a thread or a block is a value of its
//! own in [`states`](super::states), and what its threads wait for is a [`WaitKind`] of its own.

use core::cell::Cell;
use core::panic::Location;
use core::sync::atomic::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::block::{Block, Member};
use super::channel::Channel;
use super::fault::Place;
use super::grid::Grid;
use super::limit;
pub(crate) use super::request::{
    Barrier, Collective, Lack, Outcome, Ready, Request, ShuffleMode, WARP_SIZE, Wait, WaitKind, WarpOp,
};
use super::shared::BlockShared;
pub(crate) use super::unwind::{refuse, unwinds};
use super::watch::Whose;
use crate::launch::Dim3;

/// A kernel thread, while it runs.
pub(crate) struct ThreadContext<'a> {
    pub thread_idx: Dim3,
    pub block_idx: Dim3,
    pub block_dim: Dim3,
    pub grid_dim: Dim3,
    /// Index of the thread in its block, x fastest.
    pub linear: u32,
    /// The block, for what threads seldom need.
    pub(super) block: &'a Block<'a>,
    /// The scheduler.
    pub channel: &'a Channel,
}

impl<'a> ThreadContext<'a> {
    /// Creates the context of thread number `thread` of `block`.
    #[inline]
    pub(super) fn new(block: &'a Block<'a>, thread: u32, channel: &'a Channel) -> Self {
        ThreadContext {
            thread_idx: block.coordinates(thread),
            block_idx: block.index,
            block_dim: block.grid.config.block,
            grid_dim: block.grid.config.grid,
            linear: thread,
            block,
            channel,
        }
    }

    /// Returns the same thread with another channel.
    pub(super) fn with_channel<'b>(&'b self, channel: &'b Channel) -> ThreadContext<'b> {
        let &ThreadContext { thread_idx, block_idx, block_dim, grid_dim, linear, block, .. } = self;
        ThreadContext { thread_idx, block_idx, block_dim, grid_dim, linear, block, channel }
    }

    /// Runs the thread to its end. The error is the payload of its panic.
    #[inline]
    pub(super) fn run(&self) -> std::thread::Result<()> {
        enter(self);
        let result = catch_unwind(AssertUnwindSafe(|| {
            (self.block.grid.body)();
            self.channel.end_states();
        }));
        enter(core::ptr::null());
        result
    }

    /// Returns what the blocks of the launch share.
    pub(super) fn grid(&self) -> &Grid<'a> {
        self.block.grid
    }

    /// The block's shared memory.
    pub fn shared(&self) -> &BlockShared {
        self.block.shared
    }

    /// The blocks of the cluster, by rank.
    pub fn cluster(&self) -> &[Member] {
        self.block.cluster
    }

    /// Lanes of this thread's warp that have not returned.
    pub fn live_lanes(&self) -> u32 {
        self.block.live_lanes_of(self.linear).load(Ordering::Relaxed)
    }

    /// Returns block and thread.
    pub fn place(&self) -> Place {
        Place { block: self.block_idx, thread: Some(self.thread_idx) }
    }

    /// Returns the thread as faults name it.
    pub(super) fn whose(&self) -> Whose {
        Whose { kernel: self.grid().kernel, place: self.place() }
    }

    /// Lane of the thread in its warp.
    pub fn lane(&self) -> u32 {
        self.linear % WARP_SIZE
    }
}

/// The running kernel thread of each OS thread.
#[cfg(not(miri))]
mod running {
    use super::{Cell, ThreadContext};

    thread_local! {
        static CURRENT: Cell<*const ThreadContext<'static>> = const { Cell::new(core::ptr::null()) };
    }

    #[inline(always)]
    pub(super) fn get() -> *const ThreadContext<'static> {
        CURRENT.with(Cell::get)
    }

    #[inline(always)]
    pub(super) fn replace(context: *const ThreadContext<'static>) -> *const ThreadContext<'static> {
        CURRENT.with(|current| current.replace(context))
    }
}

/// The same for Miri, where the standard library's way takes a hundred steps at every `thread_idx`.
#[cfg(miri)]
mod running {
    use super::{Cell, ThreadContext};

    #[thread_local]
    static CURRENT: Cell<*const ThreadContext<'static>> = Cell::new(core::ptr::null());

    #[inline(always)]
    pub(super) fn get() -> *const ThreadContext<'static> {
        CURRENT.get()
    }

    #[inline(always)]
    pub(super) fn replace(context: *const ThreadContext<'static>) -> *const ThreadContext<'static> {
        CURRENT.replace(context)
    }
}

/// Makes `context` the running thread of this OS thread and returns the one it replaces.
#[inline(always)]
pub(super) fn enter(context: *const ThreadContext<'_>) -> *const ThreadContext<'static> {
    running::replace(context.cast())
}

/// Hands the running kernel thread to `f`, if one runs.
pub(crate) fn with_running(f: impl FnOnce(&ThreadContext<'_>)) {
    let context = running::get();
    // SAFETY: the scheduler resets the pointer before the context ends.
    if let Some(context) = unsafe { context.as_ref() } {
        f(context);
    }
}

/// Returns whether a kernel thread runs on this OS thread.
pub(super) fn is_inside() -> bool {
    !running::get().is_null()
}

/// Passes the running kernel thread to `f`. `name` is the device function that calls this.
///
/// # Panics
/// Outside a launch; the message names the function and the fix.
#[inline(always)]
#[track_caller]
pub(crate) fn current<R>(name: &'static str, f: impl FnOnce(&ThreadContext<'_>) -> R) -> R {
    let context = running::get();
    if context.is_null() {
        outside_launch(name);
    }
    // SAFETY: the scheduler sets the pointer to a context that lives as long as the kernel thread runs, and resets it
    // before that context ends.
    f(unsafe { &*context })
}

#[cold]
#[track_caller]
fn outside_launch(name: &'static str) -> ! {
    panic!(
        "{name}() was called outside a kernel; launch the kernel through its `launch` function or `simt::Executor`"
    )
}

/// Requests a collective operation and waits for its result. If the thread [`unwinds`], this returns at once.
///
/// This is inlined into the kernel, down to the stack switch. After a switch the processor mispredicts every return,
/// and each of them costs more than the switch itself.
#[inline(always)]
#[track_caller]
pub(crate) fn collective(name: &'static str, collective: Collective) -> Outcome {
    let location = Location::caller();
    current(name, |context| context.channel.wait(&Request { name, collective, location }))
}

/// Suspends the thread until `ready` has been true, as long as it is worth asking: the caller asks again.
///
/// # Panics
/// In a launch that is not cooperative, where the awaited thread may never run.
#[inline]
#[track_caller]
pub(crate) fn wait_until_ready(name: &'static str, ready: &impl Fn() -> bool) {
    let (location, ready) = (Location::caller(), Ready::of(ready));
    let request = Request { name, collective: Collective::Words, location };
    current(name, |context| context.channel.wait_until_ready(&request, ready));
}

/// Ends the running kernel thread with a fault if its launch is over the limit. Atomics call it: kernels wait with them.
#[inline(always)]
pub(crate) fn check_time() {
    if !cfg!(miri) && limit::any_expired() {
        fail_if_expired();
    }
}

#[cold]
fn fail_if_expired() {
    // A destructor must not panic; the thread ends with the first fault.
    if unwinds() {
        return;
    }
    with_running(|thread| {
        if let Some(clock) = thread.grid().clock.filter(|clock| clock.has_expired()) {
            resume_unwind(Box::new(clock.fault()));
        }
    });
}

/// Checks that blocks of the launch may wait for each other.
///
/// # Panics
/// If they may not; the message has the fix.
#[inline]
#[track_caller]
pub(crate) fn check_cooperative(name: &'static str) {
    let is_cooperative = current(name, |context| context.grid().is_cooperative);
    assert!(
        is_cooperative || unwinds(),
        "{name}() in a launch that is not cooperative, where the block that it waits for may never run; make the kernel a \
         #[kernel(cooperative)]"
    );
}
