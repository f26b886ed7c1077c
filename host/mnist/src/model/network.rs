//! A network on a device: its layers, and its training epochs.

use std::ops::{ControlFlow, Range};
use std::time::Instant;

use mlp_kernels::loss::Targets;

use super::activations::Activations;
use super::core::{Core, Shared};
use super::dataset::{DeviceDataset, TrainingSet};
use super::epoch::{DeviceRates, EpochSpec};
use super::error::{ModelError, expect, to_u32};
use super::feed::{Feed, HostEpoch};
use super::graph::Recorded;
use super::ops::fused::{Next, check_classes, check_precision};
use super::ops::{Queue, batch, naive::Sgd, short::Short};
use super::parallel::Parallel;
use super::parameters::Parameters;
use super::pipeline::Pipeline;
use super::precision::{Precision, Setup};
use super::resident::{self, Resident};
use super::results::{EpochStats, Results};
use super::timeline::{Recorder, Timeline};
use super::transfer::upload_layer;
use super::{fused, naive};
use crate::BatchSize;
use ferrowarp_data::Samples;
use ferrowarp_device::device::{Buffer, Device};

/// A multi-layer perceptron on a device.
#[derive(Debug)]
pub struct Network {
    pub(super) device: Device,
    pub(super) pipeline: Pipeline,
    pub(super) setup: Setup,
    /// Dropped before the data it works on.
    recorded: Option<Recorded>,
    pub(super) core: Shared,
    /// Created when first needed.
    pub(super) evaluation: Option<Activations>,
    /// Whether a step with a full batch has been launched, so that a graph can be recorded.
    has_stepped: bool,
    notice: Option<String>,
    /// Created when first needed.
    feed: Option<Feed>,
    recorder: Recorder,
    /// Created by the first steps of its pipeline.
    pub(super) resident: Option<Resident>,
    /// Set if other ranks train the same network.
    pub(super) parallel: Option<Parallel>,
}

/// How far an epoch has been launched.
struct Launched {
    /// The statistics of the samples with fetched results.
    stats: EpochStats,
    samples: usize,
}

impl Network {
    /// Copies `parameters` to `device`, for training in batches of `batch_size`. If `pipeline` cannot train such a network,
    /// another pipeline runs instead: see [`Self::take_notice`].
    ///
    /// # Errors
    /// A width is 0, the parameters' sizes disagree, memory is lacking, or neither `pipeline` nor
    /// its replacement has kernels of this precision.
    pub fn new(
        device: &Device,
        parameters: &Parameters,
        pipeline: Pipeline,
        precision: Precision,
        batch_size: BatchSize,
    ) -> Result<Network, ModelError> {
        to_u32("number of layers", parameters.layers.len())?;
        for pair in parameters.layers.windows(2) {
            expect("number of a layer's inputs", pair[1].inputs, pair[0].outputs)?;
        }
        let layers = parameters.layers.iter().map(|layer| upload_layer(device, layer));
        let layers = layers.collect::<Result<Vec<_>, _>>()?;
        let (mut runs, mut notice) = (pipeline, None);
        let classes = layers.last().map_or(0, |layer| layer.outputs);
        if let Some(why) = check_classes(classes).err().filter(|_| pipeline.is_fused()) {
            (runs, notice) = fallback((pipeline, precision), Pipeline::Deferred, &why)?;
        } else if !pipeline.has(precision) {
            let why = format!("the pipeline {} has no kernels for it", pipeline.name());
            let cure = format!("train with f32, or with one of the pipelines {}", Pipeline::with(precision));
            return Err(ModelError::precision(precision, why, cure));
        }
        check_precision(device, precision)?;
        let setup = Setup { precision, batch_size };
        let core = Core {
            training: Activations::new(device, &layers, batch_size, runs)?,
            results: Results::new(device, 0)?,
            rates: DeviceRates::new(device, 0)?,
            // The CPU's kernels do not wait for each other, so this would make them slower.
            short: match device.is_cuda() && runs.is_fused() {
                true => Short::new(device, &layers, setup)?,
                false => None,
            },
            layers,
        };
        Ok(Network {
            device: device.clone(),
            pipeline: runs,
            setup,
            recorded: None,
            core: Shared::new(core),
            evaluation: None,
            has_stepped: false,
            notice,
            feed: None,
            recorder: Recorder::default(),
            resident: None,
            parallel: None,
        })
    }

