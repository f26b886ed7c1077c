//! Times a device's work with its own clock.

use std::cell::Cell;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::cuda::{CudaDevice, Lane};
use super::error::DeviceError;
use super::handle::{Backend, Device};
use super::profile::{LaunchTimes, Launched, Peaks};

thread_local! {
    /// Whether the thread is in a timed launch: on the CPU, the timed launch of a graph launches its kernels in turn.
    static IS_TIMED: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as in a timed launch while it lives.
struct Inside;

impl Inside {
    fn enter() -> Self {
        IS_TIMED.set(true);
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        IS_TIMED.set(false);
    }
}

impl Device {
    /// Runs `work`, and returns its result and the device's time for the work it queued.
    ///
    /// A GPU records two events in the default stream around the work and synchronises afterwards. The time starts at the
    /// end of earlier queued work, so earlier work that keeps the device busy hides the cost of queueing. On the CPU it is
    /// wall time.
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
    /// The errors of `work`, or the device failed.
    pub fn time<R, E: Into<DeviceError>>(
        &self,
        work: impl FnOnce() -> Result<R, E>,
    ) -> Result<(R, Duration), DeviceError> {
        self.refuse_in_recorded_work("timing")?;
        match &self.inner.backend {
            Backend::Cpu(_) => {
                let start = Instant::now();
                let result = work().map_err(Into::into)?;
                Ok((result, start.elapsed()))
            }
            Backend::Cuda(cuda) => cuda.time(|| work().map_err(Into::into)),
        }
    }

    /// Bytes of the GPU's L2 cache; `None` for the CPU.
    ///
    /// # Errors
    /// The driver does not report it.
    pub fn l2_bytes(&self) -> Result<Option<usize>, DeviceError> {
        self.gpu().map(CudaDevice::l2_bytes).transpose()
    }

    /// Free bytes of the GPU's memory; `None` for the CPU.
    ///
    /// # Errors
    /// The driver does not report it, or the device failed.
    pub fn free_bytes(&self) -> Result<Option<usize>, DeviceError> {
        self.gpu().map(|cuda| Ok(cuda.memory()?.free)).transpose()
    }

    /// Starts to time each launch of a kernel or of a [`Graph`](super::Graph), on a GPU with events around it. The host
    /// waits for the end of each, so nothing overlaps any more and the program takes longer. Recorded launches do not run
    /// and are not timed. This holds for all handles to the device and all its streams.
    pub fn start_profile(&self) {
        self.inner.profile.is_on.store(true, Ordering::Relaxed);
    }

    /// Stops timing, and returns the times since the last call, in the order of first launches.
    pub fn take_profile(&self) -> Vec<LaunchTimes> {
        self.inner.profile.is_on.store(false, Ordering::Relaxed);
        std::mem::take(&mut self.inner.profile.times.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The peak rates by its clocks; `None` for the CPU.
    ///
    /// # Errors
    /// The driver does not report a clock.
    pub fn peaks(&self) -> Result<Option<Peaks>, DeviceError> {
        self.gpu().map(CudaDevice::peaks).transpose()
    }

    /// Calls `launch`, and measures the time of what it queues if a profile is on.
    pub(super) fn timed<E: From<DeviceError>>(
        &self,
        lane: &Lane,
        what: Launched,
        launch: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.inner.profile.is_on.load(Ordering::Relaxed) || IS_TIMED.get() {
            return launch();
        }
        let _inside = Inside::enter();
        let time = match &self.inner.backend {
            Backend::Cpu(_) => {
                let start = Instant::now();
                launch().map(|()| start.elapsed())
            }
            Backend::Cuda(cuda) => cuda.time_on(lane, launch),
        };
        self.inner.profile.note(what, time?);
        Ok(())
    }
}
