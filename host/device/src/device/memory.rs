//! The allocations of a device, and who owns them.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cuda_std::launch::KernelCall;

use super::allocation_error::RawAllocError;
use super::allocations::Memory;
use super::cuda::{Allocated, Lane, Queue, Ready};
use super::error::DeviceError;
use super::handle::{Backend, Device};
use super::launches::Launch;
use super::order::{Admission, Touch};
use super::owners;

/// Memory of a device. A buffer owns it, and so does every graph whose launches touch it. With its last owner it is freed, after
/// the queued work of the streams that used it.
pub(super) struct Allocation {
    device: Device,
    first: NonNull<u8>,
    bytes: usize,
    kind: Kind,
    users: Mutex<Users>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// From the device's pool. Recorded work may make and drop it: the graph owns it.
    Pooled { is_recorded: bool },
    /// Shared with the host.
    Unified,
}

/// The streams that used some memory.
#[derive(Default)]
struct Users {
    /// Their numbers. Before a stream is opened, only the default stream's use is unknown, and the stream begins after that.
    streams: Vec<u32>,
    ready: Ready,
    /// Another library's stream that counts as the default one.
    borrowed: Option<Queue>,
}

/// On the CPU, unwritten memory holds this where debug assertions are on: NaN in any format, so that tests notice what reads it.
const UNWRITTEN: u8 = 0xff;
/// No more of it is filled, so that a large allocation costs no memory before it is used.
const UNWRITTEN_MOST: usize = 64 << 20;

/// What is in new memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    Zeros,
    /// Anything; kernels write it before they read it. Only such memory may be allocated in recorded work.
    Any,
}

// SAFETY: it only gives out the address; the owners' types decide who uses the memory.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// Allocates `bytes` bytes (not 0) in the order of the lane's work.
    pub fn new(
        device: &Device,
        lane: &Lane,
        bytes: usize,
        contents: Contents,
    ) -> Result<Arc<Self>, RawAllocError> {
        let order = &device.inner.order;
        let is_recorded = contents == Contents::Any && order.is_in_recorded_work();
        if !is_recorded {
            device.refuse_in_recorded_work("allocating a buffer")?;
        }
        let (first, ready) = match &device.inner.backend {
            Backend::Cpu(cpu) => {
                let first = cpu.alloc_zeroed(bytes).ok_or_else(RawAllocError::system_is_full)?;
                if cfg!(debug_assertions) && contents == Contents::Any {
                    // SAFETY: it has that many bytes, and nothing else uses them yet.
                    unsafe { first.write_bytes(UNWRITTEN, bytes.min(UNWRITTEN_MOST)) };
                }
                (first, Ready::Nothing)
            }
            Backend::Cuda(cuda) => {
                let fill = (contents == Contents::Zeros).then_some(0);
                let Allocated { first, ready } = cuda.alloc(lane, bytes, fill, || order.is_shared())?;
                (first, ready)
            }
        };
        let users = Users { streams: vec![lane.number], ready, borrowed: lane.borrowed().cloned() };
        Ok(Self::register(device, first, bytes, Kind::Pooled { is_recorded }, users))
    }

    /// Allocates `bytes` bytes (not 0) that the host shares. They are not initialised.
    pub fn unified(device: &Device, bytes: usize) -> Result<Arc<Self>, RawAllocError> {
        let first = match &device.inner.backend {
            Backend::Cpu(cpu) => cpu.alloc_zeroed(bytes).ok_or_else(RawAllocError::system_is_full)?,
            Backend::Cuda(cuda) => cuda.alloc_unified(bytes)?,
        };
        Ok(Self::register(device, first, bytes, Kind::Unified, Users::default()))
    }

    fn register(device: &Device, first: NonNull<u8>, bytes: usize, kind: Kind, users: Users) -> Arc<Self> {
        let allocation =
            Arc::new(Self { device: device.clone(), first, bytes, kind, users: Mutex::new(users) });
        let memory: Weak<dyn Memory> = Arc::<Self>::downgrade(&allocation);
        let entry = (bytes, memory);
        device.inner.allocations.lock().insert(first.addr().get(), entry);
        owners::own(device.id(), first, bytes);
        allocation
    }

    /// What freeing it is called in a recording, unless the recording allocated it.
    pub fn freeing(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Pooled { is_recorded } => (!is_recorded).then_some("freeing a buffer"),
            Kind::Unified => Some("freeing unified memory"),
        }
    }
}

