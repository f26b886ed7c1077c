//! The operands of the operations' launches, and the expected results.

use anyhow::{Context as _, ensure};
use cuda_std::testing::{Element, Layout};
use ferrowarp::device::{Buffer, Device, DeviceError};
use ferrowarp::softmax::cross_entropy::Outputs as Losses;
use ferrowarp::{CrossEntropy, Sample, Softmax, TensorView, TensorViewMut, TopK};
use ferrowarp_cases::compare::{Bound, Expected, Outputs, compare_all};
use ferrowarp_cases::reference::{Draw, Number, relative_one_after_the_other, softmax_bounds};
use ferrowarp_cases::softmax::{Rowwise as _, backward, cross_entropy, top_k};
use gpu_kernels::softmax::sample::Noise;

use super::{Op, TEMPERATURE, TOP_P};
use crate::shapes::Shape;
use crate::timed::{self, Timed, uniform};

/// The seed of the draws.
const SEED: u64 = 42;
/// The number of the draw, the same for all launches.
const DRAW: u64 = 7;

/// Checked rows of a matrix; smaller matrices are checked entirely.
const CHECKED_ROWS: usize = 64;
/// Size of the block of numbers that matrices repeat: a prime, so that rows differ.
const NOISE: usize = 1_048_583;

/// The operands and results of one launch.
pub enum Set<T> {
    /// A softmax or a copy.
    Map {
        /// `[rows, cols]`.
        inp: Buffer<T>,
        /// `[rows, cols]`.
        out: Buffer<T>,
    },
    /// The gradient through a softmax.
    Backward {
        /// `[rows, cols]`.
        y: Buffer<T>,
        /// `[rows, cols]`.
        dy: Buffer<T>,
        /// `[rows, cols]`.
        dx: Buffer<T>,
    },
    /// The loss of each row, and the gradient.
    CrossEntropy {
        /// `[rows, cols]`.
        logits: Buffer<T>,
        /// A class per row.
        targets: Buffer<u32>,
        /// A loss per row.
        losses: Buffer<f32>,
        /// `[rows, cols]`.
        gradient: Buffer<T>,
    },
    /// The largest probabilities.
    TopK {
        /// `[rows, cols]`.
        logits: Buffer<T>,
        /// `[rows, k]`.
        probabilities: Buffer<f32>,
        /// `[rows, k]`.
        indices: Buffer<u32>,
    },
    /// A token for each row.
    Sample {
        /// `[rows, cols]`.
        logits: Buffer<T>,
        /// A token per row.
        tokens: Buffer<u32>,
    },
}

impl<T: Number> Set<T> {
    /// Runs the operation that users call. A copy does nothing.
    ///
    /// # Errors
    /// The launch failed.
    pub fn launch(&mut self, device: &Device, op: Op, shape: Shape) -> Result<(), DeviceError> {
        let shape @ [rows, _] = [shape.rows, shape.cols];
        match self {
            Set::Map { .. } if op == Op::Copy => {}
            Set::Map { inp, out } => {
                let (out, inp) = (TensorViewMut::new(out, shape)?, TensorView::new(&*inp, shape)?);
                op.options().run_into(device, out, inp)?;
            }
            Set::Backward { y, dy, dx } => {
                let (dy, y) = (TensorView::new(&*dy, shape)?, TensorView::new(&*y, shape)?);
                Softmax::new().backward_into(device, TensorViewMut::new(dx, shape)?, dy, y)?;
            }
            Set::CrossEntropy { logits, targets, losses, gradient } => {
                let outputs = Losses::new(losses).gradient(TensorViewMut::new(gradient, shape)?);
                let operation = CrossEntropy::new().gradient_scale(1.0 / rows as f32);
                operation.run_into(device, outputs, TensorView::new(&*logits, shape)?, &*targets)?;
            }
            Set::TopK { logits, probabilities, indices } => {
                let k = indices.len() / rows;
                let probabilities = TensorViewMut::new(probabilities, [rows, k])?;
                let indices = TensorViewMut::new(indices, [rows, k])?;
                TopK::new(k).run_into(device, probabilities, indices, TensorView::new(&*logits, shape)?)?;
            }
            Set::Sample { logits, tokens } => {
                let sample = Sample::new().seed(SEED).draw(DRAW).temperature(TEMPERATURE);
                let sample = if op == Op::SampleTopP { sample.top_p(TOP_P) } else { sample };
                sample.run_into(device, tokens, TensorView::new(&*logits, shape)?)?;
            }
        }
        Ok(())
    }

