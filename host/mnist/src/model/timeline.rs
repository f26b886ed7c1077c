//! The timeline of the first steps of an epoch.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::error::ModelError;
use ferrowarp_device::device::{Device, Event, Stream};

/// The time spans of some steps' activities, from just before the first step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The number of steps.
    pub steps: usize,
    /// The host decodes a batch.
    pub load: Vec<Range<Duration>>,
    /// A batch is copied to the device.
    pub copies: Vec<Range<Duration>>,
    /// The host waits for the results of a step and copies them.
    pub fetches: Vec<Range<Duration>>,
    /// The device runs the kernels of a step, or of several steps queued with one call.
    pub kernels: Vec<Range<Duration>>,
    /// The host queues a step, or several with one call.
    pub host: Vec<Range<Duration>>,
}

/// Collects a [`Timeline`]. It records nothing until it is started.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    /// The most steps to record.
    limit: usize,
    steps: usize,
    /// The same moment on both clocks.
    origin: Option<(Instant, Event)>,
    load: Vec<Range<Instant>>,
    fetches: Vec<Range<Instant>>,
    copies: Vec<[Event; 2]>,
    kernels: Vec<[Event; 2]>,
    host: Vec<Range<Instant>>,
}

/// A step that is being queued.
pub(super) struct Begun {
    host: Instant,
    kernels: Event,
}

impl Recorder {
    /// Makes a recorder for the next `steps` steps.
    pub fn new(steps: usize) -> Self {
        Self { limit: steps, ..Self::default() }
    }

    /// Sets the origin of both clocks, unless it is set.
    pub fn start(&mut self, device: &Device) -> Result<(), ModelError> {
        if self.limit > 0 && self.origin.is_none() {
            device.synchronize()?;
            let event = device.default_stream().record()?;
            event.synchronize()?;
            self.origin = Some((Instant::now(), event));
        }
        Ok(())
    }

    /// Whether more steps are to be recorded.
    pub fn is_on(&self) -> bool {
        self.steps < self.limit
    }

    pub fn begin(&self, kernels: &Stream) -> Result<Option<Begun>, ModelError> {
        if !self.is_on() {
            return Ok(None);
        }
        let kernels = kernels.record()?;
        Ok(Some(Begun { host: Instant::now(), kernels }))
    }

    /// Notes that `steps` steps have been queued.
    pub fn end(&mut self, begun: Option<Begun>, kernels: &Stream, steps: usize) -> Result<(), ModelError> {
        if let Some(begun) = begun {
            self.host.push(begun.host..Instant::now());
            self.kernels.push([begun.kernels, kernels.record()?]);
            self.steps += steps;
        }
        Ok(())
    }

    pub fn begin_copy(&self, copies: &Stream) -> Result<Option<Event>, ModelError> {
        if self.is_on() { Ok(Some(copies.record()?)) } else { Ok(None) }
    }

    pub fn end_copy(&mut self, begun: Option<Event>, copies: &Stream) -> Result<(), ModelError> {
        if let Some(begun) = begun {
            self.copies.push([begun, copies.record()?]);
        }
        Ok(())
    }

    /// Notes that the host has fetched the results of the last step.
    pub fn fetched(&mut self, began: Instant) {
        if self.fetches.len() < self.host.len() {
            self.fetches.push(began..Instant::now());
        }
    }

    /// Notes that a batch has been decoded.
    pub fn loaded(&mut self, span: Range<Instant>) {
        if self.is_on() {
            self.load.push(span);
        }
    }

    /// Returns the timeline, if anything was recorded. Waits for the device.
    pub fn finish(self) -> Result<Option<Timeline>, ModelError> {
        let Some((began, origin)) = &self.origin else { return Ok(None) };
        let of_host = |spans: &[Range<Instant>]| -> Vec<Range<Duration>> {
            let since = |instant: Instant| instant.saturating_duration_since(*began);
            spans.iter().map(|span| since(span.start)..since(span.end)).collect()
        };
        let of_device = |events: &[[Event; 2]]| -> Result<Vec<Range<Duration>>, ModelError> {
            let since =
                |[start, end]: &[Event; 2]| Ok(start.elapsed_since(origin)?..end.elapsed_since(origin)?);
            events.iter().map(since).collect()
        };
        Ok(Some(Timeline {
            steps: self.steps,
            load: of_host(&self.load),
            copies: of_device(&self.copies)?,
            fetches: of_host(&self.fetches),
            kernels: of_device(&self.kernels)?,
            host: of_host(&self.host),
        }))
    }
}
