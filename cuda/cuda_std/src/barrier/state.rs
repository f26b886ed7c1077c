//! The state of a barrier in shared memory on the executor: 8 bytes, as on the device.

use core::sync::atomic::{AtomicU64, Ordering};

/// The largest number of arrivals and of bytes that a phase expects.
pub(crate) const MAX_COUNT: u32 = (1 << 20) - 1;

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
    const MAX: u32 = MAX_COUNT;

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
pub(crate) fn parity_of(bits: u64) -> u32 {
    (bits >> 62) as u32 & 1
}

/// Returns whether a phase of this parity lacks only bytes.
///
/// # Safety
/// A thread of the block waits for the barrier.
pub(crate) unsafe fn lacks_bytes_alone(barrier: *mut u64, parity: u32) -> bool {
    // SAFETY: the waiting thread guarantees a valid barrier.
    unsafe { latest(barrier) }.is_ok_and(|state| state.lacks_bytes_alone(parity))
}

/// Returns the barrier's latest state. With the old value that a plain load may return, a thread would count as stuck.
///
/// # Safety
/// A thread of the block waits for the barrier.
pub(crate) unsafe fn latest(barrier: *mut u64) -> Result<State, String> {
    // SAFETY: the waiting thread guarantees a valid barrier.
    State::of(unsafe { AtomicU64::from_ptr(barrier) }.fetch_add(0, Ordering::Relaxed))
}

/// Counts the bytes of a copy after its writes. If the barrier cannot count them, a thread that waits for them is stuck.
///
/// # Safety
/// Same as for the function that started the copy.
pub(crate) unsafe fn complete_copy(barrier: *mut u64, bytes: u32) {
    // SAFETY: the copy's caller guarantees a valid barrier.
    let atomic = unsafe { AtomicU64::from_ptr(barrier) };
    let complete = |bits| Some(State::of(bits).and_then(|state| state.complete(bytes)).ok()?.bits());
    let _ = atomic.fetch_update(Ordering::AcqRel, Ordering::Relaxed, complete);
}

/// Arrivals and bytes that the current phase lacks.
///
/// # Safety
/// A thread of the block waits for the barrier.
pub(crate) unsafe fn lacks(barrier: *mut u64) -> (u32, i32) {
    // SAFETY: the waiting thread guarantees a valid barrier.
    let bits = unsafe { AtomicU64::from_ptr(barrier) }.load(Ordering::Relaxed);
    State::of(bits).map_or((0, 0), State::lacks)
}

/// Checks that the memory holds a barrier.
///
/// # Safety
/// `barrier` is valid, and accessed only atomically.
pub(crate) unsafe fn check(barrier: *mut u64) -> Result<(), String> {
    // SAFETY: the barrier is valid and accessed only atomically.
    State::of(unsafe { AtomicU64::from_ptr(barrier) }.load(Ordering::Relaxed)).map(|_| ())
}
