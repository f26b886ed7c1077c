//! The last layer with its loss, its gradients and the next batch.

use std::sync::Arc;

use anyhow::Result;
use cuda_std::launch::{Instance, Limits, RawBuffer};
use cuda_std::testing::Element as _;
use ferrowarp::device::Device;
use gpu_kernels::mlp::batch::{PIXEL_SCALE, permuted};
use gpu_kernels::mlp::head::{
    HeadLaunch, HeadRowsLaunch, HeadShape, MAX_CLASSES, NextBatchLaunch, network_head,
};
use gpu_kernels::mlp::state::StepState;

use super::check::{ORDER, SUM, TRANSCENDENTAL, UNTOUCHED, UNTOUCHED_WORD, case};
use super::linear::forward;
use super::problem::Problem;
use super::rows::TARGET;
use super::run::Run;
use crate::case::{Case, wide};
use crate::compare::{Bound, Expected, Outputs};

/// The kernels that run on a device with these limits, if they support the problem's number of classes.
pub fn cases(problem: &Arc<Problem>, limits: &Limits) -> Vec<Case> {
    let kernels = if problem.outputs <= MAX_CLASSES { network_head::INSTANCES } else { &[] };
    let of_kernel = |kernel: &'static Instance<_, _>| {
        case(problem, kernel.meta, move |p, device| head(device, p, kernel), expected)
    };
    kernels.iter().filter(|kernel| limits.runs(kernel.meta)).map(of_kernel).collect()
}

/// The step's first sample and its number of rows, in an epoch with as many samples as the problem has rows: some samples
/// lie before it, and some after it are the next batch.
fn step(p: &Problem) -> (usize, usize) {
    (p.batch / 4, p.batch.div_ceil(2))
}

/// The samples of the next batch, by row.
fn next_samples(p: &Problem) -> impl Iterator<Item = usize> {
    let ((first, rows), samples, (seed, epoch)) = (step(p), p.batch, ORDER);
    let next = first + rows..samples.min(first + 2 * rows);
    next.map(move |i| permuted(i as u32, samples as u32, seed, epoch) as usize)
}

fn head(device: &Device, p: &Problem, kernel: &'static Instance<HeadLaunch, HeadShape>) -> Result<Outputs> {
    let (first, rows) = step(p);
    let mut run = Run::new(p);
    let (loss, correct) =
        (run.updated(&vec![UNTOUCHED; p.batch]), run.updated(&vec![UNTOUCHED_WORD; p.batch]));
    let (d_logits, d_inp) = (run.output::<f32>(rows * p.outputs), run.output::<f32>(rows * p.inputs));
    let (inp, weights) = (run.input(&p.activations[..rows * p.inputs]), run.input(&p.weights));
    let (biases, labels) = (run.input(&p.biases), run.input(&p.labels[..rows]));
    let (seed, epoch) = ORDER;
    let state = run.input(&StepState { first: first as u32, epoch, seed, ..StepState::default() }.to_words());
    let next = run.updated(&vec![UNTOUCHED; rows * p.inputs]);
    let (next_labels, images) = (run.updated(&vec![UNTOUCHED_WORD; rows]), run.input(&p.images));
    let image_labels = run.input(&p.image_labels);
    let results = run.on(device, |on, memory| {
        let batch = rows as u32;
        let rows = HeadRowsLaunch {
            loss: RawBuffer::written(memory.output(loss)),
            correct: RawBuffer::written(memory.output(correct)),
            d_logits: RawBuffer::written(memory.output(d_logits)),
            d_inp: RawBuffer::written(memory.output(d_inp)),
            inp: RawBuffer::read(memory.input(inp)),
            weights: RawBuffer::read(memory.input(weights)),
            biases: RawBuffer::read(memory.input(biases)),
            labels: RawBuffer::read(memory.input(labels)),
            state: RawBuffer::read(memory.input(state)).cast(),
            rows: batch,
            inputs: p.inputs as u32,
            classes: p.outputs as u32,
            targets: p.row_targets,
            blocks: kernel.blocks(batch),
        };
        let next = NextBatchLaunch {
            out: RawBuffer::written(memory.output(next)),
            labels_out: RawBuffer::written(memory.output(next_labels)),
            images: RawBuffer::read(memory.input(images)),
            labels: RawBuffer::read(memory.input(image_labels)),
            samples: p.batch as u32,
            features: p.inputs as u32,
            batch,
        };
        // SAFETY: the arrays have the problem's shapes, and there are blocks for the rows and the next batch.
        unsafe { (kernel.launch)(on, kernel.config(batch, batch), HeadLaunch { rows, next }) }
    })?;
    Ok(vec![
        ("loss", wide(&results.of(loss))),
        ("correct", wide(&results.of(correct))),
        ("d_logits", wide(&results.of(d_logits))),
        ("d_inp", wide(&results.of(d_inp))),
        ("next", wide(&results.of(next))),
        ("next labels", wide(&results.of(next_labels))),
    ])
}

