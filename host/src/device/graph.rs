//! Graphs: work that is recorded once and launched many times.

use std::fmt;

use super::launches::Launches;
use super::order::{Admission, Order, Recorded, Spoiled, Touch};
use super::profile::Launched;
use super::{Backend, Device, DeviceError, Stream, cuda};

/// The work of a graph, with its errors as the device's.
type Work<S> = Box<dyn Fn(&Stream, &mut S) -> Result<(), DeviceError> + Send + Sync>;

/// Launches that [`Device::record`] recorded, to be queued again by one call, and the state that they work on: on a GPU
/// a CUDA graph; on the CPU the work is run again. It keeps the device alive.
///
/// ```
/// use cuda_std::launch::LaunchConfig;
/// use cuda_std::{kernel, thread};
/// use ferrowarp::device::{Buffer, Device, DeviceError};
///
/// /// # Safety
/// /// A thread for each element.
/// #[kernel]
/// pub unsafe fn double(numbers: *mut u32) {
///     unsafe { *numbers.add(thread::index_1d() as usize) *= 2 };
/// }
///
/// let device = Device::cpu(); // On a GPU: Device::cuda(0, &PtxModules::find()?)?
/// let numbers = device.upload(&[1u32; 32])?;
/// let mut graph = device.record(numbers, |stream, numbers: &mut Buffer<u32>| {
///     let config = LaunchConfig::new(1, 32);
///     // SAFETY: 32 threads and elements, which are the graph's.
///     unsafe {
///         double::launch(stream, config, &mut *numbers)?;
///         double::launch(stream, config, numbers)
///     }
/// })?;
/// assert_eq!(graph.state().to_vec()?, [1; 32]); // Nothing has run.
/// graph.launch()?;
/// graph.launch()?;
/// assert_eq!(graph.into_state().to_vec()?, [16; 32]);
/// # Ok::<(), DeviceError>(())
/// ```
pub struct Graph<S> {
    replay: Replay,
    /// On the CPU what is run; on a GPU it keeps what it holds alive.
    work: Work<S>,
    state: S,
}

/// What is replayed, apart from the state.
struct Replay {
    device: Device,
    /// The driver's, on a GPU.
    recording: Option<cuda::timing::Recording>,
    launches: Launches,
    touches: Vec<Touch>,
}

/// Ends the recording, also where the work panics.
struct Open<'a> {
    order: &'a Order,
    is_open: bool,
}

impl Open<'_> {
    fn end(mut self) -> Result<Recorded, Spoiled> {
        self.is_open = false;
        self.order.end_recording()
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // It fails, and the work's own failure says more.
            let _ = self.order.end_recording();
        }
    }
}

impl Device {
    /// Records the launches that `work` queues; they do not run now. `work` gets the [default
    /// stream](Self::default_stream), to which launches on the device itself go too, and the state, which the graph
    /// keeps. Launches on another stream are recorded where that waits for an [`Event`](super::Event) of a recorded stream,
    /// and refused otherwise. At the end the default stream must wait for it in turn.
    ///
    /// `work` must queue the same launches each time it is called, since on the CPU each launch of the graph calls it, and
    /// on a GPU none does. It must not allocate, free, copy or synchronise. No other thread may queue work on these
    /// streams meanwhile: it would be recorded too.
    ///
    /// Launch a kernel once before it is recorded: the driver may load its code at the first launch, which a recording
    /// cannot hold.
    ///
    /// The promise of an `unsafe` launch in `work` is for every launch of the graph: what it is given is the state's, or is
    /// held by `work`, and stays where it is as long as the graph.
    ///
    /// # Errors
    /// What `work` answers, among it [`DeviceError::Unordered`] for launches on two streams of the graph that race;
    /// [`DeviceError::NotRecordable`] for what a graph cannot hold; [`DeviceError::Unjoined`] where the default stream does
    /// not wait for another at the end; [`DeviceError::AlreadyRecording`]; the device failed.
    pub fn record<S, E: Into<DeviceError>>(
        &self,
        mut state: S,
        work: impl Fn(&Stream, &mut S) -> Result<(), E> + Send + Sync + 'static,
    ) -> Result<Graph<S>, DeviceError> {
        let work: Work<S> = Box::new(move |stream, state| work(stream, state).map_err(Into::into));
        let order = &self.inner.order;
        if !order.begin_recording() {
            return Err(DeviceError::AlreadyRecording { device: self.name() });
        }
        let open = Open { order, is_open: true };
        let mut has_failed = false;
        let mut run = || work(&self.default_stream(), &mut state).inspect_err(|_| has_failed = true);
        let captured = match &self.inner.backend {
            Backend::Cpu(_) => run().map(|()| None),
            Backend::Cuda(cuda) => cuda.record(run).map(Some),
        };
        let recorded = open.end();
        // The work's own error comes first. Then comes what spoiled the recording: the driver may report it
        // too, but in less detail.
        let recording = match (captured, recorded) {
            (Err(error), _) if has_failed => return Err(error),
            (captured, Err(spoiled)) => {
                destroy(self, captured.ok().flatten());
                return Err(match spoiled {
                    Spoiled::By(action) => DeviceError::NotRecordable { device: self.name(), action },
                    Spoiled::Unjoined(stream) => DeviceError::Unjoined { device: self.name(), stream },
                });
            }
            (captured, Ok(recorded)) => (captured?, recorded),
        };
        let (recording, Recorded { launches, touches }) = recording;
        Ok(Graph { replay: Replay { device: self.clone(), recording, launches, touches }, work, state })
    }
}

