//! Streams, and the events that order their work.

pub(crate) mod foreign;

use std::fmt;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use cuda_std::launch::{KernelCall, LaunchError, Launcher, Residence};

use super::cuda::{CudaDevice, Lane};
use super::error::DeviceError;
use super::handle::{Backend, Device};
use super::launches::Launch;
use super::order::{Admission, Outside, Stamp, Touch};
use super::profile::Launched;
use super::race::{Named, StreamWork};

/// A queue of work. The device does its work in order, concurrently with other streams. A stream is a [`Launcher`], so the
/// `launch` function of every kernel takes it; copies are [`Stream::upload`] and [`Stream::download`]. Dropping it waits for
/// its work.
///
/// The work of two streams is unordered, unless one waits for an [`Event`] of the other or the host waits for the first
/// before it queues the second. Work that touches the same bytes as unordered work of another stream is refused with
/// [`DeviceError::Unordered`] if either writes, on every device. On the CPU, work runs at once in the calling thread.
///
/// Reads, writes and frees by the host, such as [`Buffer::to_vec`](super::Buffer::to_vec), wait for all queued work of all
/// streams.
///
/// ```
/// use cuda_std::launch::LaunchConfig;
/// use cuda_std::{kernel, thread};
/// use ferrowarp::device::{Device, DeviceError, InFlight};
///
/// /// # Safety
/// /// As many threads as elements of `samples`, and as many of `out`.
/// #[kernel]
/// pub unsafe fn square(out: *mut f32, samples: &[f32]) {
///     let i = thread::index_1d() as usize;
///     unsafe { *out.add(i) = samples[i] * samples[i] };
/// }
///
/// const LEN: usize = 64;
/// let device = Device::cpu(); // On a GPU: Device::open()?
/// let (copies, kernels) = (device.stream()?, device.stream()?);
/// let mut samples = [device.alloc_zeroed::<f32>(LEN)?, device.alloc_zeroed(LEN)?];
/// let mut squares = [device.alloc_zeroed::<f32>(LEN)?, device.alloc_zeroed(LEN)?];
/// let mut uploads: [Option<InFlight<_>>; 2] = [None, None];
/// let mut done = [kernels.record()?, kernels.record()?];
/// for batch in 0..6 {
///     // While the kernel works on one half, the next batch is copied into the other.
///     let half = batch % 2;
///     let mut host = match uploads[half].take() {
///         Some(upload) => upload.wait()?,
///         None => device.alloc_pinned(LEN)?,
///     };
///     host.fill(batch as f32);
///     copies.wait(&done[half])?; // The kernel has read what was there.
///     uploads[half] = Some(copies.upload(host, &mut samples[half])?);
///     kernels.wait(&copies.record()?)?; // The batch is there.
///     let config = LaunchConfig::cover(LEN, 32);
///     // SAFETY: a thread for each element of both.
///     unsafe { square::launch(&kernels, config, &mut squares[half], &samples[half])? };
///     done[half] = kernels.record()?;
/// }
/// assert_eq!(squares[0].to_vec()?, [16.0; LEN]); // Of batch 4.
/// assert_eq!(squares[1].to_vec()?, [25.0; LEN]);
/// # Ok::<(), DeviceError>(())
/// ```
pub struct Stream {
    device: Device,
    lane: Lane,
}

/// A point in a stream's work, and the time at which the device reached it. It keeps the device alive.
///
/// ```
/// use ferrowarp::device::{Device, DeviceError};
///
/// let device = Device::cpu();
/// let stream = device.stream()?;
/// let start = stream.record()?;
/// // Launches on the stream.
/// let end = stream.record()?;
/// end.synchronize()?;
/// assert!(end.is_complete()?);
/// println!("{:?}", end.elapsed_since(&start)?);
/// # Ok::<(), DeviceError>(())
/// ```
pub struct Event {
    device: Device,
    /// The driver's event, on a GPU.
    raw: Option<ManuallyDrop<cust::event::Event>>,
    /// When it was recorded.
    time: Instant,
    stamp: Stamp,
}

impl Device {
    /// Opens a stream. Its work begins after the work that is queued on the [default stream](Self::default_stream) now.
    ///
    /// # Errors
    /// The driver cannot create another stream, this thread is recording, or the device failed.
    pub fn stream(&self) -> Result<Stream, DeviceError> {
        self.refuse_in_recorded_work("opening a stream")?;
        let order = &self.inner.order;
        let number = order.open();
        let lane = match &self.inner.backend {
            Backend::Cpu(_) => Lane { number, ..Lane::default() },
            Backend::Cuda(cuda) => cuda.open_stream(number).inspect_err(|_| order.close(number))?,
        };
        Ok(Stream { device: self.clone(), lane })
    }