    /// Sets label smoothing: the share `smoothing` of each target, at least 0 and below 1, is spread evenly over all
    /// classes. It affects training losses, not evaluation losses.
    pub fn with_label_smoothing(mut self, smoothing: f32) -> Self {
        // A graph would keep the share that it was recorded with.
        self.recorded = None;
        {
            let Activations { targets, classes, .. } = &mut self.core.lock().training;
            *targets = Targets::new(smoothing, *classes);
        }
        self
    }

    /// The pipeline that runs.
    pub fn pipeline(&self) -> Pipeline {
        self.pipeline
    }

    /// Whether a step of [`Pipeline::Fused`] or [`Pipeline::Graph`] takes three launches: on a GPU, with two small hidden
    /// layers and a small batch, in `f32`.
    pub fn is_short(&self) -> bool {
        self.core.lock().short.is_some()
    }

    /// Returns, once, a sentence on which pipeline runs instead of the requested one, and why.
    pub fn take_notice(&mut self) -> Option<String> {
        self.notice.take()
    }

    /// Records a timeline of the next `steps` steps, rounded up to whole launches; see [`Self::take_timeline`].
    pub fn watch(&mut self, steps: usize) {
        self.recorder = Recorder::new(steps);
    }

    /// Returns the timeline since [`Self::watch`]; `None` if it was not requested or there was no step. Waits for the
    /// device.
    ///
    /// # Errors
    /// The device failed.
    pub fn take_timeline(&mut self) -> Result<Option<Timeline>, ModelError> {
        std::mem::take(&mut self.recorder).finish()
    }

