//! An NCCL communicator with the connections to the other ranks.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cust::nccl::ncclResult_t;

use super::handle::Handle;
use super::watch::{Failure, Watch};
use crate::device::error::DeviceError;

/// How long a wait polls NCCL without a pause; below, the pause between later polls.
const EAGER: Duration = Duration::from_micros(200);
const PAUSE: Duration = Duration::from_micros(500);

/// How long a failed operation waits to learn which rank is lost.
const CAUSE_PATIENCE: Duration = Duration::from_secs(1);

/// NCCL's communicator and the connections to the other ranks.
pub(super) struct Link {
    pub handle: Arc<Handle>,
    pub limit: Duration,
    pub watch: Watch,
}

/// Why work on a stream failed.
pub(super) enum Trouble {
    Device(DeviceError),
    Failure(Failure),
    Nccl(ncclResult_t),
}

impl From<DeviceError> for Trouble {
    fn from(error: DeviceError) -> Self {
        Trouble::Device(error)
    }
}

impl Link {
    /// Waits until NCCL has finished the call that returned `status`.
    pub fn settle(&self, status: ncclResult_t, limit: Duration) -> Result<(), Trouble> {
        let (start, shared) = (Instant::now(), self.watch.shared());
        let mut status = status;
        loop {
            match status {
                ncclResult_t::SUCCESS => return Ok(()),
                ncclResult_t::IN_PROGRESS => {}
                error => return Err(self.blame(error)),
            }
            if let Some(failure) = shared.failure() {
                return Err(Trouble::Failure(failure));
            }
            let elapsed = start.elapsed();
            if elapsed > limit {
                return Err(Trouble::Failure(shared.fail_late()));
            }
            if elapsed > EAGER {
                thread::sleep(PAUSE);
            }
            // No communicator means that it was aborted; the reason will arrive.
            status = self.handle.state().unwrap_or(ncclResult_t::IN_PROGRESS);
        }
    }

    /// Attributes an NCCL error to a lost rank, which may become known a moment later, or to this rank.
    pub fn blame(&self, status: ncclResult_t) -> Trouble {
        let (start, shared) = (Instant::now(), self.watch.shared());
        let may_be_remote = matches!(
            status,
            ncclResult_t::REMOTE_ERROR | ncclResult_t::SYSTEM_ERROR | ncclResult_t::UNHANDLED_CUDA_ERROR
        );
        while may_be_remote && start.elapsed() < CAUSE_PATIENCE.min(self.limit) {
            if let Some(failure) = shared.failure() {
                return Trouble::Failure(failure);
            }
            thread::sleep(PAUSE);
        }
        shared.fail_here().map_or(Trouble::Nccl(status), Trouble::Failure)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The communicator is the parent's.
        if cust::is_forked() {
            return;
        }
        let shared = self.watch.shared();
        if thread::panicking() {
            shared.fail_here();
        }
        if shared.failure().is_none()
            && let Some(status) = self.handle.finalize()
            && self.settle(status, self.limit).is_ok()
        {
            return self.handle.destroy();
        }
        self.handle.abort();
    }
}
