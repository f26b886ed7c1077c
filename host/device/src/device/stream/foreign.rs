//! Work on a stream other than launches: copies within the device's memory, and collective operations of NCCL.

use std::sync::Arc;

use cust::sys::CUstream;

use super::super::allocations::Needed;
#[cfg(feature = "collective")]
use super::super::cuda::CudaDevice;
use super::super::error::DeviceError;
use super::super::handle::{Backend, Device};
use super::super::order::{Admission, Touch};
use super::super::race::StreamWork;
use super::Stream;

/// Device memory that such work reads or writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// Its name in messages.
    pub argument: &'static str,
    /// The first byte.
    pub first: *mut u8,
    /// The number of bytes.
    pub bytes: usize,
    /// Whether the bytes are written.
    pub is_write: bool,
}

/// What happened to the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// It is queued, or has ended on the CPU.
    Now,
    /// It is part of a recording.
    Recorded,
}

/// Where foreign work goes.
pub(crate) enum Queue {
    /// A GPU's stream, in the current context.
    Cuda(CUstream),
    /// The calling thread, at once.
    Host,
}

impl Device {
    /// Makes the GPU's context current in the calling thread, for libraries that need it there.
    #[cfg(feature = "collective")]
    pub(crate) fn make_current(&self) -> Result<(), DeviceError> {
        self.gpu().map_or(Ok(()), CudaDevice::enter)
    }
}

impl Stream {
    /// Lets `queue` queue work that touches this memory, unless it races with another stream's work. On a CPU the work runs
    /// in `queue`, which is not called in a recording. A graph with the work needs `needed`.
    ///
    /// # Errors
    /// [`DeviceError::Unordered`], [`DeviceError::NotRecordable`], an error of `queue`, or the device failed.
    pub(crate) fn queue_foreign<E: From<DeviceError>>(
        &self,
        operation: &'static str,
        accesses: impl Iterator<Item = Access>,
        needed: Option<Arc<dyn Needed>>,
        queue: impl FnOnce(Queue) -> Result<(), E>,
    ) -> Result<Queued, E> {
        let device = self.device();
        let order = &device.inner.order;
        let admission = if order.is_plain() {
            Admission::Run(None)
        } else {
            if order.is_outside_of_recording(self.number()) {
                let action = "work on a stream that waits for no event of the recording";
                order.spoil(action);
                return Err(DeviceError::NotRecordable { device: device.name(), action }.into());
            }
            let touches: Vec<Touch> = accesses
                .filter(|access| access.bytes > 0)
                .map(|access| Touch {
                    argument: access.argument,
                    bytes: access.first.addr()..access.first.addr().saturating_add(access.bytes),
                    is_write: access.is_write,
                    work: StreamWork::Other(operation),
                })
                .collect();
            device.admit(self.lane(), None, &touches)?
        };
        let is_recorded = matches!(admission, Admission::Record);
        // On the CPU the graph performs the work again, which checks it.
        if let Some(needed) = needed.filter(|_| is_recorded && device.is_cuda()) {
            order.need(needed);
        }
        let queued = match &device.inner.backend {
            Backend::Cpu(_) if is_recorded => Ok(()),
            Backend::Cpu(_) => queue(Queue::Host),
            Backend::Cuda(cuda) => {
                let lane = cuda.lane_in_recording(self.lane(), is_recorded);
                let raw = lane.and_then(|lane| cuda.raw_stream(&lane));
                raw.map_err(E::from).and_then(|raw| queue(Queue::Cuda(raw)))
            }
        };
        if queued.is_err() {
            order.cancel(&admission);
        }
        queued.map(|()| if is_recorded { Queued::Recorded } else { Queued::Now })
    }

    /// Copies between two parts of the device's memory, on the queue from [`Self::queue_foreign`].
    ///
    /// # Safety
    /// Both are valid for this many bytes of the device's memory until the copy has ended, and do not overlap. Until then no
    /// other code writes them or reads `to`.
    pub(crate) unsafe fn copy_foreign(
        &self,
        queue: &Queue,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), DeviceError> {
        match (&self.device().inner.backend, queue) {
            // SAFETY: the caller's memory.
            (Backend::Cuda(cuda), Queue::Cuda(raw)) => unsafe { cuda.copy_within(*raw, to, from, bytes) },
            _ => {
                // SAFETY: as above; on the CPU it is host memory.
                unsafe { to.copy_from_nonoverlapping(from, bytes) };
                Ok(())
            }
        }
    }
}
