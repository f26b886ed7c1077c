//! The memory that is allocated on a device.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::cuda::Lane;
use super::error::DeviceError;

/// Memory of a device, as its owners and the order of work see it.
pub(super) trait Memory: Send + Sync {
    /// The first byte.
    fn first(&self) -> NonNull<u8>;

    /// Lets the lane's next work use it.
    fn use_on(&self, lane: &Lane) -> Result<(), DeviceError>;
}

/// Sizes in bytes and memory, by first address.
type ByAddress = BTreeMap<usize, (usize, Weak<dyn Memory>)>;

/// The allocations of a device by their first address, with their sizes in bytes.
#[derive(Default)]
pub(super) struct Allocations {
    by_address: Mutex<ByAddress>,
}

impl Allocations {
    pub fn lock(&self) -> MutexGuard<'_, ByAddress> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `found` if the address is in one of the allocations. Memory must not be dropped there.
    fn at<R>(&self, address: usize, found: impl FnOnce(&Weak<dyn Memory>) -> R) -> Option<R> {
        let by_address = self.lock();
        let (&start, (bytes, allocation)) = by_address.range(..=address).next_back()?;
        (address - start < *bytes).then(|| found(allocation))
    }

    /// Whether the address is in memory of the device.
    pub fn has(&self, address: usize) -> bool {
        self.at(address, |_| ()).is_some()
    }

    /// The allocation that holds the address.
    pub fn owner_of(&self, address: usize) -> Option<Arc<dyn Memory>> {
        self.at(address, Weak::upgrade)?
    }
}

/// Something other than memory that recorded work uses, and that may end before the graph.
pub(crate) trait Needed: Send + Sync {
    /// Keeps it in use while a graph is queued; `None` if it has ended.
    fn hold(&self) -> Option<Box<dyn Held + '_>>;
}

/// Any value that is only dropped.
pub(crate) trait Held {}

impl<T> Held for T {}
