//! NCCL's communicator handle. Two threads use it: one queues operations, the other aborts them.

use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use cust::nccl::{Nccl, ncclComm_t, ncclConfig_t, ncclResult_t, ncclUniqueId};
use cust::sys::CUstream;

use super::operation::{Kind, Operation};
use crate::device::allocations::{Held, Needed};

/// How long an abort waits for an NCCL call in progress. Calls of a non-blocking communicator return soon.
const PATIENCE: Duration = Duration::from_secs(1);

/// An NCCL communicator; null before it is created and after it is freed.
struct Raw(ncclComm_t);

// SAFETY: NCCL's handles may be used from any thread, one at a time, and the mutex around the handle ensures that.
unsafe impl Send for Raw {}

/// An NCCL communicator that is freed once.
pub(super) struct Handle {
    nccl: &'static Nccl,
    raw: Mutex<Raw>,
}

impl Needed for Handle {
    fn hold(&self) -> Option<Box<dyn Held + '_>> {
        let raw = self.lock();
        if raw.0.is_null() { None } else { Some(Box::new(raw)) }
    }
}

impl Handle {
    /// Returns a handle without a communicator.
    pub fn new(nccl: &'static Nccl) -> Self {
        Self { nccl, raw: Mutex::new(Raw(ptr::null_mut())) }
    }

    fn lock(&self) -> MutexGuard<'_, Raw> {
        self.raw.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to create the communicator.
    pub fn create(&self, size: u32, name: ncclUniqueId, rank: u32) -> ncclResult_t {
        let mut raw = self.lock();
        let mut config = ncclConfig_t::non_blocking();
        // Real worlds are smaller than 2^31; NCCL refuses -1 as an invalid argument.
        let (size, rank) = (i32::try_from(size).unwrap_or(-1), i32::try_from(rank).unwrap_or(-1));
        // SAFETY: the out parameter and the configuration are valid; NCCL copies the latter.
        unsafe { self.nccl.ncclCommInitRankConfig(&mut raw.0, size, name, rank, &mut config) }
    }

    /// The state of the last call; `None` without a communicator.
    pub fn state(&self) -> Option<ncclResult_t> {
        let raw = self.lock();
        if raw.0.is_null() {
            return None;
        }
        let mut state = ncclResult_t::SUCCESS;
        // SAFETY: the communicator is alive, since it is freed under the lock; the out parameter is valid.
        let status = unsafe { self.nccl.ncclCommGetAsyncError(raw.0, &mut state) };
        Some(if status == ncclResult_t::SUCCESS { state } else { status })
    }

    /// Describes a code in words.
    pub fn describe(&self, code: ncclResult_t) -> String {
        let raw = self.lock();
        // SAFETY: the communicator is alive or null.
        unsafe { self.nccl.describe(code, raw.0) }
    }

    /// Begins the operations as one; returns `None` without a communicator.
    ///
    /// # Safety
    /// The memory of the operations is valid on the communicator's device for the elements that each operation reads and
    /// writes. No other code uses it until the work on the stream has ended. The stream is the device's, or null for a
    /// library that works on host memory.
    pub unsafe fn begin(&self, operations: &[Operation], stream: CUstream) -> Option<ncclResult_t> {
        let raw = self.lock();
        if raw.0.is_null() {
            return None;
        }
        if let [one] = operations {
            // SAFETY: the caller's contract, and the communicator is alive.
            return Some(unsafe { self.call(one, raw.0, stream) });
        }
        let is_fine = |status| matches!(status, ncclResult_t::SUCCESS | ncclResult_t::IN_PROGRESS);
        // SAFETY: a group may begin at any time, and it ends below.
        let mut status = unsafe { self.nccl.ncclGroupStart() };
        if !is_fine(status) {
            return Some(status);
        }
        for operation in operations {
            // SAFETY: as above.
            status = unsafe { self.call(operation, raw.0, stream) };
            if !is_fine(status) {
                break;
            }
        }
        // SAFETY: the group was begun.
        let ended = unsafe { self.nccl.ncclGroupEnd() };
        Some(if is_fine(status) { ended } else { status })
    }

    /// # Safety
    /// Same as for [`Self::begin`], and the communicator is alive.
    unsafe fn call(&self, operation: &Operation, raw: ncclComm_t, stream: CUstream) -> ncclResult_t {
        let Self { nccl, .. } = self;
        let (input, output) = (operation.input.first.cast_const().cast(), operation.output.first.cast());
        let (count, data_type) = (operation.count(), operation.data_type);
        let peer = |rank: u32| i32::try_from(rank).unwrap_or(-1);
        // SAFETY: the caller's contract is NCCL's.
        unsafe {
            match operation.kind {
                Kind::AllReduce(reduction) => {
                    nccl.ncclAllReduce(input, output, count, data_type, reduction.code(), raw, stream)
                }
                Kind::AllGather => nccl.ncclAllGather(input, output, count, data_type, raw, stream),
                Kind::ReduceScatter(reduction) => {
                    nccl.ncclReduceScatter(input, output, count, data_type, reduction.code(), raw, stream)
                }
                Kind::Broadcast { root } => {
                    nccl.ncclBroadcast(input, output, count, data_type, peer(root), raw, stream)
                }
                Kind::Send { to } => nccl.ncclSend(input, count, data_type, peer(to), raw, stream),
                Kind::Receive { from } => nccl.ncclRecv(output, count, data_type, peer(from), raw, stream),
            }
        }
    }

    /// Begins to end the communicator's work; returns `None` without a communicator.
    pub fn finalize(&self) -> Option<ncclResult_t> {
        let raw = self.lock();
        // SAFETY: the communicator is alive.
        (!raw.0.is_null()).then(|| unsafe { self.nccl.ncclCommFinalize(raw.0) })
    }

    /// Frees the communicator after its work has ended.
    pub fn destroy(&self) {
        let raw = std::mem::replace(&mut self.lock().0, ptr::null_mut());
        if !raw.is_null() {
            // SAFETY: the communicator is alive until here. If this fails, it stays until the process ends.
            let _ = unsafe { self.nccl.ncclCommDestroy(raw) };
        }
    }

    /// Aborts the communicator's work and frees it, unless an NCCL call in progress does not return.
    pub fn abort(&self) {
        let start = Instant::now();
        let raw = loop {
            match self.raw.try_lock() {
                Ok(mut raw) => break std::mem::replace(&mut raw.0, ptr::null_mut()),
                Err(TryLockError::Poisoned(raw)) => {
                    break std::mem::replace(&mut raw.into_inner().0, ptr::null_mut());
                }
                Err(TryLockError::WouldBlock) if start.elapsed() > PATIENCE => return,
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
            }
        };
        if !raw.is_null() {
            // SAFETY: the communicator is alive until here.
            let _ = unsafe { self.nccl.ncclCommAbort(raw) };
        }
    }
}
