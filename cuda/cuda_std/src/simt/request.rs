//! What a kernel thread requests from its scheduler, as data.

use core::panic::Location;

use super::fault::FaultKind;
use super::shared::BlockShared;
use crate::mma::Exchange;
use crate::warp::{Fold, NumberType, WarpReductionOp};

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
    /// A wait of one thread until something holds in its block.
    Wait(Wait),
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
            // The atomics of what it waits for order.
            Collective::Wait(_) => false,
        }
    }
}

/// What one thread waits for. Fields that its kind does not need are 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wait {
    pub kind: &'static WaitKind,
    /// The memory that changes when the wait is over, such as that of a barrier.
    pub state: *mut u64,
    pub number: u32,
    pub bound: u64,
}

/// The waits of a feature. It keeps one of these in a static.
#[derive(Debug)]
pub(crate) struct WaitKind {
    /// Returns whether a thread of the block in this wait can go on, after the work that only the wait lacks.
    pub can_go_on: unsafe fn(&Wait, &BlockShared) -> bool,
    /// Returns what a thread of the block that waits in this function lacks.
    pub lacks: unsafe fn(&Wait, &BlockShared, &'static str) -> Option<Lack>,
}

impl PartialEq for WaitKind {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

/// What a thread waits for in vain.
pub(crate) enum Lack {
    /// This is the fault.
    Fault(FaultKind),
    /// The thread with this number in the block starts no multiplication.
    Thread(u32),
}

impl Wait {
    /// Returns whether the wait is over.
    ///
    /// # Safety
    /// A thread of the block is in this wait.
    #[inline]
    pub unsafe fn is_over(&self, shared: &BlockShared) -> bool {
        // SAFETY: a thread of the block is in this wait.
        unsafe { (self.kind.can_go_on)(self, shared) }
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
    pub const NEVER: Ready = Ready { closure: core::ptr::null(), call: |_| false };

    /// Erases the closure's type and lifetime.
    pub fn of<F: Fn() -> bool>(closure: &F) -> Ready {
        // SAFETY: this is called with the pointer below, to a live closure of this type.
        let call = |closure: *const ()| unsafe { (*closure.cast::<F>())() };
        Ready { closure: core::ptr::from_ref(closure).cast(), call }
    }

    /// Evaluates the condition.
    ///
    /// # Safety
    /// The closure is alive: its thread is in the wait that this was created for.
    #[inline]
    pub unsafe fn ask(self) -> bool {
        // SAFETY: the closure is alive, and the function was created for its type.
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