impl Memory for Allocation {
    fn first(&self) -> NonNull<u8> {
        self.first
    }

    fn use_on(&self, lane: &Lane) -> Result<(), DeviceError> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.streams.contains(&lane.number) {
            return Ok(());
        }
        match (&self.device.inner.backend, &users.ready) {
            (Backend::Cuda(cuda), Ready::Event(event)) => cuda.wait_for_event(lane, event)?,
            (Backend::Cuda(cuda), &Ready::Work(stream)) => cuda.wait_for_work(lane, stream)?,
            _ => {}
        }
        users.streams.push(lane.number);
        Ok(())
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let Self { ref device, first, bytes, kind, ref mut users } = *self;
        if device.is_of_another_process() {
            return;
        }
        device.inner.allocations.lock().remove(&first.addr().get());
        owners::disown(first);
        let order = &device.inner.order;
        if !order.is_plain() {
            // Whoever gets the memory next comes after its users.
            order.forget(first.addr().get()..first.addr().get() + bytes);
        }
        let Users { streams, ready, borrowed } =
            std::mem::take(users.get_mut().unwrap_or_else(PoisonError::into_inner));
        match &device.inner.backend {
            // SAFETY: this device allocated the memory with the same number of bytes, and its last owner is gone. Work on the
            // CPU ends before the call that queues it returns.
            Backend::Cpu(cpu) => unsafe { cpu.free(first, bytes) },
            Backend::Cuda(cuda) => {
                if let Ready::Event(event) = ready {
                    cuda.drop_event(event);
                }
                match kind {
                    Kind::Pooled { .. } => cuda.free(first, &streams, borrowed.as_ref()),
                    Kind::Unified => cuda.free_unified(first),
                }
            }
        }
    }
}

impl Device {
    /// Whether it is a GPU that was opened before this process was forked. Then every call fails, and drops do nothing.
    pub(super) fn is_of_another_process(&self) -> bool {
        self.is_cuda() && cust::is_forked()
    }

    /// Fails if the launch borrows a buffer of another device that has the same memory: work on the two is not ordered.
    pub(super) fn refuse_foreign_buffers(&self, call: &KernelCall<'_>) -> Result<(), DeviceError> {
        let residence = self.residence();
        let mut ours = call.buffers.iter().filter(|buffer| buffer.residence == residence);
        match ours.find(|buffer| owners::is_of_another(self.id(), buffer.pointer.addr())) {
            None => Ok(()),
            Some(buffer) => Err(DeviceError::OtherDevicesBuffer {
                kernel: call.meta.name,
                argument: buffer.name,
                device: format!("{self:?}"),
            }),
        }
    }

    /// Admits work with these touches to the lane. A recording then owns the memory that it touches.
    pub(super) fn admit(
        &self,
        lane: &Lane,
        launch: Option<Launch>,
        touches: &[Touch],
    ) -> Result<Admission, DeviceError> {
        let order = &self.inner.order;
        let admission = order.admit(lane.number, launch, touches).map_err(DeviceError::Unordered)?;
        let is_recorded = matches!(admission, Admission::Record);
        for touch in touches {
            match self.inner.allocations.owner_of(touch.bytes.start) {
                Some(owner) if is_recorded => order.keep(owner),
                Some(owner) => owner.use_on(lane).inspect_err(|_| order.cancel(&admission))?,
                None if is_recorded => {
                    let action = "work with memory that this handle of the device did not allocate";
                    order.spoil(action);
                    return Err(DeviceError::NotRecordable { device: self.name(), action });
                }
                None => {}
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
        if let Some(cuda) = self.gpu() {
            cuda.synchronize()?;
        }
        stamp.iter().for_each(|stamp| order.ended(stamp));
        Ok(())
    }
}