    /// Trains on every sample of `data` once, in the order of `spec`; the last batch may be short. Continues after the
    /// samples of `done`, which are whole batches; by default it starts a new epoch. Ends after the batch that reaches
    /// `until` samples, or the last batch. Calls `progress` with the number of samples launched so far, and stops if it
    /// returns `Break`.
    ///
    /// # Errors
    /// The data set does not match the network, `done` does not match both, or the device failed.
    pub fn train_epoch(
        &mut self,
        data: &TrainingSet<'_>,
        spec: &EpochSpec,
        done: EpochStats,
        until: usize,
        progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<EpochStats, ModelError> {
        self.check(data.extents())?;
        expect("number of samples in whole batches", done.samples % self.setup.batch_size.get(), 0)?;
        if spec.momentum != 0.0 {
            self.ensure_velocities()?;
        }
        if self.pipeline.is_fused() {
            self.core.lock().rates.set(&spec.rates)?;
        }
        self.recorder.start(&self.device)?;
        let end = match data {
            TrainingSet::OnDevice(data) => self.train_on_device(data, spec, (done, until), progress)?,
            TrainingSet::OnHost(samples) => self.train_from_host(samples, spec, (done, until), progress)?,
        };
        let mut stats = end.stats;
        self.core.lock().results.add_to(&mut stats, end.samples)?;
        Ok(stats)
    }

    fn train_on_device(
        &mut self,
        data: &DeviceDataset,
        spec: &EpochSpec,
        (done, until): (EpochStats, usize),
        progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Launched, ModelError> {
        let (mut stats, mut end, until) = (done, done.samples, until.min(data.samples));
        while end < until {
            let (is_first, stream) = (end == done.samples, self.device.default_stream());
            let begun = self.recorder.begin(&stream)?;
            let samples = self.steps(data, spec, end..until, is_first)?;
            self.recorder.end(begun, &stream, samples.div_ceil(self.setup.batch_size.get()))?;
            end += samples;
            match self.pipeline {
                _ if self.pipeline == Pipeline::Naive || self.parallel.is_some() => {
                    let began = Instant::now();
                    self.core.lock().results.add_to(&mut stats, end)?;
                    self.recorder.fetched(began);
                    if stats.diverged.is_some() {
                        break;
                    }
                }
                Pipeline::Naive | Pipeline::Deferred | Pipeline::Overlapped => self.device.synchronize()?,
                Pipeline::Fused | Pipeline::Graph | Pipeline::Resident => {}
            }
            if progress(end).is_break() {
                break;
            }
        }
        Ok(Launched { stats, samples: end })
    }

    fn train_from_host(
        &mut self,
        samples: &Samples,
        spec: &EpochSpec,
        (done, until): (EpochStats, usize),
        progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Launched, ModelError> {
        let (epoch, mut feed) = self.feed(samples, spec)?;
        let Network { device, setup, core, recorder, .. } = self;
        let Core { layers, training, results, .. } = &mut *core.lock();
        let batch = (setup.batch_size.get(), samples.features());
        let mut end = done.samples;
        let mut learn = |half: &Buffer<u8>, range @ (first, rows)| {
            batch::decoded_batch(device, (&mut training.inputs, &mut training.labels), half, batch, rows)?;
            naive::forward(device, layers, training, rows)?;
            naive::loss(device, training, rows, results.at(range)?)?;
            naive::backward(device, layers, training, rows, Sgd::of(spec, setup.batch_size, first))?;
            end = (first + rows) as usize;
            Ok(progress(end))
        };
        feed.run(device, epoch, [done.samples, until], recorder, &mut learn)?;
        self.feed = Some(feed);
        Ok(Launched { stats: done, samples: end })
    }

    /// Returns an epoch of samples on the host, and the buffers for its batches. The caller must put the buffers back.
    pub(super) fn feed<'a>(
        &mut self,
        samples: &'a Samples,
        spec: &EpochSpec,
    ) -> Result<(HostEpoch<'a>, Feed), ModelError> {
        if self.pipeline.is_fused() || self.parallel.is_some() {
            let pipeline = self.pipeline.name();
            return Err(ModelError::Refused(format!(
                "the pipeline {pipeline} cannot take samples from the host; upload them to the device first"
            )));
        }
        let epoch = HostEpoch::new(samples, spec, self.setup.batch_size)?;
        match self.feed.take().filter(|feed| feed.suits(epoch.bytes())) {
            Some(feed) => Ok((epoch, feed)),
            None => Ok((epoch, Feed::new(&self.device, epoch.bytes())?)),
        }
    }

    /// Runs the step with the batch that begins with sample `range.start` of the epoch, or several steps that begin within
    /// `range`. `is_first` is false only right after the previous step. Returns the number of samples.
    fn steps(
        &mut self,
        data: &DeviceDataset,
        spec: &EpochSpec,
        range: Range<usize>,
        is_first: bool,
    ) -> Result<usize, ModelError> {
        let first = range.start;
        if self.parallel.is_some() {
            return self.parallel_step(data, spec, first);
        }
        if !self.pipeline.is_fused() {
            let rows = self.judge_batch(data, spec, first)?;
            let sgd = Sgd::of(spec, self.setup.batch_size, first as u32);
            let core = &mut *self.core.lock();
            naive::backward(&self.device, &mut core.layers, &mut core.training, rows, sgd)?;
            return Ok(rows as usize);
        }
        if self.pipeline == Pipeline::Resident {
            let Network { device, setup, core, resident, .. } = self;
            let stepped = resident::steps(resident, device, &mut core.lock(), *setup, data, spec, &range)?;
            match stepped {
                Ok(samples) => return Ok(samples),
                Err(why) => self.give_way(&why)?,
            }
        }
        let (batch_size, momentum) = (self.setup.batch_size, spec.momentum);
        let batch @ (_, rows) = data.samples_from(first, batch_size)?;
        if is_first {
            fused::begin(&self.device, &mut self.core.lock().training, data, (spec, batch_size), batch)?;
        }
        let whole = range.len() / batch_size.get();
        if let Some(recorded) = self.graph(data, momentum, whole)? {
            recorded.launch()?;
            return Ok(recorded.steps() * batch_size.get());
        }
        // The next batch is gathered as a full batch.
        let next = Next { data, rows: to_u32("batch size", batch_size.get())? };
        let queue = Queue::new(&self.device, self.setup.precision);
        fused::step(queue, &mut self.core.lock(), next, momentum, rows)?;
        self.has_stepped |= rows as usize == batch_size.get();
        Ok(rows as usize)
    }

    /// Returns a graph for some of the next `whole` steps, if one is short enough.
    fn graph(
        &mut self,
        data: &DeviceDataset,
        momentum: f32,
        whole: usize,
    ) -> Result<Option<&mut Recorded>, ModelError> {
        let is_ready = self.has_stepped && !self.core.lock().training.ahead.is_swapped;
        if self.pipeline != Pipeline::Graph || !is_ready {
            return Ok(None);
        }
        self.recorded = self.recorded.take().filter(|recorded| recorded.suits(data, momentum, whole));
        if let (None, Some(steps)) = (&self.recorded, Recorded::steps_of(whole)) {
            match Recorded::new(&self.device, &self.core, data, self.setup, momentum, steps) {
                Ok(recorded) => self.recorded = Some(recorded),
                Err(error) if error.fault().is_some() => return Err(error.into()),
                Err(why) => self.give_way(&why)?,
            }
        }
        Ok(self.recorded.as_mut().filter(|recorded| recorded.steps() <= whole))
    }

    /// Switches to the next lower rung; on the CPU to `fused`, since a graph saves nothing there.
    fn give_way(&mut self, why: &dyn std::fmt::Display) -> Result<(), ModelError> {
        let next = match self.pipeline {
            Pipeline::Resident if self.device.is_cuda() => Pipeline::Graph,
            _ => Pipeline::Fused,
        };
        (self.pipeline, self.notice) = fallback((self.pipeline, self.setup.precision), next, why)?;
        Ok(())
    }

    /// Checks the data set's extents against the network, and makes room for its results.
    pub(super) fn check(&mut self, [samples, of_sample, of_data]: [usize; 3]) -> Result<(), ModelError> {
        let core = &mut *self.core.lock();
        let (features, classes) = core.extents();
        expect("number of features of the data set", of_sample, features)?;
        expect("number of classes of the data set", of_data, classes)?;
        if core.results.loss.len() < samples {
            self.recorded = None;
            core.results = Results::new(&self.device, samples)?;
            core.rates = DeviceRates::new(&self.device, self.setup.batch_size.steps(samples) as usize)?;
        }
        Ok(())
    }

    pub(super) fn ensure_velocities(&mut self) -> Result<(), ModelError> {
        let core = &mut *self.core.lock();
        if !core.has_velocities() {
            self.recorded = None;
            core.add_velocities(&self.device)?;
        }
        Ok(())
    }
}

/// Returns the pipeline that runs instead of `asked`, and the notice about it.
///
/// # Errors
/// The replacement has no kernels of the precision.
fn fallback(
    (asked, precision): (Pipeline, Precision),
    runs: Pipeline,
    why: &dyn std::fmt::Display,
) -> Result<(Pipeline, Option<String>), ModelError> {
    let (asked, name) = (asked.name(), runs.name());
    if !runs.has(precision) {
        let why = format!(
            "the pipeline {asked} cannot run here, and {name}, which would run instead, has no kernels for the \
             precision: {why}"
        );
        return Err(ModelError::precision(precision, why, "train with f32"));
    }
    Ok((runs, Some(format!("the pipeline {asked} cannot run here, and {name} runs instead: {why}"))))
}
