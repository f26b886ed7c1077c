//! Allocates and frees device memory, in the order of streams.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use cust::context::CurrentContext;
use cust::error::{CudaError, CudaResult};
use cust::event::{Event, EventFlags};
use cust::stream::{Stream, StreamWaitEventFlags};
use cust::sys;

use super::super::allocation_error::RawAllocError;
use super::super::error::DeviceError;
use super::super::placement::FreeMemory;
use super::found::address_of;
use super::gpu::CudaDevice;
use super::lane::{Allocated, Lane, Queue, Ready};
use super::pool::Pool;
use super::soil;

impl CudaDevice {
    /// Allocates memory in the order of the lane. Its bytes are `fill`, or any. `is_shared` is asked once the allocation is queued:
    /// whether other streams are open. A stream that is opened later begins after it.
    pub fn alloc(
        &self,
        lane: &Lane,
        bytes: usize,
        fill: Option<u8>,
        is_shared: impl FnOnce() -> bool,
    ) -> Result<Allocated, RawAllocError> {
        self.enter()?;
        let stream = self.stream_of(lane);
        let mut allocated = self.alloc_on(stream, bytes)?;
        if let (Err(CudaError::OutOfMemory), Some(_)) = (allocated, &self.handles.pool) {
            // What was freed may be in use until the work before has ended.
            self.trim()?;
            allocated = self.alloc_on(stream, bytes)?;
        }
        let action = || format!("allocating {bytes} bytes on {}", self.name);
        let address = self.check_full(allocated, || self.memory().ok(), action)?;
        let first = pointer_to(std::ptr::with_exposed_provenance_mut(address as usize))?;
        let is_unwritten = fill.is_none();
        let fill = fill.or((self.unwritten_len() > 0).then_some(soil::BYTE));
        let fill = || -> Result<Ready, DeviceError> {
            self.fill(address, bytes, fill, stream)?;
            Ok(match is_shared() {
                false => Ready::Nothing,
                // The first work of this stream writes it, and others come after that.
                true if is_unwritten => Ready::Work(lane.number),
                true => Ready::Event(ManuallyDrop::new(self.end_of(stream)?)),
            })
        };
        let ready = fill().inspect_err(|_| self.free(first, &[lane.number], lane.borrowed()))?;
        Ok(Allocated { first, ready })
    }

    /// Converts the result of an allocation. If there is not enough memory, `memory` is what is free.
    pub(super) fn check_full<T>(
        &self,
        allocated: CudaResult<T>,
        memory: impl FnOnce() -> Option<FreeMemory>,
        action: impl FnOnce() -> String,
    ) -> Result<T, RawAllocError> {
        match allocated {
            Err(error @ CudaError::OutOfMemory) => {
                Err(RawAllocError::Full { reason: error.to_string(), memory: memory() })
            }
            allocated => Ok(self.check(allocated, action)?),
        }
    }

    fn alloc_on(&self, stream: &Stream, bytes: usize) -> Result<CudaResult<u64>, DeviceError> {
        let mut address = 0;
        let status = match &self.handles.pool {
            // SAFETY: the out parameter is valid, the pool and the stream are alive, and the context is current.
            Some(pool) => unsafe {
                sys::cuMemAllocFromPoolAsync(&mut address, bytes, pool.raw, stream.as_inner())
            },
            None => {
                self.drain_if_limited()?;
                // SAFETY: as above.
                unsafe { sys::cuMemAlloc_v2(&mut address, bytes) }
            }
        };
        Ok(status.ok().map(|()| address))
    }

    fn fill(&self, address: u64, bytes: usize, fill: Option<u8>, stream: &Stream) -> Result<(), DeviceError> {
        let Some(byte) = fill else { return Ok(()) };
        // SAFETY: the memory was just allocated with that many bytes, in the order of this stream.
        let status = unsafe { sys::cuMemsetD8Async(address, byte, bytes, stream.as_inner()) };
        self.check(status.ok(), || format!("filling {bytes} bytes on {}", self.name))
    }

