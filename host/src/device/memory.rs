//! The allocations of a device, and who owns them.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::launches::Launch;
use super::order::{Admission, Touch};
use super::{Backend, Device, DeviceError, RawAllocError};

/// Memory of a device. A buffer owns it, and so does every graph whose launches touch it. It is freed with its last owner.
pub(super) struct Allocation {
    device: Device,
    first: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it only gives out the address; the owners' types decide who uses the memory.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

/// The allocations of a device by their first address, with their sizes in bytes.
#[derive(Default)]
pub(super) struct Allocations {
    by_address: Mutex<BTreeMap<usize, (usize, Weak<Allocation>)>>,
}

/// Something other than memory that recorded work uses, and that may end before the graph.
pub(crate) trait Needed: Send + Sync {
    /// Keeps it in use while a graph is queued; `None` if it has ended.
    fn hold(&self) -> Option<Box<dyn Held + '_>>;
}

/// Any value that is only dropped.
pub(crate) trait Held {}

impl<T> Held for T {}

impl Allocations {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, (usize, Weak<Allocation>)>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `found` if the address is in one of the allocations. An [`Allocation`] must not be dropped there.
    fn at<R>(&self, address: usize, found: impl FnOnce(&Weak<Allocation>) -> R) -> Option<R> {
        let by_address = self.lock();
        let (&start, (bytes, allocation)) = by_address.range(..=address).next_back()?;
        (address - start < *bytes).then(|| found(allocation))
    }

    /// Whether the address is in memory of the device.
    pub fn has(&self, address: usize) -> bool {
        self.at(address, |_| ()).is_some()
    }

    /// The allocation that holds the address.
    pub fn owner_of(&self, address: usize) -> Option<Arc<Allocation>> {
        self.at(address, Weak::upgrade)?
    }
}

impl Allocation {
    /// Allocates `bytes` bytes (not 0), each `byte`, which is 0 on the CPU.
    pub fn filled(device: &Device, bytes: usize, byte: u8) -> Result<Arc<Self>, RawAllocError> {
        device.refuse_in_recorded_work("allocating a buffer").map_err(RawAllocError::Device)?;
        let first = match &device.inner.backend {
            Backend::Cpu(cpu) => cpu.alloc_zeroed(bytes).ok_or_else(RawAllocError::system_is_full)?,
            Backend::Cuda(cuda) => cuda.alloc(bytes, byte)?,
        };
        Ok(Self::register(device, first, bytes))
    }

    /// Allocates `bytes` bytes (not 0) that the host shares. They are not initialised.
    pub fn unified(device: &Device, bytes: usize) -> Result<Arc<Self>, RawAllocError> {
        let first = match &device.inner.backend {
            Backend::Cpu(cpu) => cpu.alloc_zeroed(bytes).ok_or_else(RawAllocError::system_is_full)?,
            Backend::Cuda(cuda) => cuda.alloc_unified(bytes)?,
        };
        Ok(Self::register(device, first, bytes))
    }

    fn register(device: &Device, first: NonNull<u8>, bytes: usize) -> Arc<Self> {
        let allocation = Arc::new(Self { device: device.clone(), first, bytes });
        let entry = (bytes, Arc::downgrade(&allocation));
        device.inner.allocations.lock().insert(first.addr().get(), entry);
        device.own(first, bytes);
        allocation
    }

    /// The first byte.
    pub fn first(&self) -> NonNull<u8> {
        self.first
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let Self { ref device, first, bytes } = *self;
        if device.is_of_another_process() {
            return;
        }
        device.inner.allocations.lock().remove(&first.addr().get());
        device.disown(first);
        // The work of other streams must end first. If a GPU does not report its end, the memory is leaked.
        let has_ended = device.inner.order.is_plain() || device.wait_for_all().is_ok();
        match &device.inner.backend {
            // SAFETY: this device allocated the memory with the same number of bytes, and its last owner is gone.
            Backend::Cpu(cpu) => unsafe { cpu.free(first, bytes) },
            Backend::Cuda(cuda) if has_ended => cuda.free(first),
            Backend::Cuda(_) => {}
        }
    }
}

impl Device {
    /// Whether it is a GPU that was opened before this process was forked. Then every call fails, and drops do nothing.
    pub(super) fn is_of_another_process(&self) -> bool {
        self.is_cuda() && cust::is_forked()
    }

    /// Admits work with these touches to the stream. A recording then owns the memory that it touches.
    pub(super) fn admit(
        &self,
        stream: u32,
        launch: Option<Launch>,
        touches: &[Touch],
    ) -> Result<Admission, DeviceError> {
        let order = &self.inner.order;
        let admission = order.admit(stream, launch, touches).map_err(DeviceError::Unordered)?;
        if matches!(admission, Admission::Record) {
            for touch in touches {
                let Some(owner) = self.inner.allocations.owner_of(touch.bytes.start) else {
                    let action = "work with memory that this handle of the device did not allocate";
                    order.spoil(action);
                    return Err(DeviceError::NotRecordable { device: self.name(), action });
                };
                order.keep(owner);
            }
        }
        Ok(admission)
    }

    /// Marks this thread's recording, if there is one, as unusable: what is dropped in recorded work is gone at the graph's
    /// second launch.
    pub(super) fn note_drop(&self, action: &'static str) {
        if !self.is_of_another_process() && self.inner.order.is_in_recorded_work() {
            self.inner.order.spoil(action);
        }
    }

    /// Waits until all queued work on all streams has ended.
    pub(super) fn wait_for_all(&self) -> Result<(), DeviceError> {
        let order = &self.inner.order;
        let stamp = if order.is_plain() { None } else { Some(order.stamp_all()) };
        if let Backend::Cuda(cuda) = &self.inner.backend {
            cuda.synchronize()?;
        }
        stamp.iter().for_each(|stamp| order.ended(stamp));
        Ok(())
    }
}
