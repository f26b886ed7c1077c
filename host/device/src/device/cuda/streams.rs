//! A GPU's additional streams, their events, and asynchronous copies.
//!
//! The source is the CUDA driver API's reference, sections "Stream Management", "Event Management" and "Memory
//! Management".

use std::ffi::c_uint;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cust::context::CurrentContext;
use cust::error::CudaError;
use cust::event::{Event, EventFlags, EventStatus};
use cust::stream::{Stream, StreamWaitEventFlags};
use cust::sys;

use super::super::allocation_error::RawAllocError;
use super::super::error::DeviceError;
use super::found::address_of;
use super::gpu::CudaDevice;
use super::handles;
use super::lane::Lane;
use super::memory::pointer_to;
use super::shared::State;

impl CudaDevice {
    /// The driver's stream.
    pub(super) fn stream_of<'a>(&'a self, lane: &'a Lane) -> &'a Stream {
        lane.queue.as_deref().unwrap_or(&self.handles.stream)
    }

    /// The lane itself or, for recorded work, one whose stream stands for it in the recording in progress. No other work
    /// goes there, so that a recording contains the recording thread's work alone.
    pub fn lane_in_recording(&self, lane: &Lane, is_recorded: bool) -> Result<Lane, DeviceError> {
        if !is_recorded {
            return Ok(lane.clone());
        }
        let number = lane.number;
        let known = |state: &State| state.recording.iter().find(|of| of.0 == number).map(|of| of.1.clone());
        let known = known(&self.state());
        let queue = match known {
            Some(queue) => queue,
            None => {
                self.enter()?;
                let queue = Arc::new(self.recheck(handles::stream())?);
                self.state().recording.push((number, Arc::clone(&queue)));
                queue
            }
        };
        Ok(Lane { number, queue: Some(queue), is_foreign: false })
    }

    /// Opens a stream. Its work begins after the queued work of the default stream.
    pub fn open_stream(&self, number: u32) -> Result<Lane, DeviceError> {
        self.enter()?;
        self.open_lane(number, self.recheck(handles::stream())?, false)
    }

    /// Opens a stream of another library, like [`Self::open_stream`].
    ///
    /// # Safety
    /// `raw` is a stream of the device's context, or null, and outlives the lane.
    pub unsafe fn open_foreign(&self, number: u32, raw: sys::CUstream) -> Result<Lane, DeviceError> {
        self.enter()?;
        // SAFETY: the caller's contract is the callee's.
        self.open_lane(number, unsafe { Stream::from_raw_borrowed(raw) }, true)
    }

    /// A stream of another library, as the default stream's number.
    ///
    /// # Safety
    /// `raw` is a stream of the device's context, or null, and outlives the lane.
    pub unsafe fn borrow_stream(&self, raw: sys::CUstream) -> Result<Lane, DeviceError> {
        self.enter()?;
        // SAFETY: the caller's contract is the callee's.
        let queue = Some(Arc::new(unsafe { Stream::from_raw_borrowed(raw) }));
        Ok(Lane { number: 0, queue, is_foreign: true })
    }

    fn open_lane(&self, number: u32, stream: Stream, is_foreign: bool) -> Result<Lane, DeviceError> {
        let queue = Arc::new(stream);
        let lane = Lane { number, queue: Some(Arc::clone(&queue)), is_foreign };
        let event = self.record_event(&Lane::default())?;
        let waits = self.wait_for_event(&lane, &event);
        self.drop_event(event);
        waits?;
        self.state().streams.push((number, queue));
        Ok(lane)
    }

    /// Waits for the stream's work and destroys it, or leaks it if the driver would block forever. For another library's stream,
    /// the default stream waits.
    pub fn close_stream(&self, lane: Lane) {
        // The next call reports an error from here.
        let ended = match lane.is_foreign {
            false => self.synchronize_stream(&lane),
            // The default stream's later work comes after its work, and so does that of streams that are opened later.
            true => self.record_event(&lane).and_then(|event| {
                let waits = self.wait_for_event(&Lane::default(), &event);
                self.drop_event(event);
                waits
            }),
        };
        let listed = {
            let mut state = self.state();
            let at = state.streams.iter().position(|&(number, _)| number == lane.number);
            at.map(|at| state.streams.swap_remove(at))
        };
        if ended.is_err() && self.is_hung() {
            std::mem::forget((lane, listed));
            return;
        }
        // The stream's drop needs the context to be current.
        let _ = CurrentContext::set_current(&self.handles.context);
        drop((lane, listed));
    }

    /// Waits until the stream's work has ended.
    pub fn synchronize_stream(&self, lane: &Lane) -> Result<(), DeviceError> {
        self.enter()?;
        self.wait_for_stream(self.stream_of(lane), Instant::now())?;
        self.state().queued.on(lane.number).clear();
        Ok(())
    }

    /// Records an event at the end of the stream's queued work.
    pub fn record_event(&self, lane: &Lane) -> Result<ManuallyDrop<Event>, DeviceError> {
        self.enter()?;
        let event = self.check(Event::new(EventFlags::DEFAULT), || "creating an event".to_owned())?;
        self.check(event.record(self.stream_of(lane)), || format!("queueing an event on {}", self.name))?;
        Ok(ManuallyDrop::new(event))
    }