fn expected(p: &Problem) -> Expected {
    let (first, rows) = step(p);
    let logits: Vec<Bound> = forward(p).into_iter().map(|sum| sum.within(SUM)).collect();
    let mut loss = vec![Bound::exact(UNTOUCHED.into()); p.batch];
    let mut correct = vec![Bound::exact(UNTOUCHED_WORD.into()); p.batch];
    let (mut d_logits, mut d_inp) = (Vec::new(), Vec::new());
    for (row, logits) in logits.chunks_exact(p.outputs).enumerate().take(rows) {
        let of_row = Row::of(logits, (p.labels[row] as usize, p.smoothing.into()), rows);
        (loss[first + row], correct[first + row]) = (of_row.loss, of_row.correct);
        for k in 0..p.inputs {
            d_inp.push(of_row.input_gradient(p.activations[row * p.inputs + k], &p.weights[k * p.outputs..]));
        }
        d_logits.extend(of_row.d_logits);
    }
    let mut next = vec![Bound::exact(UNTOUCHED.into()); rows * p.inputs];
    let mut next_labels = vec![Bound::exact(UNTOUCHED_WORD.into()); rows];
    for (row, sample) in next_samples(p).enumerate() {
        next_labels[row] = Bound::exact(p.image_labels[sample].into());
        for k in 0..p.inputs {
            let pixel = f32::from(p.images[sample * p.inputs + k]) * PIXEL_SCALE;
            next[row * p.inputs + k] = Bound::exact(pixel.into());
        }
    }
    vec![
        ("loss", loss),
        ("correct", correct),
        ("d_logits", d_logits),
        ("d_inp", d_inp),
        ("next", next),
        ("next labels", next_labels),
    ]
}

/// The expected values of one row.
struct Row {
    loss: Bound,
    correct: Bound,
    d_logits: Vec<Bound>,
}

impl Row {
    /// Computes them from the logits with their tolerances.
    fn of(logits: &[Bound], (label, smoothing): (usize, f64), rows: usize) -> Self {
        let off = logits.iter().map(|logit| logit.allowed).fold(0.0, f64::max);
        let max = logits.iter().map(|logit| logit.value).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logits.iter().map(|logit| (logit.value - max).exp()).sum();
        let rounding = TRANSCENDENTAL * f32::ROUNDING;
        let target = |class| {
            (1.0 - smoothing) * if class == label { 1.0 } else { 0.0 } + smoothing / logits.len() as f64
        };
        let of_class = |(class, logit): (usize, &Bound)| target(class) * (sum.ln() - (logit.value - max));
        let loss: f64 = logits.iter().enumerate().map(of_class).sum();
        let loss = Bound::near(loss, 2.0 * off + rounding * (loss.abs() + 1.0));
        let others = logits.iter().enumerate().filter(|&(class, _)| class != label);
        let next = others.map(|(_, logit)| logit.value).fold(f64::NEG_INFINITY, f64::max);
        let lead = logits[label].value - next;
        let correct = match lead.abs() <= 2.0 * off {
            // Too close to decide.
            true => Bound::near(0.5, 0.5),
            false => Bound::exact(if lead > 0.0 { 1.0 } else { 0.0 }),
        };
        let d_logits = logits.iter().enumerate().map(|(class, logit)| {
            let probability = (logit.value - max).exp() / sum;
            let target = target(class);
            // An error of the logits doubles in the exponent; the largest exponents lose the most digits.
            let relative = 2.0 * off + rounding * (1.0 + (logit.value - max).abs());
            let allowed =
                probability * relative + TARGET * f32::ROUNDING * target + f64::from(f32::MIN_POSITIVE);
            Bound::near((probability - target) / rows as f64, allowed / rows as f64)
        });
        Row { loss, correct, d_logits: d_logits.collect() }
    }

    /// The gradient at a feature.
    fn input_gradient(&self, activation: f32, weights: &[f32]) -> Bound {
        if activation <= 0.0 {
            return Bound::exact(0.0);
        }
        let terms = || self.d_logits.iter().zip(weights).map(|(d, &w)| (d, f64::from(w)));
        let value = terms().map(|(d, w)| d.value * w).sum();
        let allowed =
            terms().map(|(d, w)| w.abs() * (d.allowed + SUM * f32::ROUNDING * d.value.abs())).sum::<f64>();
        Bound::near(value, allowed + f64::from(f32::MIN_POSITIVE))
    }
}
