//! Cross entropy of `bf16` logits with the classes divided among the ranks. In a world of one it runs on one device.

use std::ops::Range;
use std::sync::Arc;

use anyhow::ensure;
use cuda_std::half::bf16;
use ferrowarp::collective::{Communicator, ShardedCrossEntropy};
use ferrowarp::device::{Buffer, DeviceError};
use ferrowarp::softmax::cross_entropy::Outputs;
use ferrowarp::{CrossEntropy, TensorView, TensorViewMut};

use super::{CollectiveEntry, Scale, median_time};
use crate::timed::normal;

/// Runs per batch.
const RUNS: usize = 10;

/// The maximum distance of a loss from its f64 value. A sum of exponentials, each by one instruction, is within 1e-5.
const LOSS_TOLERANCE: f64 = 1e-3;

/// Logits that all ranks know: each row repeats the same numbers from another offset.
struct Logits {
    numbers: Vec<bf16>,
}

impl Logits {
    fn new() -> Self {
        Self { numbers: normal(1 << 20, 1) }
    }

    fn place(&self, row: usize, class: usize) -> usize {
        (row * 7919 + class) % self.numbers.len()
    }

    fn value(&self, row: usize, class: usize) -> f64 {
        f64::from(self.numbers[self.place(row, class)].to_f32())
    }

    /// The columns of some classes, for all rows.
    fn of(&self, rows: usize, classes: &Range<usize>) -> Vec<bf16> {
        let mut all = Vec::with_capacity(rows * classes.len());
        for row in 0..rows {
            let mut class = classes.start;
            while class < classes.end {
                let place = self.place(row, class);
                let len = (classes.end - class).min(self.numbers.len() - place);
                all.extend_from_slice(&self.numbers[place..place + len]);
                class += len;
            }
        }
        all
    }
}

fn target(row: usize, classes: usize) -> usize {
    row * 40_503 % classes
}

/// A call, and its memory.
struct Call {
    operation: ShardedCrossEntropy,
    shape: [usize; 2],
    logits: Buffer<bf16>,
    targets: Buffer<i64>,
    losses: Buffer<f32>,
    gradient: Option<Buffer<bf16>>,
}

impl Call {
    fn queue(&mut self, communicator: &Communicator) -> Result<(), DeviceError> {
        let Self { operation, shape, logits, targets, losses, gradient } = self;
        let mut outputs = Outputs::new(losses);
        if let Some(gradient) = gradient {
            outputs = outputs.gradient(TensorViewMut::new(gradient, *shape)?);
        }
        let (stream, logits) = (communicator.device().default_stream(), TensorView::new(&*logits, *shape)?);
        Ok(operation.run_into(&stream, &CrossEntropy::new(), outputs, logits, &*targets)?)
    }
}

/// Checks and times the losses, with the gradient if `has_gradient`.
///
/// # Errors
/// There is not enough memory, an operation failed, or a result is wrong.
pub fn time(
    communicator: &Arc<Communicator>,
    scale: Scale,
    has_gradient: bool,
    entry: &mut CollectiveEntry,
) -> anyhow::Result<()> {
    let (device, [rows, classes]) = (communicator.device(), scale.rows_and_classes);
    let cut = |rank: u32| classes * rank as usize / communicator.size() as usize;
    let own = cut(communicator.rank())..cut(communicator.rank() + 1);
    let logits = Logits::new();
    let targets: Vec<i64> = (0..rows).map(|row| target(row, classes) as i64).collect();
    let mut call = Call {
        operation: ShardedCrossEntropy::new(Arc::clone(communicator), rows, own.len())?,
        shape: [rows, own.len()],
        logits: device.upload(&logits.of(rows, &own))?,
        targets: device.upload(&targets)?,
        losses: device.alloc_zeroed(rows)?,
        gradient: has_gradient.then(|| device.alloc_zeroed(rows * own.len())).transpose()?,
    };
    call.queue(communicator)?;
    communicator.synchronize(&device.default_stream())?;
    check(&call, &logits, classes, &own)?;

    let runs = RUNS.min(scale.runs);
    let batch = || (0..runs).try_for_each(|_| call.queue(communicator));
    entry.microseconds = Some(median_time(communicator, scale.samples, runs, batch)? * 1e6);
    entry.samples = scale.samples;
    Ok(())
}

/// Compares the first and the last row with f64.
fn check(call: &Call, logits: &Logits, classes: usize, own: &Range<usize>) -> anyhow::Result<()> {
    let [rows, cols] = call.shape;
    let losses = call.losses.to_vec()?;
    for row in [0, rows - 1] {
        let values = || (0..classes).map(|class| logits.value(row, class));
        let max = values().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = values().map(|x| (x - max).exp()).sum();
        let target = target(row, classes);
        let want = sum.ln() - (logits.value(row, target) - max);
        let got = f64::from(losses[row]);
        ensure!((got - want).abs() <= LOSS_TOLERANCE, "the loss of row {row} is {got:e}, not {want:e}");
        let Some(gradient) = &call.gradient else { continue };
        let gradient = gradient.view(row * cols..(row + 1) * cols)?.to_vec()?;
        for (class, got) in own.clone().zip(gradient) {
            let one_hot = f64::from(u8::from(class == target));
            let want = (logits.value(row, class) - max).exp() / sum - one_hot;
            let got = f64::from(got.to_f32());
            let allowed = want.abs() / 128.0 + 1e-6;
            ensure!(
                (got - want).abs() <= allowed,
                "the gradient of row {row} at class {class} is {got:e}, not {want:e}"
            );
        }
    }
    Ok(())
}
