//! Timing a device's work by its own clock, and recording work to run it again.

use std::fmt;
use std::time::{Duration, Instant};

use super::{Backend, Device, DeviceError, cuda};

/// Work that was recorded on a GPU by [`Device::record`], to be queued again by one call. It keeps the device alive.
///
/// ```
/// use ferrowarp::device::{Device, DeviceError};
///
/// let recorded = Device::cpu().record(|| Ok::<(), DeviceError>(())); // A GPU alone can record.
/// assert!(matches!(recorded, Err(DeviceError::NoRecording { .. })));
/// ```
pub struct Graph {
    device: Device,
    recording: cuda::timing::Recording,
}

impl Device {
    /// The result of `work`, and how long the device took for what it queued.
    ///
    /// On a GPU these are two events in the stream around the work, and one synchronisation after it: the time runs
    /// from the end of what was queued before, so work that keeps the device busy meanwhile hides what queueing
    /// costs. On the CPU it is wall time.
    ///
    /// ```
    /// use ferrowarp::device::{Device, DeviceError};
    ///
    /// let device = Device::cpu();
    /// let (buffer, time) = device.time(|| device.upload(&[0u8; 4096]))?;
    /// assert_eq!(buffer.len(), 4096);
    /// println!("{time:?}");
    /// # Ok::<(), DeviceError>(())
    /// ```
    ///
    /// # Errors
    /// What `work` answers, or the device failed.
    pub fn time<R, E: Into<DeviceError>>(
        &self,
        work: impl FnOnce() -> Result<R, E>,
    ) -> Result<(R, Duration), DeviceError> {
        match &self.inner.backend {
            Backend::Cpu(_) => {
                let start = Instant::now();
                let result = work().map_err(Into::into)?;
                Ok((result, start.elapsed()))
            }
            Backend::Cuda(cuda) => cuda.time(|| work().map_err(Into::into)),
        }
    }

    /// The launches that `work` queues, as a CUDA graph; they do not run now.
    ///
    /// Launch a kernel once before it is recorded: the driver may load its code at the first launch, which a
    /// recording cannot hold. `work` must not allocate, free, copy from or to the host, or synchronise, and no
    /// other thread may queue work on this device meanwhile: the first fails, the second would be recorded too.
    ///
    /// # Errors
    /// What `work` answers; work that cannot be recorded; on the CPU always [`DeviceError::NoRecording`].
    pub fn record<E: Into<DeviceError>>(
        &self,
        work: impl FnOnce() -> Result<(), E>,
    ) -> Result<Graph, DeviceError> {
        match &self.inner.backend {
            Backend::Cpu(_) => Err(DeviceError::NoRecording { device: self.name() }),
            Backend::Cuda(cuda) => {
                let recording = cuda.record(|| work().map_err(Into::into))?;
                Ok(Graph { device: self.clone(), recording })
            }
        }
    }

    /// Bytes of the GPU's level-2 cache; none for the CPU, whose caches are not the device's affair.
    ///
    /// # Errors
    /// The driver does not say.
    pub fn l2_bytes(&self) -> Result<Option<usize>, DeviceError> {
        match &self.inner.backend {
            Backend::Cpu(_) => Ok(None),
            Backend::Cuda(cuda) => cuda.l2_bytes().map(Some),
        }
    }

    /// Bytes of the GPU's memory that are free now; none for the CPU.
    ///
    /// # Errors
    /// The driver does not say, or the device failed.
    pub fn free_bytes(&self) -> Result<Option<usize>, DeviceError> {
        match &self.inner.backend {
            Backend::Cpu(_) => Ok(None),
            Backend::Cuda(cuda) => cuda.memory().map(|memory| Some(memory.free)),
        }
    }
}

impl Graph {
    /// Queues the recorded launches in their order, with the arguments they were recorded with.
    ///
    /// # Errors
    /// The device failed, now or in a kernel before. A fault of one of the graph's kernels appears, with their names,
    /// where every fault does: at [`Device::synchronize`] or the next copy.
    ///
    /// # Safety
    /// - The buffers that the launches were given are alive, and stay so until the graph's run has ended.
    /// - The contracts of the launches hold as if each were launched anew: nobody else uses what they write.
    /// - No two threads launch the same graph at once.
    pub unsafe fn launch(&self) -> Result<(), DeviceError> {
        match &self.device.inner.backend {
            Backend::Cpu(_) => Err(DeviceError::NoRecording { device: self.device.name() }),
            // SAFETY: the recording is this device's; the rest is the caller's contract.
            Backend::Cuda(cuda) => unsafe { cuda.replay(&self.recording) },
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Backend::Cuda(cuda) = &self.device.inner.backend {
            cuda.destroy(&self.recording);
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph(on {})", self.device.residence())
    }
}
