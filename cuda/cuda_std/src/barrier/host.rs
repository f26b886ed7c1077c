//! Barriers on the executor. Their state takes 8 bytes, as on the device.

use core::sync::atomic::{AtomicU64, Ordering};

use super::{Barrier, Token};
use crate::cluster;
use crate::simt::context::{Collective, ThreadContext, collective, current, refuse, unwinds, with_running};
use crate::simt::shared::BlockShared;

/// A barrier's state. From the lowest bit on: 20 bits for the missing arrivals of the phase, 20 for its number of
/// arrivals, 22 for the missing bytes (more may arrive than were expected so far), and the parity of the current phase.
/// The highest bit is zero. Unwritten memory, all ones and all zeros are not barriers.
#[derive(Clone, Copy)]
pub(crate) struct State {
    missing: u32,
    count: u32,
    bytes: i32,
    parity: u32,
}

impl State {
    const MAX: u32 = Barrier::MAX_COUNT;

    pub fn new(count: u32) -> Result<Self, String> {
        if (1..=Self::MAX).contains(&count) {
            Ok(Self { missing: count, count, bytes: 0, parity: 0 })
        } else {
            Err(format!("of {count} arrivals; a phase takes 1 to {}", Self::MAX))
        }
    }

    /// Decodes a state, or returns why the bits are not a barrier.
    pub fn of(bits: u64) -> Result<Self, String> {
        let part = |shift: u32| (bits >> shift) as u32 & Self::MAX;
        let (missing, count) = (part(0), part(20));
        if bits >> 63 != 0 || count == 0 || missing > count {
            return Err(
                "of memory that does not hold a barrier; call Barrier::init() first, and then a barrier of the block".into(),
            );
        }
        let bytes = ((bits >> 40) as u32 & 0x3f_ffff).cast_signed() << 10 >> 10;
        Ok(Self { missing, count, bytes, parity: (bits >> 62) as u32 & 1 })
    }

    pub fn bits(self) -> u64 {
        let bytes = u64::from(self.bytes.cast_unsigned() & 0x3f_ffff);
        u64::from(self.missing) | u64::from(self.count) << 20 | bytes << 40 | u64::from(self.parity) << 62
    }

    pub fn arrive(self) -> Result<Self, String> {
        match self.missing {
            0 => Err(format!("is one more than the {} arrivals that the phase expects", self.count)),
            missing => Ok(Self { missing: missing - 1, ..self }.advanced()),
        }
    }

    /// Makes the phase expect `bytes` more bytes.
    pub fn expect(self, bytes: u32) -> Result<Self, String> {
        self.with_bytes(i64::from(self.bytes) + i64::from(bytes))
    }

    /// Counts `bytes` as arrived.
    pub fn complete(self, bytes: u32) -> Result<Self, String> {
        Ok(self.with_bytes(i64::from(self.bytes) - i64::from(bytes))?.advanced())
    }

    fn with_bytes(self, bytes: i64) -> Result<Self, String> {
        if bytes.unsigned_abs() <= u64::from(Self::MAX) {
            Ok(Self { bytes: bytes as i32, ..self })
        } else {
            Err(format!("makes {bytes} expected bytes; a phase can have at most {}", Self::MAX))
        }
    }

    /// Begins the next phase if this one is complete.
    fn advanced(self) -> Self {
        if self.missing == 0 && self.bytes == 0 {
            Self { missing: self.count, parity: self.parity ^ 1, ..self }
        } else {
            self
        }
    }

    /// Arrivals and bytes that the phase lacks.
    pub fn lacks(self) -> (u32, i32) {
        (self.missing, self.bytes)
    }

    /// Returns whether the phase of this parity is over.
    pub fn has_left(self, parity: u32) -> bool {
        self.parity != parity
    }

    /// Returns whether the phase of this parity lacks only bytes.
    fn lacks_bytes_alone(self, parity: u32) -> bool {
        !self.has_left(parity) && self.missing == 0
    }
}

