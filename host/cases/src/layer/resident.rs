//! Many steps of a network in one launch, compared with the same steps in `f64`.

use std::sync::Arc;

use anyhow::Result;
use cuda_std::launch::{Dim3, Instance, LaunchConfig, Limits, RawBuffer};
use cuda_std::testing::{Element as _, Output};
use ferrowarp::device::Device;
use gpu_kernels::mlp::batch::{PIXEL_SCALE, permuted};
use gpu_kernels::mlp::loss::Targets;
use gpu_kernels::mlp::resident::{
    Extents, ResidentLaunch, ResidentNetworkLaunch, ResidentShape, ResidentStepsLaunch, UNITS, train,
};

use super::check::{ORDER, UNTOUCHED, UNTOUCHED_WORD};
use super::problem::Problem;
use super::run::Run;
use crate::case::{Case, wide};
use crate::compare::{Bound, Expected, Outputs};
use crate::reference::{Judgement, LayerOf, Real, Sgd, step};

/// The learning rates of steps, repeated.
const RATES: [f32; 3] = [0.25, 0.125, 0.5];

/// The names of the outputs: weights and biases of each layer, then the samples' results.
pub(super) const NAMES: [&str; 8] =
    ["weights1", "biases1", "weights2", "biases2", "weights3", "biases3", "loss", "correct"];

/// Tolerance of a parameter after a step, in `f32` roundings of the largest of its kind. Tens of sums follow each other.
pub(super) const ROUNDINGS: f64 = 16.0;

/// The same for `f16` operands: each has 2^-11 instead of 2^-24.
const ROUNDINGS_F16: f64 = ROUNDINGS * 8192.0;

/// One launch of a network.
pub struct Training {
    /// The sizes.
    pub extents: Extents,
    /// `[samples, features]`.
    pub images: Vec<u8>,
    /// `[samples]`.
    pub labels: Vec<u8>,
    /// The three layers before the launch.
    pub layers: Vec<LayerOf<f32>>,
    /// The first sample.
    pub first: usize,
    /// Steps.
    pub steps: usize,
    /// The share of the targets that is spread evenly over all classes.
    pub smoothing: f32,
    /// Elements by which every array, except the words between blocks, is off its natural alignment.
    pub misalignment: usize,
}

/// The kernels on a small network with this layer's features and batches; the last batch is short.
pub fn cases(problem: &Arc<Problem>, limits: &Limits) -> Vec<Case> {
    let training = Arc::new(Training::of_layer(problem));
    let most = limits.max_dynamic_shared_bytes as usize;
    let runs =
        |kernel: &&Kernel| limits.runs(kernel.meta) && training.extents.shared_bytes(kernel.warps) <= most;
    train::INSTANCES.iter().filter(runs).map(|kernel| training.case(kernel)).collect()
}

/// A kernel that trains.
pub type Kernel = Instance<ResidentLaunch, ResidentShape>;

impl Training {
    pub(super) fn of_layer(p: &Problem) -> Self {
        let batch = p.batch.div_ceil(2).min(6);
        let first = p.batch.saturating_sub(2 * batch + batch.div_ceil(2));
        // With one row, only as many blocks as each kind needs to send to another: Miri interprets all of their threads.
        let most_hidden = if batch == 1 { UNITS } else { 21 };
        let extents = Extents {
            features: p.inputs,
            hidden1: p.outputs.min(most_hidden),
            hidden2: p.outputs.div_ceil(3).min(11),
            classes: 10,
            batch,
        };
        let numbers = p.weights.iter().chain(&p.weight_velocity).chain(&p.activations).cycle();
        Self {
            extents,
            images: p.images.clone(),
            labels: p.image_labels.clone(),
            layers: layers(&extents, numbers),
            first,
            steps: (p.batch - first).div_ceil(batch),
            smoothing: p.smoothing,
            misalignment: p.misalignment,
        }
    }

    /// Creates a launch of `steps` steps from sample 0, with the samples that they need; the last batch is one row short.
    pub fn new(extents: Extents, steps: usize, seed: u64) -> Self {
        let Extents { features, hidden1, hidden2, classes, batch } = extents;
        let samples = steps * batch - usize::from(batch > 1);
        let widest = hidden1.max(hidden2).max(classes);
        let p = Problem::new([samples, features, widest], seed, 0);
        let labels = p.labels.iter().map(|label| (*label as usize % classes) as u8).collect();
        // Pixels like those of images: most are 0.
        let images = p.images.iter().map(|&pixel| if pixel % 5 == 0 { pixel } else { 0 }).collect();
        let numbers = p.weights.iter().chain(&p.weight_velocity).cycle();
        let (layers, smoothing) = (layers(&extents, numbers), p.smoothing);
        Self { extents, images, labels, layers, first: 0, steps, smoothing, misalignment: 0 }
    }

