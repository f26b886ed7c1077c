//! Which device of this process owns an allocation, so that a launch can refuse the memory of another one.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// By first address: the bytes, and the device's number.
static OWNERS: Mutex<BTreeMap<usize, (usize, usize)>> = Mutex::new(BTreeMap::new());
/// The devices that are open.
static OPEN: AtomicUsize = AtomicUsize::new(0);

fn owners() -> MutexGuard<'static, BTreeMap<usize, (usize, usize)>> {
    OWNERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a device while it is open. It has a number that no other device of the process ever has.
pub(super) struct Open(pub u64);

impl Default for Open {
    fn default() -> Self {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        OPEN.fetch_add(1, Ordering::Relaxed);
        Self(OPENED.fetch_add(1, Ordering::Relaxed))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Notes that the device with this number owns memory.
pub(super) fn own(device: usize, memory: NonNull<u8>, bytes: usize) {
    owners().insert(memory.addr().get(), (bytes, device));
}

/// Forgets memory before it is freed.
pub(super) fn disown(memory: NonNull<u8>) {
    owners().remove(&memory.addr().get());
}

/// Whether another device owns the memory at this address. Memory that no device allocated has no owner.
pub(super) fn is_of_another(device: usize, address: usize) -> bool {
    if OPEN.load(Ordering::Relaxed) < 2 {
        return false;
    }
    let owners = owners();
    let before = owners.range(..=address).next_back();
    before.is_some_and(|(&start, &(bytes, owner))| address - start < bytes && owner != device)
}