    /// Lets the lane's next work begin after the queued work of the stream with this number.
    pub fn wait_for_work(&self, lane: &Lane, number: u32) -> Result<(), DeviceError> {
        self.enter()?;
        let open =
            self.state().streams.iter().find(|(open, _)| *open == number).map(|(_, queue)| Arc::clone(queue));
        // The default stream comes after the work of closed ones.
        let event = self.end_of(open.as_deref().unwrap_or(&self.handles.stream))?;
        let waits = self.stream_of(lane).wait_event(&event, StreamWaitEventFlags::DEFAULT);
        self.check(waits, || format!("letting a stream of {} wait", self.name))
    }

    /// An event, without a time, after the stream's queued work.
    fn end_of(&self, stream: &Stream) -> Result<Event, DeviceError> {
        let event = Event::new(EventFlags::DISABLE_TIMING);
        let event = self.check(event, || "creating an event".to_owned())?;
        self.check(event.record(stream), || format!("queueing an event on {}", self.name))?;
        Ok(event)
    }

    /// Frees memory from [`Self::alloc`] after the queued work of the streams with these numbers, which used it. The default
    /// stream's number may stand for another library's stream.
    ///
    /// After a fault, the memory is freed with the context or the process. The next call reports a fault found here.
    pub fn free(&self, memory: NonNull<u8>, users: &[u32], borrowed: Option<&Queue>) {
        if self.has_failed() {
            return;
        }
        let _ = CurrentContext::set_current(&self.handles.context);
        let _ = self.queue_free(address_of(memory.as_ptr()), users, borrowed);
    }

    fn queue_free(&self, address: u64, users: &[u32], borrowed: Option<&Queue>) -> Result<(), DeviceError> {
        let Some(pool) = &self.handles.pool else { return self.free_now(address) };
        let open: Vec<Queue> = {
            let state = self.state();
            let streams = state.streams.iter().filter(|(number, _)| users.contains(number));
            streams.map(|(_, queue)| Arc::clone(queue)).collect()
        };
        // The default stream comes after the work of closed ones.
        let default = borrowed.map_or(&self.handles.stream, |borrowed| &**borrowed);
        let default = (open.len() < users.len()).then_some(default);
        let mut streams = open.iter().map(|queue| &**queue).chain(default);
        let first = streams.next().unwrap_or(&self.handles.stream);
        let others: Vec<&Stream> = streams.collect();
        let stream = if others.is_empty() { first } else { &pool.frees };
        if !others.is_empty() {
            for user in others.into_iter().chain([first]) {
                let event = self.end_of(user)?;
                let waits = stream.wait_event(&event, StreamWaitEventFlags::DEFAULT);
                self.check(waits, || format!("letting frees on {} wait", self.name))?;
            }
        }
        // SAFETY: the address came from the pool; its users' queued work comes before, and there is no later one.
        let status = unsafe { sys::cuMemFreeAsync(address, stream.as_inner()) };
        self.check(status.ok(), || format!("freeing memory of {}", self.name))
    }

    /// Frees unified memory. The driver waits for queued kernels.
    pub fn free_unified(&self, memory: NonNull<u8>) {
        if !self.has_failed() {
            let _ = CurrentContext::set_current(&self.handles.context);
            let _ = self.free_now(address_of(memory.as_ptr()));
        }
    }

    fn free_now(&self, address: u64) -> Result<(), DeviceError> {
        // All streams' work must end first. The driver waits for that of one, without a limit.
        if self.state().streams.is_empty() { self.drain_if_limited() } else { self.synchronize() }?;
        // SAFETY: the address came from the driver's allocator.
        let status = unsafe { sys::cuMemFree_v2(address) };
        self.check(status.ok(), || format!("freeing memory of {}", self.name))
    }

    /// Waits for queued work, and gives the pool's free memory back to the system.
    pub fn trim(&self) -> Result<(), DeviceError> {
        self.synchronize()?;
        let Some(Pool { raw, frees }) = &self.handles.pool else { return Ok(()) };
        self.wait_for_stream(frees, Instant::now())?;
        // SAFETY: the pool is alive.
        let trimmed = unsafe { sys::cuMemPoolTrimTo(*raw, 0) };
        self.check(trimmed.ok(), || format!("trimming the memory pool of {}", self.name))
    }
}

/// The driver's address of new memory, which is never 0 on success: a null buffer would be undefined behaviour here.
pub(super) fn pointer_to(address: *mut u8) -> Result<NonNull<u8>, RawAllocError> {
    NonNull::new(address).ok_or_else(|| RawAllocError::full("the driver gave the address 0"))
}