    /// The case of a kernel.
    pub fn case(self: &Arc<Self>, kernel: &'static Kernel) -> Case {
        let roundings = if kernel.halves == 2 { ROUNDINGS } else { ROUNDINGS_F16 };
        let run = move |of: &Self, device: &Device| of.run(device, kernel);
        let case = Case::of(self, vec![kernel.meta.name], Self::words, run, move |of| of.expected(roundings));
        case.with_cluster_threads((self.extents.blocks() * kernel.warps * 32) as u32)
    }

    /// The sizes, in words.
    pub(super) fn words(&self) -> String {
        let Extents { features, hidden1, hidden2, classes, batch } = self.extents;
        format!("{features}-{hidden1}-{hidden2}-{classes}, {} steps of {batch}", self.steps)
    }

    /// The learning rate of each step of the epoch, and one more.
    pub(super) fn rates(&self) -> Vec<f32> {
        let steps = self.samples().div_ceil(self.extents.batch);
        RATES.into_iter().cycle().take(steps + 1).collect()
    }

    /// The kernels' form of the targets' share.
    pub(super) fn targets(&self) -> Targets {
        Targets::new(self.smoothing, self.extents.classes as u32)
    }

    fn samples(&self) -> usize {
        self.labels.len()
    }

    /// Runs it in one launch.
    ///
    /// # Errors
    /// The kernel failed, or wrote outside its output.
    pub fn run(&self, device: &Device, kernel: &'static Kernel) -> Result<Outputs> {
        self.run_on_blocks(device, kernel, self.extents.blocks())
    }

