//! Barriers on the executor.

use core::sync::atomic::{AtomicU64, Ordering};

use super::state::{self, State};
use super::{Barrier, Token};
use crate::cluster;
use crate::simt::FaultKind;
use crate::simt::context::{
    Collective, Lack, ThreadContext, Wait, WaitKind, collective, current, refuse, unwinds, with_running,
};
use crate::simt::shared::BlockShared;

/// Returns the value, or panics with the function's name.
#[track_caller]
pub(super) fn checked<T>(name: &str, result: Result<T, String>) -> T {
    match result {
        Ok(value) => value,
        Err(reason) => panic!("barrier::Barrier::{name}() {reason}"),
    }
}

/// Notes that a barrier is initialised but not fenced.
pub(super) fn note_init(this: *mut Barrier) {
    with_running(|context| context.shared().fences.note_barrier(this.addr()));
}

/// Notes that the barriers are fenced, and orders all of the thread's writes before the cluster's barrier. The hardware
/// orders only the barriers.
pub(super) fn fence_init() {
    with_running(|context| {
        context.channel.release_to_cluster();
        context.shared().fences.fence_barriers();
    });
}

/// Returns the barrier's counterpart in block `rank` of the cluster, or the barrier itself if the thread unwinds and
/// there is none.
#[track_caller]
pub(super) fn remote(full_name: &'static str, this: *mut Barrier, rank: u32) -> Result<*mut Barrier, String> {
    let remote = current(full_name, |context| {
        cluster::remote(context, this.cast(), rank).map(|(remote, _)| remote.cast())
    });
    if unwinds() { Ok(remote.unwrap_or(this)) } else { remote }
}

/// # Safety
/// `this` is valid, and the barrier is accessed only atomically.
unsafe fn bits_of<'a>(this: *mut Barrier) -> &'a AtomicU64 {
    // SAFETY: the barrier is valid and accessed only atomically. It has the size and alignment of the number.
    unsafe { AtomicU64::from_ptr(this.cast()) }
}

/// Changes the state with acquire and release ordering; returns the phase it was in.
///
/// # Safety
/// See [the module](super#safety-of-the-barriers).
#[track_caller]
pub(super) unsafe fn change(
    name: &str,
    this: *mut Barrier,
    f: impl Fn(State) -> Result<State, String>,
) -> Token {
    // SAFETY: the caller guarantees a valid barrier.
    unsafe { change_in(Ordering::AcqRel, name, this, f) }
}

/// Changes the state with relaxed ordering.
///
/// # Safety
/// See [the module](super#safety-of-the-barriers).
#[track_caller]
pub(super) unsafe fn change_relaxed(
    name: &str,
    this: *mut Barrier,
    f: impl Fn(State) -> Result<State, String>,
) {
    // SAFETY: the caller guarantees a valid barrier.
    unsafe { change_in(Ordering::Relaxed, name, this, f) };
}

#[track_caller]
unsafe fn change_in(
    order: Ordering,
    name: &str,
    this: *mut Barrier,
    f: impl Fn(State) -> Result<State, String>,
) -> Token {
    // SAFETY: the caller guarantees a valid barrier.
    let atomic = unsafe { bits_of(this) };
    let mut bits = atomic.load(Ordering::Relaxed);
    loop {
        let next = match State::of(bits).and_then(&f) {
            Ok(next) => next.bits(),
            Err(reason) => {
                refuse("barrier::Barrier::", &format!("{name}() {reason}"));
                return Token { bits };
            }
        };
        match atomic.compare_exchange_weak(bits, next, order, Ordering::Relaxed) {
            Ok(_) => return Token { bits },
            Err(changed) => bits = changed,
        }
    }
}

/// # Safety
/// See [the module](super#safety-of-the-barriers).
#[track_caller]
unsafe fn is_complete(name: &str, this: *mut Barrier, parity: u32) -> bool {
    // A wait of a thread that unwinds is over.
    if unwinds() {
        return true;
    }
    assert!(parity <= 1, "barrier::Barrier::{name}() of parity {parity}; it is 0 or 1");
    // SAFETY: the caller guarantees a valid barrier.
    let bits = unsafe { bits_of(this) }.load(Ordering::Acquire);
    checked(name, State::of(bits)).has_left(parity)
}

/// Same as [`is_complete`], for a thread that checks without waiting.
///
/// # Safety
/// See [the module](super#safety-of-the-barriers).
#[track_caller]
pub(super) unsafe fn look(name: &'static str, this: *mut Barrier, parity: u32) -> bool {
    // SAFETY: the caller guarantees a valid barrier.
    unsafe {
        let looked = |context: &ThreadContext<'_>| {
            let shared = context.shared();
            shared.flights.look(this.cast(), parity, &shared.fences);
        };
        is_complete(name, this, parity) || {
            current(name, looked);
            is_complete(name, this, parity)
        }
    }
}

/// # Safety
/// See [the module](super#safety-of-the-barriers).
#[inline(always)]
#[track_caller]
pub(super) unsafe fn wait(full_name: &'static str, name: &str, this: *mut Barrier, parity: u32) {
    // SAFETY: the caller guarantees a valid barrier.
    while unsafe { !is_complete(name, this, parity) } {
        let wait = Wait { kind: &PHASE, state: this.cast(), number: parity, bound: 0 };
        collective(full_name, Collective::Wait(wait));
    }
}

/// The waits for a phase, whose parity is the number of the wait.
static PHASE: WaitKind = WaitKind { can_go_on, lacks };

/// Performs the missing copies to `shared`, and returns whether a thread that waits for this phase can go on: the phase
/// is over, or the memory no longer holds a barrier, which the thread will report.
///
/// # Safety
/// A thread of the block is in this wait.
unsafe fn can_go_on(&Wait { state, number: parity, .. }: &Wait, shared: &BlockShared) -> bool {
    // SAFETY: the waiting thread guarantees a valid barrier.
    unsafe {
        shared.flights.land(state, parity, &shared.fences);
        state::latest(state).map_or(true, |state| state.has_left(parity))
    }
}

/// # Safety
/// A thread of the block is in this wait.
unsafe fn lacks(wait: &Wait, _: &BlockShared, operation: &'static str) -> Option<Lack> {
    // SAFETY: the waiting thread guarantees a valid barrier.
    let (arrivals, bytes) = unsafe { state::lacks(wait.state) };
    Some(Lack::Fault(FaultKind::PhaseNotCompleted { operation, arrivals, bytes }))
}