    /// A row of the results, of `rows` rows.
    fn row(&self, row: usize, rows: usize) -> Result<Outputs, DeviceError> {
        fn of<T: Element + bytemuck::Pod>(
            buffer: &Buffer<T>,
            place: [usize; 2],
        ) -> Result<Vec<f64>, DeviceError> {
            let [row, rows] = place;
            let cols = buffer.len() / rows;
            let elements = buffer.view(row * cols..(row + 1) * cols)?.to_vec()?;
            Ok(elements.into_iter().map(|x| x.to_f64()).collect())
        }
        let place = [row, rows];
        Ok(match self {
            Set::Map { out, .. } => vec![("out", of(out, place)?)],
            Set::Backward { dx, .. } => vec![("dx", of(dx, place)?)],
            Set::CrossEntropy { losses, gradient, .. } => {
                vec![("loss", of(losses, place)?), ("gradient", of(gradient, place)?)]
            }
            Set::TopK { probabilities, indices, .. } => {
                vec![("probabilities", of(probabilities, place)?), ("indices", of(indices, place)?)]
            }
            Set::Sample { tokens, .. } => vec![("token", of(tokens, place)?)],
        })
    }
}

/// The contents of every set, and the expected results.
pub struct Inputs<T> {
    op: Op,
    shape: Shape,
    /// The block that the input repeats.
    block: Vec<T>,
    /// The block that the gradient repeats.
    gradients: Vec<T>,
}

impl<T: Number> Inputs<T> {
    /// For an operation on matrices of this shape.
    pub fn new(op: Op, shape: Shape) -> Self {
        let mut uniform = uniform(0x9e37_79b9_7f4a_7c15);
        let noise: Vec<f32> = (0..NOISE.min(shape.len())).map(|_| 2.0 * uniform() - 1.0).collect();
        let element = |&x: &f32| match op {
            // Like probabilities: positive, with a sum near 1.
            Op::Backward => T::nearest(x.abs() * 2.0 / shape.cols as f32),
            _ => T::nearest(x * 8.0),
        };
        let gradients = noise.iter().rev().map(|&x| T::nearest(x)).collect();
        Self { op, shape, block: noise.iter().map(element).collect(), gradients }
    }

    /// Bytes that a launch must read or write.
    fn bytes(&self) -> usize {
        self.op.matrices() * self.shape.len() * size_of::<T>()
    }

    /// Creates a set. Its results are zeros, and columns that do not exist.
    ///
    /// # Errors
    /// There is not enough memory, or the device failed.
    pub fn set(&self, device: &Device) -> Result<Set<T>, DeviceError> {
        let (rows, len) = (self.shape.rows, self.shape.len());
        let inp = self.repeated(device, &self.block)?;
        let no_columns = |count: usize| device.upload(&vec![u32::MAX; count]);
        Ok(match self.op {
            Op::Softmax | Op::LogSoftmax | Op::Copy => Set::Map { inp, out: device.alloc_zeroed(len)? },
            Op::Backward => Set::Backward {
                y: inp,
                dy: self.repeated(device, &self.gradients)?,
                dx: device.alloc_zeroed(len)?,
            },
            Op::CrossEntropy => {
                let targets: Vec<u32> = (0..rows).map(|row| self.target(row) as u32).collect();
                let (targets, losses) = (device.upload(&targets)?, device.alloc_zeroed(rows)?);
                Set::CrossEntropy { logits: inp, targets, losses, gradient: device.alloc_zeroed(len)? }
            }
            Op::TopK(k) => {
                let (probabilities, indices) = (device.alloc_zeroed(rows * k)?, no_columns(rows * k)?);
                Set::TopK { logits: inp, probabilities, indices }
            }
            Op::Sample | Op::SampleTopP => Set::Sample { logits: inp, tokens: no_columns(rows)? },
        })
    }

    /// A matrix that repeats `block`.
    fn repeated(&self, device: &Device, block: &[T]) -> Result<Buffer<T>, DeviceError> {
        let len = self.shape.len();
        let mut buffer = device.alloc_zeroed(len)?;
        for start in (0..len).step_by(block.len()) {
            let end = len.min(start + block.len());
            buffer.view_mut(start..end)?.copy_from(&block[..end - start])?;
        }
        Ok(buffer)
    }

    fn target(&self, row: usize) -> usize {
        row * 7919 % self.shape.cols
    }

    /// Compares rows spread over the matrix with f64.
    fn check(&self, set: &Set<T>) -> anyhow::Result<f64> {
        let rows = self.shape.rows;
        let results = checked_rows(rows).map(|row| Ok((row, set.row(row, rows)?)));
        let results = results.collect::<Result<Vec<_>, DeviceError>>()?;
        let check_all = |results: &[(usize, Outputs)]| {
            results.iter().try_for_each(|(row, got)| {
                let right = self.check_row(*row, got);
                right.with_context(|| format!("{} of {}: row {row}", self.op.name(), self.shape))
            })
        };
        // Sorting wide rows takes time.
        std::thread::scope(|scope| {
            let parts: Vec<_> = results.chunks(8).map(|part| scope.spawn(move || check_all(part))).collect();
            parts.into_iter().try_for_each(|part| part.join().expect("the oracle does not panic"))
        })?;
        Ok(0.0)
    }