    /// Makes the stream's later work wait for the event.
    pub fn wait_for_event(&self, lane: &Lane, event: &Event) -> Result<(), DeviceError> {
        self.enter()?;
        let waits = self.stream_of(lane).wait_event(event, StreamWaitEventFlags::DEFAULT);
        self.check(waits, || format!("letting a stream of {} wait for an event", self.name))
    }

    /// Waits until the device has reached the event.
    pub fn synchronize_event(&self, event: &Event) -> Result<(), DeviceError> {
        self.enter()?;
        let query = || match event.query()? {
            EventStatus::Ready => Ok(()),
            EventStatus::NotReady => Err(CudaError::NotReady),
        };
        let ended = self.wait(|| event.synchronize(), query, Instant::now())?;
        self.check(ended, || format!("waiting for an event on {}", self.name))
    }

    /// Whether the device has reached the event.
    pub fn is_event_complete(&self, event: &Event) -> Result<bool, DeviceError> {
        self.enter()?;
        let status = self.check(event.query(), || format!("asking for an event on {}", self.name))?;
        Ok(status == EventStatus::Ready)
    }

    /// The time between two events that the device has reached.
    pub fn elapsed(&self, start: &Event, end: &Event) -> Result<Duration, DeviceError> {
        self.enter()?;
        self.check(end.elapsed(start), || "asking for the time between two events".to_owned())
    }

    /// Destroys an event without waiting, or leaks it if no driver call is safe.
    pub fn drop_event(&self, event: ManuallyDrop<Event>) {
        if !self.is_hung() {
            // The event's drop needs the context to be current.
            let _ = CurrentContext::set_current(&self.handles.context);
            drop(ManuallyDrop::into_inner(event));
        }
    }

    /// Queues a copy from page-locked memory to the device.
    ///
    /// # Safety
    /// `to` is valid on the device for `bytes` bytes and `from` is page-locked memory of the same size, both until the copy
    /// has ended. Until then, no other code uses `to` or writes `from`.
    pub unsafe fn upload(
        &self,
        lane: &Lane,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), DeviceError> {
        self.enter()?;
        let stream = self.stream_of(lane).as_inner();
        // SAFETY: the caller's memory.
        let status = unsafe { sys::cuMemcpyHtoDAsync_v2(address_of(to), from.cast(), bytes, stream) };
        self.check(status.ok(), || format!("copying {bytes} bytes to {}", self.name))
    }

    /// Queues a copy from the device to page-locked memory.
    ///
    /// # Safety
    /// `from` is valid on the device for `bytes` bytes and `to` is page-locked memory of the same size, both until the copy
    /// has ended. Until then, no other code uses `to` or writes `from`.
    pub unsafe fn download(
        &self,
        lane: &Lane,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), DeviceError> {
        self.enter()?;
        let stream = self.stream_of(lane).as_inner();
        // SAFETY: the caller's memory.
        let status =
            unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), address_of(from.cast_mut()), bytes, stream) };
        self.check(status.ok(), || format!("copying {bytes} bytes from {}", self.name))
    }

    /// Makes the context current and returns the driver's handle of the stream.
    pub fn raw_stream(&self, lane: &Lane) -> Result<sys::CUstream, DeviceError> {
        self.enter()?;
        Ok(self.stream_of(lane).as_inner())
    }

    /// Queues a copy between two parts of the device's memory.
    ///
    /// # Safety
    /// Both are valid on the device for `bytes` bytes until the copy has ended, and do not overlap. Until then no other code
    /// writes them or reads `to`.
    pub unsafe fn copy_within(
        &self,
        stream: sys::CUstream,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), DeviceError> {
        let (to, from) = (address_of(to), address_of(from.cast_mut()));
        // SAFETY: the caller's memory and stream.
        let status = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream) };
        self.check(status.ok(), || format!("copying {bytes} bytes within the memory of {}", self.name))
    }

    /// Allocates page-locked memory of `bytes` zero bytes, at least one.
    pub fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>, RawAllocError> {
        /// `CU_MEMHOSTALLOC_DEVICEMAP`.
        const DEVICEMAP: c_uint = 2;
        self.enter()?;
        self.drain_if_limited()?;
        let mut memory = ptr::null_mut();
        // SAFETY: the out parameter is valid and the context current.
        let allocated = unsafe { sys::cuMemHostAlloc(&mut memory, bytes, DEVICEMAP) }.ok();
        self.check_full(allocated, || None, || format!("allocating {bytes} bytes of page-locked memory"))?;
        let memory = pointer_to(memory.cast())?;
        // SAFETY: the memory was just allocated with that many bytes.
        unsafe { memory.as_ptr().write_bytes(0, bytes) };
        Ok(memory)
    }

    /// Frees memory from [`Self::alloc_pinned`]. After a fault it is kept until the process ends, because the GPU may still
    /// write to it.
    pub fn free_pinned(&self, memory: NonNull<u8>) {
        if self.has_failed() || self.drain_if_limited().is_err() {
            return;
        }
        let _ = CurrentContext::set_current(&self.handles.context);
        // SAFETY: the address came from the driver's allocator, and its owner is being dropped.
        let status = unsafe { sys::cuMemFreeHost(memory.as_ptr().cast()) };
        let _ = self.check(status.ok(), || "freeing page-locked memory".to_owned());
    }
}
