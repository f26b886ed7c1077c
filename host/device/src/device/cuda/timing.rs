//! Events that time the stream's work, and graphs that replay it.
//!
//! The source is the CUDA driver API's reference, sections "Event Management", "Stream Management" and "Graph
//! Management".

use std::ptr;
use std::time::Duration;

use cust::context::CurrentContext;
use cust::device::DeviceAttribute;
use cust::error::CudaResult;
use cust::event::{Event, EventFlags};
use cust::memory::mem_get_info;
use cust::sys::{self, CUgraph, CUgraphExec};

use super::super::error::DeviceError;
use super::super::launches::Launches;
use super::super::placement::FreeMemory;
use super::super::profile::Peaks;
use super::found::{attribute, driver, find};
use super::gpu::CudaDevice;
use super::lane::Lane;

/// A graph that is ready to run. [`CudaDevice::destroy`] destroys it.
pub(in super::super) struct Recording {
    raw: CUgraphExec,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Recording {}
// SAFETY: as above; the contract of `replay` excludes that two threads launch a graph at once.
unsafe impl Sync for Recording {}

/// A capture in progress, on streams that are its own.
struct Capture<'a> {
    device: &'a CudaDevice,
    first: Lane,
    is_open: bool,
}

impl<'a> Capture<'a> {
    fn begin(device: &'a CudaDevice) -> Result<Self, DeviceError> {
        let first = device.lane_in_recording(&Lane::default(), true)?;
        // No call is forbidden, in any thread: this library decides what recorded work may do.
        let mode = sys::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is alive.
        let status = unsafe { sys::cuStreamBeginCapture_v2(device.stream_of(&first).as_inner(), mode) };
        let mut capture = Self { device, first, is_open: false };
        driver(status.ok(), || format!("beginning to record on {}", device.name))?;
        capture.is_open = true;
        Ok(capture)
    }

    fn end(mut self) -> Result<CapturedGraph, DeviceError> {
        let (captured, graph) = self.close();
        driver(captured, || format!("ending the recording on {}", self.device.name))?;
        Ok(graph)
    }

    fn close(&mut self) -> (CudaResult<()>, CapturedGraph) {
        self.is_open = false;
        let (mut raw, stream) = (ptr::null_mut(), self.device.stream_of(&self.first).as_inner());
        // SAFETY: the out parameter is valid, and the stream is in the capture that this object began.
        let status = unsafe { sys::cuStreamEndCapture(stream, &mut raw) };
        (status.ok(), CapturedGraph { raw })
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        // The drops of the streams need the context to be current.
        let _ = CurrentContext::set_current(&self.device.handles.context);
        if self.is_open {
            // The work failed or panicked; its error says more than the capture's.
            let _ = self.close();
        }
        let streams = std::mem::take(&mut self.device.state().recording);
        let all = (std::mem::take(&mut self.first), streams);
        if self.device.is_hung() {
            std::mem::forget(all);
        }
    }
}

/// A captured graph; null if the capture failed.
struct CapturedGraph {
    raw: CUgraph,
}

impl Drop for CapturedGraph {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the graph is this object's. If this fails, it stays until the context ends.
            let _ = unsafe { sys::cuGraphDestroy(self.raw) };
        }
    }
}

/// `f32` additions or multiplications that a multiprocessor begins per cycle, by compute capability (CUDA programming guide,
/// "throughput of native arithmetic instructions").
fn lanes(capability: u32) -> u32 {
    match capability {
        ..86 => 64,
        _ => 128,
    }
}

impl CudaDevice {
    /// Runs `work` and measures the device's time, from the end of earlier queued work to the end of `work`.
    pub fn time<R>(
        &self,
        work: impl FnOnce() -> Result<R, DeviceError>,
    ) -> Result<(R, Duration), DeviceError> {
        self.enter()?;
        let event = || self.check(Event::new(EventFlags::DEFAULT), || "creating an event".to_owned());
        let (start, end) = (event()?, event()?);
        self.queue(&start)?;
        let result = work()?;
        self.enter()?;
        self.queue(&end)?;
        self.synchronize()?;
        let time = self.check(end.elapsed(&start), || "asking for the time between two events".to_owned())?;
        Ok((result, time))
    }