impl<S> Graph<S> {
    /// Queues the recorded launches on the default stream, with the arguments they were recorded with.
    ///
    /// # Errors
    /// As [`Self::launch_on`].
    pub fn launch(&mut self) -> Result<(), DeviceError> {
        let stream = self.replay.device.default_stream();
        self.launch_on(&stream)
    }

    /// Queues the recorded launches on a stream of the graph's device, with the arguments they were recorded with.
    ///
    /// # Errors
    /// The stream is another device's or is being recorded; [`DeviceError::Unordered`] if another stream may still use
    /// what a launch does; on the CPU what the work answers; the device failed, now or in a kernel before. A fault of one
    /// of the graph's kernels appears, with their names, where every fault does: at [`Device::synchronize`] or the next
    /// copy.
    pub fn launch_on(&mut self, stream: &Stream) -> Result<(), DeviceError> {
        let Self { replay: Replay { device, recording, launches, touches }, work, state } = self;
        device.refuse_other(stream.device(), "launching a graph")?;
        device.refuse_in_recorded_work("launching a graph")?;
        let order = &device.inner.order;
        let admission = match order.is_plain() {
            true => Admission::Run(None),
            false if order.is_recording(stream.number()) => {
                let action = "launching a graph";
                return Err(DeviceError::NotRecordable { device: device.name(), action });
            }
            false => order.admit(stream.number(), None, touches).map_err(DeviceError::Unordered)?,
        };
        let replay = || match (&device.inner.backend, recording) {
            // SAFETY: the recording is this device's and exclusively borrowed. The caller who recorded a launch promised
            // that its contract holds for each launch of the graph.
            (Backend::Cuda(cuda), Some(recording)) => unsafe {
                cuda.replay(recording, launches, stream.lane())
            },
            _ => order.replay(|| work(&device.default_stream(), state)),
        };
        let what = Launched::Graph { launches: launches.count() };
        let launched = device.timed(stream.lane(), what, replay, |error| error);
        if launched.is_err() {
            order.cancel(&admission);
        }
        launched
    }

    /// What the launches work on. What reads it, such as [`Buffer::to_vec`](super::Buffer::to_vec), comes after the
    /// launches that are queued.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// What the launches worked on. The graph goes.
    pub fn into_state(self) -> S {
        self.state
    }
}

fn destroy(device: &Device, recording: Option<cuda::timing::Recording>) {
    if let (Backend::Cuda(cuda), Some(recording)) = (&device.inner.backend, recording) {
        cuda.destroy(&recording);
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        destroy(&self.device, self.recording.take());
    }
}

impl<S> fmt::Debug for Graph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Replay { device, launches, .. } = &self.replay;
        write!(f, "Graph({} launches on {})", launches.count(), device.residence())
    }
}
