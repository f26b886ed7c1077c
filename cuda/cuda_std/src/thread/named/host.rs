//! Numbered barriers of a block on the executor.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::simt::FaultKind;
use crate::simt::context::{Collective, Lack, WARP_SIZE, Wait, WaitKind, collective, current, unwinds};
use crate::simt::shared::BlockShared;

/// The number of a block's barriers, 0 included.
const BARRIERS: usize = 16;

/// A barrier's state: the number of complete rounds, of expected threads, and of threads that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    rounds: u32,
    count: u16,
    here: u16,
}

impl State {
    fn of(bits: u64) -> Self {
        Self { rounds: (bits >> 32) as u32, count: (bits >> 16) as u16, here: bits as u16 }
    }

    fn bits(self) -> u64 {
        u64::from(self.rounds) << 32 | u64::from(self.count) << 16 | u64::from(self.here)
    }

    /// Counts one more thread, which expects `count` threads.
    fn join(self, count: u16) -> Result<Self, String> {
        if self.here > 0 && self.count != count {
            return Err(format!(
                "of {count} threads, but others wait for {}; pass the same number everywhere",
                self.count
            ));
        }
        if self.here + 1 == count {
            return Ok(Self { rounds: self.rounds.wrapping_add(1), count, here: 0 });
        }
        Ok(Self { count, here: self.here + 1, ..self })
    }
}

/// Counts the thread, and waits. Does neither if the thread unwinds, as below.
#[inline(always)]
#[track_caller]
pub(super) fn sync(name: &'static str, id: u32, count: u32) {
    if unwinds() {
        return;
    }
    let (barrier, round) = joined(name, id, count);
    // SAFETY: the block that has the barrier lives as long as its threads.
    while unsafe { AtomicU64::from_ptr(barrier) }.load(Ordering::Acquire) >> 32 == u64::from(round) {
        let wait = Wait { kind: &ROUND, state: barrier, number: round, bound: 0 };
        collective(name, Collective::Wait(wait));
    }
}

/// Counts the thread.
#[track_caller]
pub(super) fn arrive(name: &'static str, id: u32, count: u32) {
    if !unwinds() {
        joined(name, id, count);
    }
}

/// Counts the thread; returns the barrier and its number of complete rounds before.
#[track_caller]
fn joined(name: &'static str, id: u32, count: u32) -> (*mut u64, u32) {
    assert!(
        (1..BARRIERS as u32).contains(&id),
        "{name}() of barrier {id}; a block has 1 to 15, and 0 for sync_threads()"
    );
    assert!(
        count > 0 && count.is_multiple_of(WARP_SIZE) && count <= 1024,
        "{name}() of {count} threads; they are whole warps, 32 to 1024 threads"
    );
    let joined = current(name, |context| {
        let state = &context.shared().named[id as usize];
        let mut bits = state.load(Ordering::Relaxed);
        loop {
            let next = State::of(bits).join(count as u16)?;
            match state.compare_exchange_weak(bits, next.bits(), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ok((state.as_ptr(), State::of(bits).rounds)),
                Err(changed) => bits = changed,
            }
        }
    });
    match joined {
        Ok(joined) => joined,
        Err::<_, String>(reason) => panic!("{name}() {reason}"),
    }
}

/// The waits for a round. A wait has the number of its round.
static ROUND: WaitKind = WaitKind { can_go_on, lacks };

/// # Safety
/// A thread of the block is in this wait.
unsafe fn can_go_on(wait: &Wait, _: &BlockShared) -> bool {
    // SAFETY: a thread is in the wait.
    unsafe { latest(wait) }.rounds != wait.number
}

/// # Safety
/// A thread of the block is in this wait.
unsafe fn lacks(wait: &Wait, _: &BlockShared, operation: &'static str) -> Option<Lack> {
    // SAFETY: a thread is in the wait.
    let State { count, here, .. } = unsafe { latest(wait) };
    let kind = FaultKind::NamedBarrierNotReached { operation, count: count.into(), here: here.into() };
    Some(Lack::Fault(kind))
}

/// Returns the barrier's state. A plain load may give an old value, with which a thread would count as stuck.
///
/// # Safety
/// A thread of the block is in this wait.
unsafe fn latest(wait: &Wait) -> State {
    // SAFETY: the thread's block, which has the barrier, lives as long as it does.
    State::of(unsafe { AtomicU64::from_ptr(wait.state) }.fetch_add(0, Ordering::Relaxed))
}