    /// Same as [`Self::run`], in several launches. `parts` has the steps of each.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn run_in_parts(&self, device: &Device, kernel: &'static Kernel, parts: &[usize]) -> Result<Outputs> {
        self.launch(device, kernel, parts, self.extents.blocks())
    }

    /// Same as [`Self::run`], on the first `blocks` blocks. With fewer blocks than the kernel needs, the waits never end.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn run_on_blocks(&self, device: &Device, kernel: &'static Kernel, blocks: usize) -> Result<Outputs> {
        self.launch(device, kernel, &[self.steps], blocks)
    }

    fn launch(
        &self,
        device: &Device,
        kernel: &'static Kernel,
        parts: &[usize],
        blocks: usize,
    ) -> Result<Outputs> {
        let mut run = Run::with_misalignment(self.misalignment);
        let parameters: Vec<[Output<f32>; 2]> = (self.layers.iter())
            .map(|layer| [run.updated(&layer.weights), run.updated(&layer.biases)])
            .collect();
        let loss = run.updated(&vec![UNTOUCHED; self.samples()]);
        let correct = run.updated(&vec![UNTOUCHED_WORD; self.samples()]);
        let (images, labels) = (run.input(&self.images), run.input(&self.labels));
        let rates = run.input(&self.rates());
        let mail = run.scratch(&vec![0u32; self.extents.mail_words()]);
        let batches = run.scratch(&vec![0u8; self.extents.batches_len(self.steps + 1)]);
        let gram = run.scratch(&vec![0.0f32; Extents::gram_len(self.steps + 1)]);
        let ahead = run.scratch(&vec![0.0f32; self.extents.ahead_len()]);
        let results = run.on(device, |on, memory| {
            let written = |output| RawBuffer::written(memory.output(output));
            let Extents { features, hidden1, hidden2, classes, batch } = self.extents;
            let network = || ResidentNetworkLaunch {
                weights1: written(parameters[0][0]),
                biases1: written(parameters[0][1]),
                weights2: written(parameters[1][0]),
                biases2: written(parameters[1][1]),
                weights3: written(parameters[2][0]),
                biases3: written(parameters[2][1]),
                features: features as u32,
                hidden1: hidden1 as u32,
                hidden2: hidden2 as u32,
                classes: classes as u32,
            };
            let mut done = 0;
            for &steps in parts {
                let steps = ResidentStepsLaunch {
                    loss: written(loss),
                    correct: RawBuffer::written(memory.output(correct)),
                    images: RawBuffer::read(memory.input(images)),
                    labels: RawBuffer::read(memory.input(labels)),
                    mail: RawBuffer::written(memory.output(mail)),
                    batches: RawBuffer::written(memory.output(batches)),
                    gram: written(gram),
                    ahead: written(ahead),
                    is_begun: (done > 0).into(),
                    samples: self.samples() as u32,
                    first: (self.first + done * batch) as u32,
                    steps: steps as u32,
                    batch: batch as u32,
                    round: done as u32,
                    epoch: ORDER.1,
                    seed: ORDER.0,
                    rates: RawBuffer::read(memory.input(rates)),
                    targets: self.targets(),
                };
                done += steps.steps as usize;
                let config =
                    LaunchConfig { grid: Dim3::new(blocks as u32, 1, 1), ..kernel.config(&self.extents) };
                // SAFETY: the arrays have the network's shapes. Missing blocks write nothing.
                unsafe { (kernel.launch)(on, config, ResidentLaunch { network: network(), steps })? };
            }
            Ok(())
        })?;
        let parameters = parameters.into_iter().flatten().map(|output| wide(&results.of(output)));
        let samples = [wide(&results.of(loss)), wide(&results.of(correct))];
        Ok(NAMES.into_iter().zip(parameters.chain(samples)).collect())
    }

    /// The layers afterwards, computed in `T`, and the result of each sample by its position in the epoch.
    pub fn reference<T: Real>(&self) -> (Vec<LayerOf<T>>, Vec<Option<Judgement>>) {
        let mut layers: Vec<LayerOf<T>> = self.layers.iter().map(LayerOf::of).collect();
        let (samples, features) = (self.samples(), self.extents.features);
        let (mut judgements, rates) = (vec![None; samples], self.rates());
        for i in 0..self.steps {
            let first = self.first + i * self.extents.batch;
            let places = first..samples.min(first + self.extents.batch);
            let sample = |place: usize| permuted(place as u32, samples as u32, ORDER.0, ORDER.1) as usize;
            let pixel = |&pixel: &u8| T::from(f32::from(pixel)) * T::from(PIXEL_SCALE);
            let of_sample = |sample: usize| &self.images[sample * features..][..features];
            let inp = places.clone().map(|place| of_sample(sample(place)).iter().map(pixel).collect());
            let labels: Vec<usize> = places.clone().map(|place| self.labels[sample(place)].into()).collect();
            let how = Sgd { lr: rates[first / self.extents.batch], smoothing: self.smoothing };
            let judged = step(&mut layers, inp.collect(), &labels, how);
            places.zip(judged).for_each(|(place, judged)| judgements[place] = Some(judged));
        }
        (layers, judgements)
    }

    pub(super) fn expected(&self, roundings: f64) -> Expected {
        let (layers, judgements) = self.reference::<f64>();
        let off = roundings * f32::ROUNDING * self.steps as f64;
        let near = |numbers: Vec<f64>| -> Vec<Bound> {
            let largest = numbers.iter().fold(0.0, |max, x| f64::max(max, x.abs()));
            numbers.into_iter().map(|value| Bound::near(value, off * largest)).collect()
        };
        let parameters = layers.into_iter().flat_map(|layer| [near(layer.weights), near(layer.biases)]);
        let loss = judgements.iter().map(|judged| {
            let untouched = Bound::exact(UNTOUCHED.into());
            judged.map_or(untouched, |of| Bound::near(of.loss, off * (4.0 + of.loss)))
        });
        let correct = judgements.iter().map(|judged| match judged {
            None => Bound::exact(UNTOUCHED_WORD.into()),
            // Too close to decide.
            Some(of) if of.lead.abs() <= 8.0 * off => Bound::near(0.5, 0.5),
            Some(of) => Bound::exact(if of.lead > 0.0 { 1.0 } else { 0.0 }),
        });
        NAMES.into_iter().zip(parameters.chain([loss.collect(), correct.collect()])).collect()
    }
}

/// Layers of these numbers, scaled by the number of addends.
pub(super) fn layers<'a>(extents: &Extents, mut numbers: impl Iterator<Item = &'a f32>) -> Vec<LayerOf<f32>> {
    let Extents { features, hidden1, hidden2, classes, .. } = *extents;
    let sizes = [features, hidden1, hidden2, classes];
    let mut scaled = |len: usize, by: f32| numbers.by_ref().take(len).map(|x| x * by).collect();
    let layer = |pair: &[usize]| {
        let by = 1.0 / (pair[0] as f32).sqrt();
        LayerOf { weights: scaled(pair[0] * pair[1], by), biases: scaled(pair[1], by) }
    };
    sizes.windows(2).map(layer).collect()
}
