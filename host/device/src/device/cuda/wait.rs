//! Waits for the GPU, with or without a limit, and keeps the first fault.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use cust::context::CurrentContext;
use cust::error::{CudaError, CudaResult};
use cust::stream::Stream;
use cust::sys;

use super::super::error::DeviceError;
use super::super::fault::{FaultKind, KernelFault};
use super::super::hung;
use super::super::launches::{Launch, Launches};
use super::found::{driver, locked};
use super::gpu::CudaDevice;
use super::lane::{Lane, Queue};
use super::shared::{self, State};

/// The most launches that may be queued without a wait under a time limit. The driver blocks a launch when its queue is
/// full, at about a thousand, and a blocked call has no limit.
const MOST_QUEUED: u64 = 256;

/// How long a limited wait polls the driver without a pause: a pause costs more than short work takes.
const EAGER: Duration = Duration::from_micros(200);

/// The longest pause between two polls.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

impl CudaDevice {
    /// Waits until all queued work on all streams has ended.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        self.enter()?;
        let start = Instant::now();
        self.wait_for_stream(&self.handles.stream, start)?;
        let others: Vec<Queue> = self.state().streams.iter().map(|(_, queue)| Arc::clone(queue)).collect();
        others.iter().try_for_each(|stream| self.wait_for_stream(stream, start))?;
        self.state().queued.clear();
        Ok(())
    }

    /// Waits until the stream's work has ended. The context is current.
    pub(super) fn wait_for_stream(&self, stream: &Stream, start: Instant) -> Result<(), DeviceError> {
        // SAFETY: the stream is alive.
        let query = || unsafe { sys::cuStreamQuery(stream.as_inner()) }.ok();
        let ended = self.wait(|| stream.synchronize(), query, start)?;
        self.check(ended, || format!("synchronising with {}", self.name))
    }

    /// Waits with a blocking call, or with a limit by polling.
    ///
    /// # Errors
    /// The limit since `start` is over. The device then counts as failed.
    pub(super) fn wait(
        &self,
        block: impl FnOnce() -> CudaResult<()>,
        query: impl Fn() -> CudaResult<()>,
        start: Instant,
    ) -> Result<CudaResult<()>, DeviceError> {
        let Some(limit) = self.time_limit() else { return Ok(block()) };
        loop {
            let status = query();
            let Err(not_ready @ CudaError::NotReady) = status else { return Ok(status) };
            let elapsed = start.elapsed();
            if elapsed >= limit {
                return Err(self.fail(FaultKind::TimedOut { limit }, not_ready));
            }
            if elapsed > EAGER {
                std::thread::sleep((elapsed / 8).min(LONGEST_PAUSE));
            }
        }
    }

    /// The limit of a wait for queued work.
    pub fn time_limit(&self) -> Option<Duration> {
        Some(self.limit_nanos.load(Ordering::Relaxed)).filter(|&nanos| nanos > 0).map(Duration::from_nanos)
    }

    /// Limits all later waits.
    pub fn set_time_limit(&self, limit: Duration) {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        // 0 means no limit, so a limit of zero becomes 1 ns.
        self.limit_nanos.store(nanos.max(1), Ordering::Relaxed);
    }

    /// With a time limit, waits for queued work before a driver call that may block on it.
    pub(super) fn drain_if_limited(&self) -> Result<(), DeviceError> {
        if self.time_limit().is_some() { self.synchronize() } else { Ok(()) }
    }

    /// Notes a queued launch among those that a later fault may come from, and waits if every launch must be waited for.
    pub(super) fn launched(&self, launch: Launch, lane: &Lane) -> Result<(), DeviceError> {
        self.queued(lane, |launches| launches.note(launch))
    }

    /// Notes the launches of a queued graph, and waits if every launch must be waited for.
    pub(super) fn replayed(&self, launches: &Launches, lane: &Lane) -> Result<(), DeviceError> {
        self.queued(lane, |queued| queued.note_all(launches))
    }

    fn queued(&self, lane: &Lane, note: impl FnOnce(&mut Launches)) -> Result<(), DeviceError> {
        let queued = {
            let mut state = self.state();
            note(state.queued.on(lane.number));
            self.time_limit().map_or(0, |_| state.queued.count())
        };
        if self.waits_for_each_launch {
            return self.synchronize_stream(lane);
        }
        if queued >= MOST_QUEUED { self.synchronize() } else { Ok(()) }
    }

    /// Makes the context current, unless the device has failed.
    pub fn enter(&self) -> Result<(), DeviceError> {
        // A thread that is not in this process may have locked the state.
        if !cust::is_forked()
            && let Some(first) = &self.state().fault
        {
            return Err(self.faulted(first));
        }
        let current = CurrentContext::set_current(&self.handles.context);
        self.check(current, || format!("using the context of {}", self.name))
    }

    /// Converts the driver's result. A fault is reported with everything known about it, and remembered.
    pub(super) fn check<T>(
        &self,
        result: CudaResult<T>,
        action: impl FnOnce() -> String,
    ) -> Result<T, DeviceError> {
        self.recheck(driver(result, action))
    }

    /// Applies [`Self::check`] later, to an error from a part of the device that does not know the rest.
    pub fn recheck<T>(&self, result: Result<T, DeviceError>) -> Result<T, DeviceError> {
        result.map_err(|error| {
            match error.status().and_then(|status| Some((FaultKind::of(status)?, status))) {
                Some((kind, status)) => self.fail(kind, status),
                None => error,
            }
        })
    }

    /// Applies [`Self::check`] to a launch's result: if nothing else is queued, a fault belongs to this launch.
    pub(super) fn check_launch(&self, launched: CudaResult<()>, launch: Launch) -> Result<(), DeviceError> {
        if launched.is_err_and(|error| FaultKind::of(error).is_some()) {
            let mut state = self.state();
            if state.queued.count() == 0 {
                state.queued.on(0).note(launch);
            }
        }
        self.check(launched, || format!("launch of {launch}"))
    }

    /// Remembers a fault, unless there already is one.
    fn fail(&self, kind: FaultKind, status: CudaError) -> DeviceError {
        if let Some(first) = &self.state().fault {
            return self.faulted(first);
        }
        if kind.hangs() {
            hung::note();
        } else if let Some(first) = shared::known(self.which) {
            self.state().fault = Some(Arc::clone(&first));
            return self.faulted(&first);
        }
        // The record means nothing while kernels run or when the GPU is lost. Otherwise the kernel may be another device's.
        let (launches, panic) = match kind.hangs() {
            true => (self.state().queued.all(), None),
            false => shared::suspects(self.which),
        };
        let mut fault = KernelFault::new(&self.name, kind, &launches, status, panic);
        fault.stack = self.handles.kernels.stack.suspect(&fault);
        let fault = Arc::new(fault);
        let mut state = self.state();
        state.queued.clear();
        if let Some(first) = &state.fault {
            return self.faulted(first);
        }
        state.fault = Some(Arc::clone(&fault));
        if !kind.hangs() {
            shared::keep(self.which, &fault);
        }
        DeviceError::KernelFault(fault)
    }

    fn faulted(&self, first: &Arc<KernelFault>) -> DeviceError {
        DeviceError::Faulted { device: self.name.clone(), first: Arc::clone(first) }
    }

    /// Whether the device has failed, or belongs to another process. Its memory is then freed with its context.
    pub(super) fn has_failed(&self) -> bool {
        cust::is_forked() || self.state().fault.is_some()
    }

    /// Whether a driver call may block forever, or is not this process's to make.
    pub(super) fn is_hung(&self) -> bool {
        cust::is_forked() || self.state().fault.as_ref().is_some_and(|fault| fault.kind.hangs())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.handles.member.state)
    }
}