    /// The device's default stream, which launches on the device use. Take it to record events and to wait.
    ///
    /// ```
    /// use ferrowarp::device::{Device, DeviceError};
    ///
    /// let device = Device::cpu();
    /// let side = device.stream()?;
    /// // Launches on `side`.
    /// device.default_stream().wait(&side.record()?)?;
    /// // Launches on `device` come after them.
    /// # Ok::<(), DeviceError>(())
    /// ```
    pub fn default_stream(&self) -> Stream {
        Stream { device: self.clone(), lane: Lane::default() }
    }

    /// Queues a launch, unless it races with another stream's work.
    ///
    /// # Safety
    /// Same as for [`Launcher::submit`].
    pub(super) unsafe fn submit_on(&self, lane: &Lane, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        self.refuse_foreign_buffers(call)?;
        let order = &self.inner.order;
        self.refuse_in_recording_of_another()?;
        let admission = if order.is_plain() {
            Admission::Run(None)
        } else {
            call.check(self.residence(), self.limits())?;
            // It would run now, and on a CPU again at each launch of the graph.
            if order.is_outside_of_recording(lane.number) {
                let action = "a launch on a stream that waits for no event of the recording";
                order.spoil(action);
                return Err(DeviceError::NotRecordable { device: self.name(), action }.into());
            }
            self.admit(lane, Some(Launch::of(call)), &self.touches(call))?
        };
        let is_recorded = matches!(admission, Admission::Record);
        let submit = || match &self.inner.backend {
            Backend::Cpu(_) if is_recorded => Ok(()),
            // SAFETY: the caller's contract is the callee's.
            Backend::Cpu(cpu) => unsafe { cpu.submit(call) },
            // SAFETY: as above.
            Backend::Cuda(cuda) => unsafe { cuda.submit(call, lane, is_recorded) },
        };
        let submitted = match is_recorded {
            true => submit(),
            false => self.timed(lane, Launched::Kernel(call.meta.name), submit),
        };
        if submitted.is_err() {
            order.cancel(&admission);
        }
        submitted
    }

    /// The device memory that a launch borrows. Raw pointers and host memory, which only launches on the CPU take, are not
    /// tracked: the caller keeps them alive.
    fn touches(&self, call: &KernelCall<'_>) -> Vec<Touch> {
        let residence = self.residence();
        let touch = |buffer: &cuda_std::launch::Buffer| {
            let bytes = buffer.bytes.filter(|&bytes| bytes > 0 && buffer.residence == residence)?;
            let start = buffer.pointer.addr();
            let is_ours = self.is_cuda() || self.inner.allocations.has(start);
            is_ours.then(|| Touch {
                argument: buffer.name,
                bytes: start..start.saturating_add(bytes),
                is_write: buffer.is_writable,
                work: StreamWork::Launch(call.meta.name),
            })
        };
        call.buffers.iter().filter_map(touch).collect()
    }

    /// Fails if this thread is in recorded work, and marks the recording as unusable.
    pub(super) fn refuse_in_recorded_work(&self, action: &'static str) -> Result<(), DeviceError> {
        self.refuse_in_recording_of_another()?;
        if !self.inner.order.is_in_recorded_work() {
            return Ok(());
        }
        self.inner.order.spoil(action);
        Err(DeviceError::NotRecordable { device: self.name(), action })
    }

    /// Fails if `other` is not this device.
    pub(super) fn refuse_other(&self, other: &Device, action: &'static str) -> Result<(), DeviceError> {
        if std::sync::Arc::ptr_eq(&self.inner, &other.inner) {
            return Ok(());
        }
        let (device, mut other) = (format!("{self:?}"), format!("{other:?}"));
        if device == other {
            other = "the same device opened a second time".to_owned();
        }
        Err(DeviceError::OtherDevice { action, device, other })
    }
}

impl Stream {
    pub(super) fn of(device: Device, lane: Lane) -> Self {
        Self { device, lane }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The number in messages; 0 for the default stream. Open streams of a device have different numbers.
    pub fn number(&self) -> u32 {
        self.lane.number
    }

    pub(super) fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Waits until all work queued on this stream has ended.
    ///
    /// # Errors
    /// Same as for [`Device::synchronize`], including kernels that failed on another stream.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        self.device.refuse_in_recorded_work("synchronising a stream")?;
        let order = &self.device.inner.order;
        let stamp = order.stamp(self.lane.number);
        if let Some(cuda) = self.device.gpu() {
            cuda.synchronize_stream(&self.lane)?;
        }
        order.ended(&stamp);
        Ok(())
    }