    fn check_row(&self, row: usize, got: &Outputs) -> anyhow::Result<()> {
        let Self { op, shape: Shape { rows, cols }, .. } = *self;
        let values = |block: &[T]| -> Vec<f32> {
            (row * cols..(row + 1) * cols).map(|i| block[i % block.len()].value()).collect()
        };
        let (inp, layout) = (values(&self.block), Layout::dense(1, cols));
        let expected: Expected = match op {
            Op::Softmax | Op::LogSoftmax => {
                // A rung adds up a row with one thread.
                let relative = relative_one_after_the_other(cols);
                vec![("out", softmax_bounds::<T>(&inp, cols, &op.options(), relative))]
            }
            Op::Copy => vec![("out", inp.iter().map(|&x| Bound::exact(x.into())).collect())],
            Op::Backward => {
                let (dy, y, layouts) = (values(&self.gradients), inp, [layout; 3]);
                backward::Backward { layouts, dy, y, scale: 1.0, is_log: false }.expected::<T>()
            }
            Op::CrossEntropy => {
                let (targets, d_scale) = (vec![self.target(row) as i64], 1.0 / rows as f32);
                let (layouts, d_loss) = ([layout; 2], None);
                let all = cross_entropy::CrossEntropy { layouts, logits: inp, targets, d_loss, d_scale };
                all.expected::<T>()
                    .into_iter()
                    .filter(|(name, _)| ["loss", "gradient"].contains(name))
                    .collect()
            }
            Op::TopK(k) => top_k::TopK::dense(inp, cols, k, Softmax::new()).expected::<T>(),
            Op::Sample | Op::SampleTopP => {
                let noise = Noise { seed: SEED, draw: DRAW, row: row as u32 };
                let draw = Draw { noise, temperature: TEMPERATURE, top_k: 0, top_p: op.top_p() };
                let (token, allowed) = (got[0].1[0], draw.tokens(&inp));
                let is_allowed = allowed.iter().any(|&allowed| f64::from(allowed) == token);
                ensure!(is_allowed, "the token is {token}, not one of {allowed:?}");
                return Ok(());
            }
        };
        compare_all(got, &expected).map(drop)
    }
}

/// Prepares and checks a launch of the operation.
///
/// # Errors
/// There is not enough memory, the launch failed, or a row is wrong.
pub(super) fn prepare_launch<T: Number>(
    device: &Device,
    (op, shape): (Op, Shape),
    launch: impl Fn(&mut Set<T>) -> Result<(), DeviceError> + Send + Sync + 'static,
) -> anyhow::Result<Box<dyn Timed>> {
    let inputs = Inputs::<T>::new(op, shape);
    let set = || Ok(inputs.set(device)?);
    timed::prepared(device, inputs.bytes(), set, launch, |set| inputs.check(set))
}

/// At most [`CHECKED_ROWS`] rows, evenly spread from the first to the last.
fn checked_rows(rows: usize) -> impl Iterator<Item = usize> {
    let count = rows.min(CHECKED_ROWS);
    (0..count).map(move |i| if count == 1 { 0 } else { i * (rows - 1) / (count - 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checked_rows_are_spread_from_the_first_to_the_last() {
        for rows in [1, 2, 63, 64, 65, 4096, 131_072] {
            let checked: Vec<usize> = checked_rows(rows).collect();
            assert_eq!(checked.len(), rows.min(64));
            assert_eq!((checked[0], checked[checked.len() - 1]), (0, rows - 1));
            assert!(checked.is_sorted_by(|a, b| a < b));
        }
    }

    #[test]
    fn every_operation_is_right_and_results_that_are_not_written_are_found() {
        let (device, shape) = (Device::cpu(), Shape { rows: 100, cols: 70 });
        for op in Op::CALLED.into_iter().chain([Op::Copy]) {
            let error = |launch: fn(&mut Set<f32>) -> Result<(), DeviceError>| {
                format!("{:#}", prepare_launch(&device, (op, shape), launch).err().unwrap())
            };
            let nothing = error(|_| Ok(()));
            assert!(nothing.contains(&format!("{} of 100x70: row 0: ", op.name())), "{nothing}");
            if op == Op::Copy {
                let all_but_the_last = error(|set| {
                    let Set::Map { inp, out } = set else { unreachable!("the operands of a copy") };
                    out.copy_from(&[&inp.to_vec()?[..6999], &[0.5]].concat())
                });
                assert!(all_but_the_last.contains("row 99: out[69] is 5e-1"), "{all_but_the_last}");
            } else {
                let on = device.clone();
                prepare_launch::<f32>(&device, (op, shape), move |set| set.launch(&on, op, shape)).unwrap();
            }
        }
    }
}
