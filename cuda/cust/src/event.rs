//! Points in a stream's work, with the time at which the device reached them.

use std::ptr;
use std::time::Duration;

use crate::context::InContext;
use crate::error::{CudaError, CudaResult};
use crate::stream::Stream;
use crate::sys::{self, CUevent};

bitflags::bitflags! {
    /// Options of an event.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct EventFlags: u32 {
        /// Records the time.
        const DEFAULT = 0;
        /// Waiting for it blocks the thread.
        const BLOCKING_SYNC = 1;
        /// Records no time, which is faster.
        const DISABLE_TIMING = 2;
        /// Shared with other processes; needs `DISABLE_TIMING`.
        const INTERPROCESS = 4;
    }
}

/// Whether the device has reached an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventStatus {
    /// It has been reached.
    Ready,
    /// It has not been reached.
    NotReady,
}

/// An event.
#[derive(Debug)]
pub struct Event {
    raw: CUevent,
    _context: InContext,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: same as for `Send`.
unsafe impl Sync for Event {}

impl Event {
    /// Creates an event of the current context.
    ///
    /// # Errors
    /// There is no context, or the flags contradict each other.
    pub fn new(flags: EventFlags) -> CudaResult<Self> {
        let (mut raw, context) = (ptr::null_mut(), InContext::current()?);
        // SAFETY: the out parameter is valid.
        unsafe { sys::cuEventCreate(&mut raw, flags.bits()) }.ok()?;
        Ok(Self { raw, _context: context })
    }

    /// The driver's handle.
    pub fn as_inner(&self) -> CUevent {
        self.raw
    }

    /// Queues the event in the stream.
    ///
    /// # Errors
    /// A kernel failed, or the stream belongs to another context.
    pub fn record(&self, stream: &Stream) -> CudaResult<()> {
        // SAFETY: both are alive.
        unsafe { sys::cuEventRecord(self.raw, stream.as_inner()) }.ok()
    }

    /// Whether the device has reached it.
    pub fn query(&self) -> CudaResult<EventStatus> {
        // SAFETY: the event is alive.
        match unsafe { sys::cuEventQuery(self.raw) }.ok() {
            Ok(()) => Ok(EventStatus::Ready),
            Err(CudaError::NotReady) => Ok(EventStatus::NotReady),
            Err(error) => Err(error),
        }
    }

    /// Waits until the device has reached it.
    pub fn synchronize(&self) -> CudaResult<()> {
        // SAFETY: the event is alive.
        unsafe { sys::cuEventSynchronize(self.raw) }.ok()
    }

    /// Milliseconds from `start` to this event.
    ///
    /// # Errors
    /// The device has not reached both events, or one of them records no time.
    pub fn elapsed_time_f32(&self, start: &Self) -> CudaResult<f32> {
        // SAFETY: the out parameter is valid, and both events are alive.
        sys::out(|milliseconds| unsafe { sys::cuEventElapsedTime(milliseconds, start.raw, self.raw) })
    }

    /// The time from `start` to this event.
    ///
    /// # Errors
    /// Same as [`Event::elapsed_time_f32`].
    pub fn elapsed(&self, start: &Self) -> CudaResult<Duration> {
        Ok(Duration::from_secs_f64(f64::from(self.elapsed_time_f32(start)?).max(0.0) / 1e3))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: this object owns the event. After a failure it lives until the context ends.
        let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
    }
}