    /// Records an event after all work queued on this stream now.
    ///
    /// # Errors
    /// The device failed, now or in an earlier kernel.
    pub fn record(&self) -> Result<Event, DeviceError> {
        let stamp = self.device.inner.order.stamp(self.lane.number);
        let record =
            |cuda: &CudaDevice| cuda.record_event(&cuda.lane_in_recording(&self.lane, stamp.is_recorded())?);
        let raw = self.device.gpu().map(record).transpose()?;
        Ok(Event { device: self.device.clone(), raw, time: Instant::now(), stamp })
    }

    /// Makes work that is queued on this stream later begin after the event. The host does not wait.
    ///
    /// # Errors
    /// The event belongs to another device; either the stream or the event is part of a recording, but not both; the device
    /// failed.
    pub fn wait(&self, event: &Event) -> Result<(), DeviceError> {
        self.device.refuse_other(&event.device, "waiting for an event")?;
        let waited = self.device.inner.order.wait(self.lane.number, &event.stamp);
        let is_recorded = waited.map_err(|outside| {
            let reason = match outside {
                Outside::EventRecorded => "it belongs to a recording that is over or another thread's",
                Outside::WaitRecorded => {
                    "this stream is being recorded, but the event does not belong to that recording"
                }
            };
            DeviceError::EventOfRecording { device: self.device.name(), reason }
        })?;
        match (&self.device.inner.backend, &event.raw) {
            (Backend::Cuda(cuda), Some(raw)) => {
                cuda.wait_for_event(&cuda.lane_in_recording(&self.lane, is_recorded)?, raw)
            }
            _ => Ok(()),
        }
    }
}

impl Launcher for Stream {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        // SAFETY: the caller's contract is the callee's.
        unsafe { self.device.submit_on(&self.lane, call) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.lane.number == 0 {
            return;
        }
        self.device.note_drop("dropping a stream");
        let lane = std::mem::take(&mut self.lane);
        let (number, is_foreign) = (lane.number, lane.is_foreign);
        if let Some(cuda) = self.device.gpu() {
            cuda.close_stream(lane);
        }
        match &self.device.inner.order {
            _ if self.device.is_of_another_process() => {}
            order if is_foreign => order.leave(number),
            order => order.close(number),
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at: Residence = self.device.residence();
        write!(f, "Stream({} of {at})", Named(self.lane.number))
    }
}

impl Event {
    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    fn check_outside_of_recordings(&self, action: &'static str) -> Result<(), DeviceError> {
        self.device.refuse_in_recorded_work(action)?;
        if self.stamp.is_recorded() {
            let reason = "it belongs to a recording, which only the graph reaches";
            return Err(DeviceError::EventOfRecording { device: self.device.name(), reason });
        }
        Ok(())
    }

    /// Waits until the device has reached the event.
    ///
    /// # Errors
    /// A kernel failed; the event is part of a recording.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        self.check_outside_of_recordings("waiting for an event")?;
        if let (Some(cuda), Some(raw)) = (self.device.gpu(), &self.raw) {
            cuda.synchronize_event(raw)?;
        }
        self.device.inner.order.ended(&self.stamp);
        Ok(())
    }

    /// Whether the device has reached the event.
    ///
    /// # Errors
    /// A kernel failed; the event is part of a recording.
    pub fn is_complete(&self) -> Result<bool, DeviceError> {
        self.check_outside_of_recordings("asking for an event")?;
        let is_complete = match (&self.device.inner.backend, &self.raw) {
            (Backend::Cuda(cuda), Some(raw)) => cuda.is_event_complete(raw)?,
            _ => true,
        };
        if is_complete {
            self.device.inner.order.ended(&self.stamp);
        }
        Ok(is_complete)
    }

    /// Waits for both events and returns the time from `start` to this one, by the device's clock or, on the CPU, the
    /// host's. It is zero if `start` came later.
    ///
    /// # Errors
    /// `start` belongs to another device; a kernel failed; one of the events is part of a recording.
    pub fn elapsed_since(&self, start: &Event) -> Result<Duration, DeviceError> {
        self.device.refuse_other(&start.device, "taking the time between two events")?;
        start.synchronize()?;
        self.synchronize()?;
        match (&self.device.inner.backend, &start.raw, &self.raw) {
            (Backend::Cuda(cuda), Some(start), Some(end)) => cuda.elapsed(start, end),
            _ => Ok(self.time.saturating_duration_since(start.time)),
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let (Some(cuda), Some(raw)) = (self.device.gpu(), self.raw.take()) {
            cuda.drop_event(raw);
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event(on {})", self.device.residence())
    }
}
