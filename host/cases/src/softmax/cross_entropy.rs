//! Cross entropy, with all optional results.

use anyhow::Result;
use cuda_std::launch::RawBuffer;
use cuda_std::testing::{KernelTest, Layout};
use ferrowarp::device::Device;
use gpu_kernels::softmax::cross_entropy::{CrossEntropyArgs, CrossEntropyLaunch, I64};
use gpu_kernels::softmax::operation::{RowVariants, Spread};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::backward::rounded;
use super::rowwise::{self, Rowwise, Sweep, Widths, sweep};
use crate::case::{Case, wide};
use crate::compare::{Bound, Expected, Outputs};
use crate::reference::{self, Number};
use crate::scopes::{Scope, Setting};

/// The target of rows that are ignored.
pub const IGNORED: i64 = -100;

/// One problem with all results; its numbers are rounded to a kernel's type.
#[derive(Clone, Debug)]
pub struct CrossEntropy {
    /// The layouts of the gradient and of the logits.
    pub layouts: [Layout; 2],
    /// The logits.
    pub logits: Vec<f32>,
    /// The class of each row, [`IGNORED`], or an invalid column.
    pub targets: Vec<i64>,
    /// The gradient at the loss of each row; otherwise it is 1.
    pub d_loss: Option<Vec<f32>>,
    /// The factor of the gradient.
    pub d_scale: f32,
}

/// Every case of the setting.
pub fn cases(setting: &Setting) -> Vec<Case> {
    rowwise::cases::<CrossEntropy>(setting)
}

/// The tolerance of a row's loss: the sum of the exponentials is within 1e-6, and the rest is rounded to `f32`.
pub fn loss_bound(loss: f64) -> Bound {
    Bound::near(loss, 1e-6 + 2e-7 * loss.abs())
}