    /// Measures the time of what `launch` queues on a stream, and waits for its end.
    pub fn time_on<E: From<DeviceError>>(
        &self,
        lane: &Lane,
        launch: impl FnOnce() -> Result<(), E>,
    ) -> Result<Duration, E> {
        let start = self.record_event(lane)?;
        let time = launch().and_then(|()| {
            let end = self.record_event(lane)?;
            let time = self.synchronize_event(&end).and_then(|()| self.elapsed(&start, &end));
            self.drop_event(end);
            Ok(time?)
        });
        self.drop_event(start);
        time
    }

    /// The device's peak rates, computed from its clocks.
    pub fn peaks(&self) -> Result<Peaks, DeviceError> {
        self.recheck(self.read_peaks())
    }

    fn read_peaks(&self) -> Result<Peaks, DeviceError> {
        let found = find(self.ordinal)?;
        let get = |which| attribute(found.device, which).map(f64::from);
        let multiprocessors = get(DeviceAttribute::MultiprocessorCount)?;
        // Both clocks are in kHz.
        let (clock, memory) = (get(DeviceAttribute::ClockRate)?, get(DeviceAttribute::MemoryClockRate)?);
        let lanes = lanes(10 * found.major + found.minor);
        Ok(Peaks {
            flops: 2.0 * f64::from(lanes) * multiprocessors * 1e3 * clock,
            // Two transfers per cycle.
            bytes_per_second: 2.0 * 1e3 * memory * get(DeviceAttribute::GlobalMemoryBusWidth)? / 8.0,
        })
    }

    fn queue(&self, event: &Event) -> Result<(), DeviceError> {
        self.check(event.record(&self.handles.stream), || format!("queueing an event on {}", self.name))
    }

    /// Records what `work` queues as a graph, without running it.
    pub fn record(&self, work: impl FnOnce() -> Result<(), DeviceError>) -> Result<Recording, DeviceError> {
        self.enter()?;
        // Loading a module waits for queued work, and a recording must not.
        self.drain_if_limited()?;
        let capture = self.recheck(Capture::begin(self))?;
        work()?;
        self.enter()?;
        let graph = self.recheck(capture.end())?;
        let mut raw = ptr::null_mut();
        // SAFETY: the out parameter is valid, and the graph was just captured.
        let status = unsafe { sys::cuGraphInstantiateWithFlags(&mut raw, graph.raw, 0) };
        self.check(status.ok(), || format!("making a graph ready on {}", self.name))?;
        Ok(Recording { raw })
    }

    /// Queues the graph, which contains these launches.
    ///
    /// # Safety
    /// The recording is this device's; the contracts of its launches hold again; no other thread launches it at the same
    /// time.
    pub unsafe fn replay(
        &self,
        recording: &Recording,
        launches: &Launches,
        lane: &Lane,
    ) -> Result<(), DeviceError> {
        self.enter()?;
        // SAFETY: the graph belongs to this context; the rest is the caller's contract.
        let status = unsafe { sys::cuGraphLaunch(recording.raw, self.stream_of(lane).as_inner()) };
        self.check(status.ok(), || format!("queueing a graph of {} launches", launches.count()))?;
        self.replayed(launches, lane)
    }

    /// Destroys a graph. The driver lets a run in progress end first.
    pub fn destroy(&self, recording: &Recording) {
        if self.drain_if_limited().is_err() && self.is_hung() {
            return;
        }
        let _ = CurrentContext::set_current(&self.handles.context);
        // SAFETY: the owner calls this once, when it is dropped. If this fails, the graph stays until the context ends.
        let _ = unsafe { sys::cuGraphExecDestroy(recording.raw) };
    }

    /// Bytes of the L2 cache.
    pub fn l2_bytes(&self) -> Result<usize, DeviceError> {
        let bytes =
            find(self.ordinal).and_then(|found| attribute(found.device, DeviceAttribute::L2CacheSize));
        Ok(self.recheck(bytes)? as usize)
    }

    /// The free and the total memory.
    pub fn memory(&self) -> Result<FreeMemory, DeviceError> {
        self.enter()?;
        let (free, total) =
            self.check(mem_get_info(), || format!("asking how much memory of {} is free", self.name))?;
        Ok(FreeMemory { free, total })
    }
}
