//! Streams: queues of work that a device does in order.

use std::borrow::Borrow;
use std::ffi::c_void;
use std::ptr;

use crate::context::InContext;
use crate::error::CudaResult;
use crate::event::Event;
use crate::function::{BlockSize, Function, GridSize};
use crate::sys::{self, CUstream};

bitflags::bitflags! {
    /// The relation of a stream to the legacy default stream.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct StreamFlags: u32 {
        /// Work waits for the default stream's, and the default stream's for this stream's.
        const DEFAULT = 0;
        /// Accepted but, as in upstream, without effect: the copies of [`crate::memory`] run on the default stream, and
        /// kernels that did not wait for them would read old values.
        const NON_BLOCKING = 1;
    }
}

bitflags::bitflags! {
    /// How a stream waits for an event.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct StreamWaitEventFlags: u32 {
        /// The only option.
        const DEFAULT = 0;
    }
}

/// A stream. Dropping it does not wait for its work.
#[derive(Debug)]
pub struct Stream {
    raw: CUstream,
    is_owned: bool,
    /// `None` for a stream of the caller's own.
    _context: Option<InContext>,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: same as for `Send`.
unsafe impl Sync for Stream {}

impl Stream {
    /// Creates a stream of the current context. Lower `priority` numbers run first.
    pub fn new(flags: StreamFlags, priority: Option<i32>) -> CudaResult<Self> {
        let (mut raw, context) = (ptr::null_mut(), InContext::current()?);
        let flags = flags.difference(StreamFlags::NON_BLOCKING).bits();
        // SAFETY: the out parameter is valid.
        unsafe { sys::cuStreamCreateWithPriority(&mut raw, flags, priority.unwrap_or(0)) }.ok()?;
        Ok(Self { raw, is_owned: true, _context: Some(context) })
    }

    /// Wraps a stream that the driver's own function created. It is destroyed with this object.
    ///
    /// # Safety
    /// `raw` is a stream, no other code destroys it, and its context outlives this object.
    pub unsafe fn from_raw(raw: CUstream) -> Self {
        Self { raw, is_owned: true, _context: None }
    }

    /// Wraps a stream of another library, which is not destroyed with this object. Null is the legacy default stream.
    ///
    /// # Safety
    /// `raw` is a stream that outlives this object.
    pub unsafe fn from_raw_borrowed(raw: CUstream) -> Self {
        Self { raw, is_owned: false, _context: None }
    }

    /// Waits until all queued work has ended.
    pub fn synchronize(&self) -> CudaResult<()> {
        // SAFETY: the stream is alive.
        unsafe { sys::cuStreamSynchronize(self.raw) }.ok()
    }

    /// Makes later work in the stream wait for the event's last recording; an event that was never recorded is not waited
    /// for. The host does not wait.
    ///
    /// # Errors
    /// The event belongs to a context of another process, or to a capture that does not include the stream.
    pub fn wait_event(&self, event: impl Borrow<Event>, flags: StreamWaitEventFlags) -> CudaResult<()> {
        // SAFETY: both are alive. The driver keeps what it needs of the event.
        unsafe { sys::cuStreamWaitEvent(self.raw, event.borrow().as_inner(), flags.bits()) }.ok()
    }

    /// The driver's handle.
    pub fn as_inner(&self) -> CUstream {
        self.raw
    }

    /// Queues a launch; called by [`crate::launch!`].
    ///
    /// # Errors
    /// The sizes exceed the device's or the kernel's limits.
    ///
    /// # Safety
    /// - `args` has one pointer per parameter of the kernel, to a value of the parameter's type.
    /// - The memory that the kernel accesses through them lives until it has ended, and no other code uses it until then.
    #[doc(hidden)]
    pub unsafe fn launch(
        &self,
        function: &Function<'_>,
        grid: impl Into<GridSize>,
        block: impl Into<BlockSize>,
        shared_bytes: u32,
        args: &[*mut c_void],
    ) -> CudaResult<()> {
        let (grid, block) = (grid.into(), block.into());
        // The driver copies the values before it returns and does not write through the pointers.
        let (args, extra) = (args.as_ptr().cast_mut(), ptr::null_mut());
        // SAFETY: function and stream are alive; the caller guarantees the arguments.
        let status = unsafe {
            sys::cuLaunchKernel(
                function.to_raw(),
                grid.x,
                grid.y,
                grid.z,
                block.x,
                block.y,
                block.z,
                shared_bytes,
                self.raw,
                args,
                extra,
            )
        };
        status.ok()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.is_owned {
            // SAFETY: this object owns the stream. After a failure it lives until the context ends.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.raw) };
        }
    }
}