/// The parity of an arrival's phase.
pub(super) fn parity_of(bits: u64) -> u32 {
    (bits >> 62) as u32 & 1
}

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
    // SAFETY: the caller promises it, and a barrier has the size and alignment of the number.
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
    // SAFETY: the caller keeps the contract.
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
    // SAFETY: the caller keeps the contract.
    unsafe { change_in(Ordering::Relaxed, name, this, f) };
}

#[track_caller]
unsafe fn change_in(
    order: Ordering,
    name: &str,
    this: *mut Barrier,
    f: impl Fn(State) -> Result<State, String>,
) -> Token {
    // SAFETY: the caller keeps the contract.
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
    // SAFETY: the caller keeps the contract.
    let bits = unsafe { bits_of(this) }.load(Ordering::Acquire);
    checked(name, State::of(bits)).has_left(parity)
}

/// Same as [`is_complete`], for a thread that checks without waiting.
///
/// # Safety
/// See [the module](super#safety-of-the-barriers).
#[track_caller]
pub(super) unsafe fn look(name: &'static str, this: *mut Barrier, parity: u32) -> bool {
    // SAFETY: the caller keeps the contract.
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
    // SAFETY: the caller keeps the contract.
    while unsafe { !is_complete(name, this, parity) } {
        collective(full_name, Collective::Phase { barrier: this.cast(), parity });
    }
}

/// Performs the missing copies to `shared`, and returns whether a thread that waits for this phase can go on: the phase
/// is over, or the memory no longer holds a barrier, which the thread will report.
///
/// # Safety
/// A thread of the block waits for the barrier.
pub(crate) unsafe fn can_go_on(shared: &BlockShared, barrier: *mut u64, parity: u32) -> bool {
    // SAFETY: the waiting thread guarantees a valid barrier.
    unsafe {
        shared.flights.land(barrier, parity, &shared.fences);
        latest(barrier).map_or(true, |state| state.has_left(parity))
    }
}

/// Returns whether a phase of this parity lacks only bytes.
///
/// # Safety
/// As above.
pub(crate) unsafe fn lacks_bytes_alone(barrier: *mut u64, parity: u32) -> bool {
    // SAFETY: as above.
    unsafe { latest(barrier) }.is_ok_and(|state| state.lacks_bytes_alone(parity))
}

/// Returns the barrier's latest state. With the old value that a plain load may return, a thread would count as stuck.
///
/// # Safety
/// As above.
unsafe fn latest(barrier: *mut u64) -> Result<State, String> {
    // SAFETY: as above.
    State::of(unsafe { AtomicU64::from_ptr(barrier) }.fetch_add(0, Ordering::Relaxed))
}

/// Checks that the memory holds a barrier.
///
/// # Safety
/// See [the module](super#safety-of-the-barriers).
pub(crate) unsafe fn check(this: *mut Barrier) -> Result<(), String> {
    // SAFETY: the caller keeps the contract.
    State::of(unsafe { bits_of(this) }.load(Ordering::Relaxed)).map(|_| ())
}

/// Counts the bytes of a copy after its writes. If the barrier cannot count them, a thread that waits for them is stuck.
///
/// # Safety
/// Same as for the function that started the copy.
pub(crate) unsafe fn complete_copy(barrier: *mut u64, bytes: u32) {
    // SAFETY: the caller keeps the contract.
    let atomic = unsafe { AtomicU64::from_ptr(barrier) };
    let complete = |bits| Some(State::of(bits).and_then(|state| state.complete(bytes)).ok()?.bits());
    let _ = atomic.fetch_update(Ordering::AcqRel, Ordering::Relaxed, complete);
}

/// Arrivals and bytes that the current phase lacks.
///
/// # Safety
/// As above.
pub(crate) unsafe fn lacks(barrier: *mut u64) -> (u32, i32) {
    // SAFETY: as above.
    let bits = unsafe { AtomicU64::from_ptr(barrier) }.load(Ordering::Relaxed);
    State::of(bits).map_or((0, 0), State::lacks)
}
