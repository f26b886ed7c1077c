//! What a stream of a device and memory that is allocated in its order are.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use cust::event::Event;
use cust::stream::Stream;

/// An additional stream of the device.
pub(in super::super) type Queue = Arc<Stream>;

/// A stream's number, and the driver's handle, which is absent for the device's default stream.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Lane {
    pub number: u32,
    pub(in super::super) queue: Option<Queue>,
    /// Whether the driver's stream is another library's.
    pub is_foreign: bool,
}

impl Lane {
    /// Another library's stream that stands for the default one: the driver's handle.
    pub fn borrowed(&self) -> Option<&Queue> {
        self.queue.as_ref().filter(|_| self.is_foreign && self.number == 0)
    }
}

/// Memory from [`CudaDevice::alloc`].
pub(in super::super) struct Allocated {
    pub first: NonNull<u8>,
    pub ready: Ready,
}

/// What other streams wait for before they first use some memory.
#[derive(Default)]
pub(in super::super) enum Ready {
    #[default]
    Nothing,
    Event(ManuallyDrop<Event>),
    /// All work of the stream with this number that is queued by then.
    Work(u32),
}
