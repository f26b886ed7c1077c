//! Waiting for the GPU, with or without a limit, and keeping the first fault.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cust::context::CurrentContext;
use cust::error::{CudaError, CudaResult};
use cust::stream::Stream;
use cust::sys;

use super::super::fault::{FaultKind, KernelFault};
use super::super::launches::{Launch, Launches};
use super::super::{DeviceError, hung};
use super::streams::{Lane, Queue};
use super::{CudaDevice, State, driver};

/// Launches that may be queued unwaited for under a time limit. The driver blocks a launch when its own queue is full,
/// at about a thousand, and a blocked call has no limit.
const MOST_QUEUED: u64 = 256;

/// How long a limited wait asks the driver without a pause: a pause costs more than short work takes.
const EAGER: Duration = Duration::from_micros(200);

/// The longest pause between two questions.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

impl CudaDevice {
    /// Waits until all queued work of all streams has ended.
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
        // SAFETY: the stream lives.
        let query = || unsafe { sys::cuStreamQuery(stream.as_inner()) }.ok();
        let ended = self.wait(|| stream.synchronize(), query, start)?;
        self.check(ended, || format!("synchronising with {}", self.name))
    }

    /// The driver's answer to a call that waits; where there is a limit, to questions in its place that do not.
    ///
    /// # Errors
    /// The limit is over since `start`, which leaves the device as one with a fault.
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

    /// The longest that a wait for queued work may last.
    pub fn time_limit(&self) -> Option<Duration> {
        Some(self.limit_nanos.load(Ordering::Relaxed)).filter(|&nanos| nanos > 0).map(Duration::from_nanos)
    }

    /// Limits all waits from now on.
    pub fn set_time_limit(&self, limit: Duration) {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        // 0 means no limit, and a limit of nothing would let no work end.
        self.limit_nanos.store(nanos.max(1), Ordering::Relaxed);
    }

    /// Where a time limit holds, waits before a call that the driver may block until queued work has ended.
    pub(super) fn drain_if_limited(&self) -> Result<(), DeviceError> {
        if self.time_limit().is_some() { self.synchronize() } else { Ok(()) }
    }

    /// Notes a launch among those that a later fault may come from; waits where that is asked for. The launch has been
    /// queued.
    pub(super) fn launched(&self, launch: Launch, lane: &Lane) -> Result<(), DeviceError> {
        self.queued(lane, |launches| launches.note(launch))
    }

    /// Notes the launches of a graph that has been queued; waits where that is asked for.
    pub(super) fn replayed(&self, launches: &Launches, lane: &Lane) -> Result<(), DeviceError> {
        self.queued(lane, |queued| queued.note_all(launches))
    }

    fn queued(&self, lane: &Lane, note: impl FnOnce(&mut Launches)) -> Result<(), DeviceError> {
        let queued = {
            let mut state = self.state();
            note(state.queued.on(lane.number));
            state.queued.count()
        };
        if self.waits_for_each_launch {
            return self.synchronize_stream(lane);
        }
        if queued >= MOST_QUEUED && self.time_limit().is_some() { self.synchronize() } else { Ok(()) }
    }

    /// Makes the context current, unless the device has failed.
    pub fn enter(&self) -> Result<(), DeviceError> {
        if let Some(first) = &self.state().fault {
            return Err(self.faulted(first));
        }
        let current = CurrentContext::set_current(&self.handles.context);
        self.check(current, || format!("using the context of {}", self.name))
    }

    /// The driver's answer. A fault is reported with everything known about it, and remembered.
    pub(super) fn check<T>(
        &self,
        result: CudaResult<T>,
        action: impl FnOnce() -> String,
    ) -> Result<T, DeviceError> {
        self.recheck(driver(result, action))
    }

    /// [`Self::check`] after the fact, for a part of the device that knows nothing of the rest.
    pub(super) fn recheck<T>(&self, result: Result<T, DeviceError>) -> Result<T, DeviceError> {
        result.map_err(|error| match &error {
            DeviceError::Driver { status, .. } => match FaultKind::of(*status) {
                Some(kind) => self.fail(kind, *status),
                None => error,
            },
            _ => error,
        })
    }

    /// [`Self::check`] of the driver's answer to a launch: with nothing else queued, a fault is this launch's.
    pub(super) fn check_launch(&self, launched: CudaResult<()>, launch: Launch) -> Result<(), DeviceError> {
        if launched.is_err_and(|error| FaultKind::of(error).is_some()) {
            let mut state = self.state();
            if state.queued.count() == 0 {
                state.queued.on(0).note(launch);
            }
        }
        self.check(launched, || format!("launch of {launch}"))
    }

    /// Remembers a fault, unless there is one already.
    fn fail(&self, kind: FaultKind, status: CudaError) -> DeviceError {
        let mut state = self.state();
        if let Some(first) = &state.fault {
            return self.faulted(first);
        }
        // While kernels run, and when the GPU is gone, the record says nothing.
        let panic = if kind.hangs() { None } else { self.handles.panic_slot.read() };
        let mut fault = KernelFault::new(&self.name, kind, &state.queued.all(), status, panic);
        fault.stack = self.handles.kernels.stack.suspect(&fault);
        let fault = Arc::new(fault);
        state.queued.clear();
        state.fault = Some(Arc::clone(&fault));
        if kind.hangs() {
            hung::note();
        }
        DeviceError::KernelFault(fault)
    }

    fn faulted(&self, first: &Arc<KernelFault>) -> DeviceError {
        DeviceError::Faulted { device: self.name.clone(), first: Arc::clone(first) }
    }

    /// Whether the device has failed: its memory goes with its context.
    pub(super) fn has_failed(&self) -> bool {
        self.state().fault.is_some()
    }

    /// Whether a call of the driver may wait for ever.
    pub(super) fn is_hung(&self) -> bool {
        self.state().fault.as_ref().is_some_and(|fault| fault.kind.hangs())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
