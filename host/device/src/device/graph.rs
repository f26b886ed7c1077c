//! Graphs: work that is recorded once and launched many times.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use super::allocations::Memory;
use super::allocations::Needed;
use super::cuda::Recording;
use super::error::DeviceError;
use super::handle::{Backend, Device};
use super::launches::Launches;
use super::order::{Admission, Order, Recorded, Spoiled, Touch};
use super::profile::Launched;
use super::stream::Stream;

/// The work of a graph, with its errors converted to the device's.
type Work<S> = Box<dyn Fn(&Stream, &mut S) -> Result<(), DeviceError> + Send + Sync>;

/// Recorded launches that one call queues again, with the state that they work on. [`Device::record`] makes one. On a GPU it
/// is a CUDA graph; on the CPU the work is run again. It keeps the device alive.
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
/// let device = Device::cpu(); // On a GPU: Device::open()?
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
    /// On the CPU this is run; on a GPU it keeps its captures alive.
    work: Work<S>,
    state: S,
}

/// The parts of a graph other than its state.
struct Replay {
    device: Device,
    /// The driver's graph, on a GPU.
    recording: Option<Recording>,
    launches: Launches,
    touches: Vec<Touch>,
    /// The memory that the launches touch. It outlives the driver's graph.
    memory: Vec<Arc<dyn Memory>>,
    needed: Vec<Arc<dyn Needed>>,
}

thread_local! {
    /// The address of the order that this thread records, or null.
    static RECORDED: Cell<*const Order> = const { Cell::new(std::ptr::null()) };
}

/// Ends the recording, even if the work panics.
struct Open<'a> {
    order: &'a Order,
    is_open: bool,
}

impl<'a> Open<'a> {
    /// Begins a recording, unless one is in progress.
    fn begin(order: &'a Order) -> Option<Self> {
        let has_begun = RECORDED.get().is_null() && order.begin_recording();
        has_begun.then(|| {
            RECORDED.set(order);
            Self { order, is_open: true }
        })
    }

    fn end(mut self) -> Result<Recorded, Spoiled> {
        self.is_open = false;
        RECORDED.set(std::ptr::null());
        self.order.end_recording()
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.is_open {
            RECORDED.set(std::ptr::null());
            // An error here says less than the work's own failure.
            let _ = self.order.end_recording();
        }
    }
}

impl Device {
    /// Records the launches that `work` queues, without running them. `work` gets the [default
    /// stream](Self::default_stream), which launches on the device also use, and the state, which the graph keeps. Launches
    /// on another stream are recorded if that stream waits for an [`Event`](super::Event) of a recorded stream, and refused
    /// otherwise. At the end the default stream must wait for the other stream.
    ///
    /// `work` must queue the same launches every time, because each launch of the graph calls it on the CPU, but not on a
    /// GPU. It must not allocate, free, copy or synchronise, except for the results and the scratch memory of operations, which
    /// the graph owns. Only what its own thread queues is recorded. Meanwhile other threads use the device and all its streams
    /// as usual.
    ///
    /// The graph owns the memory that its launches touch, together with the buffers: dropping a buffer frees its memory when
    /// the graph is gone, too.
    ///
    /// The first use of a kernel loads its code, also in a recording.
    ///
    /// The contract of an `unsafe` launch in `work` must hold for every launch of the graph: memory behind raw pointers stays
    /// in place as long as the graph.
    ///
    /// # Errors
    /// The errors of `work`, including [`DeviceError::Unordered`] for launches on two streams of the graph that race;
    /// [`DeviceError::NotRecordable`] for work that a graph cannot contain; [`DeviceError::Unjoined`] if the default stream
    /// does not wait for another at the end; [`DeviceError::AlreadyRecording`]; the device failed.
    pub fn record<S, E: Into<DeviceError>>(
        &self,
        mut state: S,
        work: impl Fn(&Stream, &mut S) -> Result<(), E> + Send + Sync + 'static,
    ) -> Result<Graph<S>, DeviceError> {
        let work: Work<S> = Box::new(move |stream, state| work(stream, state).map_err(Into::into));
        let order = &self.inner.order;
        let open = Open::begin(order).ok_or_else(|| DeviceError::AlreadyRecording { device: self.name() })?;
        let mut has_failed = false;
        let mut run = || work(&self.default_stream(), &mut state).inspect_err(|_| has_failed = true);
        let captured = match &self.inner.backend {
            Backend::Cpu(_) => run().map(|()| None),
            Backend::Cuda(cuda) => cuda.record(run).map(Some),
        };
        let recorded = open.end();
        // The work's own error comes first, then what spoiled the recording: the driver may report that too, but in less
        // detail.
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
        let (recording, Recorded { launches, touches, memory, needed }) = recording;
        let device = self.clone();
        let replay = Replay { device, recording, launches, touches, memory, needed };
        Ok(Graph { replay, work, state })
    }
}

