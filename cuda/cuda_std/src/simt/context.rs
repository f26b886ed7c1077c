//! The context of a running kernel thread, and its requests to the scheduler for collective operations.

use core::cell::Cell;
use core::panic::Location;
use core::sync::atomic::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Grid;
use super::block::{Block, Member};
use super::channel::Channel;
pub(crate) use super::panic_hook::{refuse, unwinds};
use super::shared::BlockShared;
use crate::launch::Dim3;
use crate::mma::Exchange;
use crate::warp::{Fold, NumberType, WarpReductionOp};
use crate::{barrier, thread};

/// Lanes in a warp.
pub(crate) const WARP_SIZE: u32 = 32;

/// A collective operation as one thread requests it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Collective {
    /// `bar.sync 0` and its reductions over a predicate, by all threads of the block.
    Barrier(Barrier),
    /// `barrier.cluster.wait`, by all threads of the cluster.
    Cluster,
    /// A wait of one thread for words; its channel has the condition.
    Words,
    /// The end of a phase of a barrier in shared memory, for which each thread waits separately.
    Phase {
        /// The barrier's state.
        barrier: *mut u64,
        /// The phase's parity.
        parity: u32,
    },
    /// The end of a round of a numbered barrier of the block, for which each thread waits separately.
    Named {
        /// The barrier's state.
        barrier: *mut u64,
        /// The number of the round.
        round: u32,
    },
    /// A wait for a group of multiplications: until all threads of the warpgroup have started them.
    Warpgroup {
        /// The warpgroup's number in the block.
        number: u32,
        /// The multiplications.
        bound: u64,
    },
    /// An operation of the lanes that `mask` names.
    Warp {
        /// One bit per participating lane.
        mask: u32,
        /// The operation with this lane's operands.
        op: WarpOp,
    },
}

impl Collective {
    /// Returns whether it orders its threads' earlier accesses before their later ones. Barriers do; shuffles do not.
    pub fn orders(&self) -> bool {
        match self {
            Collective::Barrier(_) | Collective::Cluster => true,
            // The loads of the words may order.
            Collective::Words => false,
            Collective::Warp { op, .. } => matches!(op, WarpOp::Sync),
            // The barrier's own atomics order.
            Collective::Phase { .. } | Collective::Named { .. } => false,
            Collective::Warpgroup { .. } => false,
        }
    }

    /// Returns whether a wait for a phase or a round is over, after the copies to `shared` that the phase lacks.
    ///
    /// # Safety
    /// A thread of the block is in this wait.
    pub unsafe fn is_over(&self, shared: &BlockShared) -> Option<bool> {
        // SAFETY: the caller keeps the contract.
        unsafe {
            match *self {
                Collective::Phase { barrier, parity } => {
                    Some(barrier::host::can_go_on(shared, barrier, parity))
                }
                Collective::Named { barrier, round } => Some(thread::named::host::can_go_on(barrier, round)),
                Collective::Warpgroup { number, bound } => Some(shared.wgmma.can_go_on(number, bound)),
                _ => None,
            }
        }
    }
}

/// The forms of the block barrier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Barrier {
    /// No value.
    Sync,
    /// The number of threads whose predicate is true.
    Count(bool),
    /// 1 if all predicates are true, else 0.
    And(bool),
    /// 1 if any predicate is true, else 0.
    Or(bool),
}

/// Where a shuffle reads from (PTX ISA, `shfl.sync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShuffleMode {
    /// From lane `b` of the segment.
    Idx,
    /// From the lane `b` below.
    Up,
    /// From the lane `b` above.
    Down,
    /// From the lane at this lane's number xor `b`.
    Xor,
}

/// The operations of a warp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WarpOp {
    /// `bar.warp.sync`.
    Sync,
    /// The value of another lane; the flag says whether that lane was in range.
    Shuffle { mode: ShuffleMode, value: u128, b: u32, width: u32 },
    /// Flag: whether all predicates are true.
    VoteAll(bool),
    /// Flag: whether any predicate is true.
    VoteAny(bool),
    /// Value: one bit per lane whose predicate is true.
    VoteBallot(bool),
    /// Value: the mask of lanes that hold the same bits.
    MatchAny(u64),
    /// Value: the mask, and the flag true, if all lanes hold the same bits; else 0 and false.
    MatchAll(u64),
    /// Value: the reduction, as the two's complement of the 64-bit result. `value` is the operand, sign- or
    /// zero-extended, so that minimum and maximum compare as the operand's type does.
    Reduce { op: WarpReductionOp, value: i64 },
    /// Value: the fold of this lane's segment of `width` lanes, by halves: each lane of the lower half combines its
    /// value with that of its partner in the upper half, until one is left. `value` has the bits of the operand.
    Fold { fold: Fold, of: NumberType, value: u64, width: u32 },
    /// No value: all lanes wait, and the results are written to what they have lent.
    Exchange { exchange: Exchange, lent: *mut () },
}

/// The result of a collective operation for one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// See [`WarpOp`] and [`Barrier`].
    pub value: u128,
    /// See [`WarpOp`].
    pub flag: bool,
}

/// The condition of a wait for words: a closure on the thread's stack, without its type and lifetime.
#[derive(Clone, Copy)]
pub(crate) struct Ready {
    closure: *const (),
    call: unsafe fn(*const ()) -> bool,
}

impl Ready {
    pub(super) const NEVER: Ready = Ready { closure: core::ptr::null(), call: |_| false };

    /// Erases the closure's type and lifetime.
    fn of<F: Fn() -> bool>(closure: &F) -> Ready {
        // SAFETY: this is called with the pointer below, to a live closure of this type.
        let call = |closure: *const ()| unsafe { (*closure.cast::<F>())() };
        Ready { closure: core::ptr::from_ref(closure).cast(), call }
    }

    /// Evaluates the condition.
    ///
    /// # Safety
    /// The closure is alive: its thread is in the wait that this was created for.
    #[inline]
    pub(super) unsafe fn ask(self) -> bool {
        // SAFETY: the caller guarantees the closure, and the function was created for its type.
        unsafe { (self.call)(self.closure) }
    }
}

/// A request with its source location.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The function the kernel called, as the user knows it.
    pub name: &'static str,
    /// The operation.
    pub collective: Collective,
    /// The call in the kernel's source.
    pub location: &'static Location<'static>,
}

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
            self.channel.end_copies();
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
    // SAFETY: as in `current`.
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