impl Rowwise for CrossEntropy {
    type Args<T: Number> = CrossEntropyArgs<T>;
    const NAME: &'static str = "cross entropy";
    const SWEEPS: &'static [Sweep] = &{
        use Scope::{Device, Executor, NewEmulator, OldEmulator, Small, Tiny};
        use Widths::{All, UpTo, Widest};
        [
            sweep(Tiny, 1, UpTo(&[35]), 1),
            sweep(Small, 3, UpTo(&[35, 1157]), 1),
            sweep(OldEmulator, 11, All(&[1, 2, 10, 33, 127, 300]), 1),
            // One of the two thread orders exposes a missing barrier.
            sweep(NewEmulator, 5, UpTo(&[257]), 1),
            sweep(Executor, 23, All(&[1, 2, 3, 10, 16, 17, 31, 32, 33]), 1),
            sweep(Executor, 11, All(&[127, 1023, 1024, 1025, 4099]), 1),
            sweep(Executor, 4, All(&[40_001]), 1),
            sweep(Device, 3, Widest, 1),
        ]
    };

    fn kernels<T: Number>() -> &'static RowVariants<CrossEntropyArgs<T>> {
        &T::CROSS_ENTROPY.rows
    }

    /// Logits in -8..8, including rows that are hard for a softmax, ignored rows and invalid targets; if the seed is even, a
    /// gradient at each loss.
    fn random([of_gradient, of_logits, _]: [Layout; 3], seed: u64) -> Self {
        let Layout { rows, cols, .. } = of_logits;
        let mut rng = StdRng::seed_from_u64(seed);
        let mut logits: Vec<f32> = (0..rows * cols).map(|_| rng.random_range(-8.0..8.0)).collect();
        let mut targets: Vec<i64> = (0..rows).map(|_| rng.random_range(0..cols as i64)).collect();
        for (row, logits) in logits.chunks_mut(cols).enumerate() {
            match row % 11 {
                1 => targets[row] = IGNORED,
                2 => logits.iter_mut().for_each(|x| *x += 1e4),
                3 => logits.iter_mut().for_each(|x| *x = *x * 4.0 - 5e4),
                4 => logits[cols - 1] = 90.0,
                5 => logits.fill(3.5),
                6 => logits[..cols / 2].fill(f32::NEG_INFINITY),
                7 => logits[targets[row] as usize] = 20.0,
                8 => targets[row] = cols as i64,
                9 => targets[row] = -1,
                _ => {}
            }
        }
        let d_loss = seed.is_multiple_of(2).then(|| (0..rows).map(|row| row as f32 * 0.5 - 1.0).collect());
        Self { layouts: [of_gradient, of_logits], logits, targets, d_loss, d_scale: 0.25 }
    }

    fn layouts(&self) -> &[Layout] {
        &self.layouts
    }

    /// All results; the gradient is in separate memory or in place of the logits.
    fn run<T: Number>(
        &self,
        device: &Device,
        kernel: Spread<CrossEntropyArgs<T>>,
        in_place: bool,
    ) -> Result<Outputs> {
        let [of_gradient, of_logits] = self.layouts;
        let Layout { rows, cols, .. } = of_logits;
        let numbers: Vec<T> = rounded(&self.logits);
        let mut test = KernelTest::new();
        let (gradient, of_gradient, logits) = if in_place {
            (test.output_at("logits", &numbers, of_logits), of_logits, None)
        } else {
            let logits = test.input_at("logits", &numbers, of_logits);
            (test.unwritten("gradient", of_gradient), of_gradient, Some(logits))
        };
        let of_rows = Layout::dense(1, rows);
        let (loss, lse) = (test.unwritten::<f32>("loss", of_rows), test.unwritten::<f32>("lse", of_rows));
        let correct = test.unwritten::<u32>("correct", of_rows);
        let targets = test.input("targets", &self.targets);
        let d_loss = self.d_loss.as_ref().map(|d_loss| test.input("d_loss", d_loss));
        let results = test.run_on(device, |on, memory| {
            let d_logits = RawBuffer::written(memory.output(gradient));
            let loss = RawBuffer::written(memory.output(loss));
            let logits = logits.map_or(d_logits, |logits| RawBuffer::read(memory.input(logits)));
            let targets = RawBuffer::read(memory.input(targets)).cast();
            let args = CrossEntropyLaunch {
                lse: RawBuffer::written(memory.output(lse)),
                correct: RawBuffer::written(memory.output(correct)),
                d_logits,
                d_loss: d_loss.map_or(RawBuffer::NULL, |d_loss| RawBuffer::read(memory.input(d_loss))),
                rows: rows as u32,
                cols: cols as u32,
                d_stride: of_gradient.stride as u64,
                stride: of_logits.stride as u64,
                d_scale: self.d_scale,
                prefetch_blocks: 1,
                ..CrossEntropyLaunch::new(loss, logits, targets, I64)
            };
            // SAFETY: the buffers have the shape and strides, and the grid covers the rows.
            unsafe { kernel.variant.launch(on, kernel.config(rows as u32, cols), args) }
        })?;
        Ok(vec![
            ("loss", wide(&results.of(loss))),
            ("lse", wide(&results.of(lse))),
            ("correct", wide(&results.of(correct))),
            ("gradient", wide(&results.of(gradient))),
        ])
    }

    fn expected<T: Number>(&self) -> Expected {
        let logits: Vec<f32> = rounded::<T>(&self.logits).into_iter().map(|x| x.value()).collect();
        let (mut loss, mut lse, mut correct, mut gradient) = (vec![], vec![], vec![], vec![]);
        for (row, logits) in logits.chunks(self.layouts[0].cols).enumerate() {
            let want = reference::cross_entropy(logits, self.targets[row], IGNORED);
            loss.push(loss_bound(want.loss));
            lse.push(Bound::near(want.log_sum_exp, 1e-6 + 1e-7 * want.log_sum_exp.abs()));
            correct.push(Bound::exact(f64::from(u8::from(want.is_correct))));
            let scale = f64::from(self.d_scale) * self.d_loss.as_ref().map_or(1.0, |d| f64::from(d[row]));
            // 2e-6 of the probability, where the target's column loses most.
            gradient.extend(
                want.gradient.iter().map(|want| Bound::rounded::<T>(want * scale, 2e-6 * scale.abs())),
            );
        }
        vec![("loss", loss), ("lse", lse), ("correct", correct), ("gradient", gradient)]
    }
}