impl Device {
    /// Fails if this thread records another device: on a GPU the work would be done once, when the graph is made.
    pub(super) fn refuse_in_recording_of_another(&self) -> Result<(), DeviceError> {
        let recorded = RECORDED.get();
        if recorded.is_null() || std::ptr::eq(recorded, &self.inner.order) {
            return Ok(());
        }
        Err(DeviceError::NotRecordable {
            device: self.name(),
            action: "work on a device that is not recorded",
        })
    }
}

impl<S> Graph<S> {
    /// Queues the recorded launches on the default stream, with the recorded arguments.
    ///
    /// # Errors
    /// Same as for [`Self::launch_on`].
    pub fn launch(&mut self) -> Result<(), DeviceError> {
        let stream = self.replay.device.default_stream();
        self.launch_on(&stream)
    }

    /// Queues the recorded launches on a stream of the graph's device, with the recorded arguments.
    ///
    /// # Errors
    /// The stream belongs to another device or is being recorded; [`DeviceError::Unordered`] if another stream may still use
    /// the memory of a launch; on the CPU, the errors of the work; the device failed, now or in an earlier kernel. A fault
    /// of one of the graph's kernels appears, with their names, at [`Device::synchronize`] or the next copy.
    pub fn launch_on(&mut self, stream: &Stream) -> Result<(), DeviceError> {
        let Self { replay: Replay { device, recording, launches, touches, memory, needed }, work, state } =
            self;
        device.refuse_other(stream.device(), "launching a graph")?;
        device.refuse_in_recorded_work("launching a graph")?;
        let order = &device.inner.order;
        let admission = match order.is_plain() {
            true => Admission::Run(None),
            false if order.is_recording(stream.number()) => {
                let action = "launching a graph";
                return Err(DeviceError::NotRecordable { device: device.name(), action });
            }
            false => {
                let admission =
                    order.admit(stream.number(), None, touches).map_err(DeviceError::Unordered)?;
                let mut used = memory.iter().map(|memory| memory.use_on(stream.lane()));
                used.try_for_each(|used| used.inspect_err(|_| order.cancel(&admission)))?;
                admission
            }
        };
        let held: Option<Vec<_>> = needed.iter().map(|needed| needed.hold()).collect();
        let Some(_held) = held else {
            order.cancel(&admission);
            let reason = "launching a graph failed: a communicator of its operations has ended; record it again with another";
            return Err(DeviceError::Work(reason.into()));
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
        let launched = device.timed(stream.lane(), what, replay);
        if launched.is_err() {
            order.cancel(&admission);
        }
        launched
    }

    /// The state that the launches work on. Reads of it, such as [`Buffer::to_vec`](super::Buffer::to_vec), run after the
    /// queued launches.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Drops the graph and returns its state.
    pub fn into_state(self) -> S {
        self.state
    }
}

fn destroy(device: &Device, recording: Option<Recording>) {
    if let (Some(cuda), Some(recording)) = (device.gpu(), recording) {
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
