//! The gradient through a softmax or a log-softmax.

use anyhow::Result;
use cuda_std::launch::RawBuffer;
use cuda_std::testing::{KernelTest, Layout};
use ferrowarp::device::Device;
use gpu_kernels::softmax::backward::{BackwardArgs, BackwardArgsHost, LOG};
use gpu_kernels::softmax::operation::{RowVariants, Spread};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::rowwise::{self, Rowwise, Sweep, Widths, sweep};
use crate::case::{Case, wide};
use crate::compare::{Bound, Expected, Outputs};
use crate::reference::{self, Number, RELATIVE};
use crate::scopes::{Scope, Setting};

/// One problem; its numbers are rounded to a kernel's type.
#[derive(Clone, Debug)]
pub struct Backward {
    /// The layouts of `dx`, `dy` and `y`.
    pub layouts: [Layout; 3],
    /// The gradient at the result.
    pub dy: Vec<f32>,
    /// The result.
    pub y: Vec<f32>,
    /// The factor of the logits.
    pub scale: f32,
    /// Whether `y` holds logarithms.
    pub is_log: bool,
}

/// Every case of the setting.
pub fn cases(setting: &Setting) -> Vec<Case> {
    rowwise::cases::<Backward>(setting)
}

impl Rowwise for Backward {
    type Args<T: Number> = BackwardArgs<T>;
    const NAME: &'static str = "gradient through a softmax";
    // Every second seed is for logarithms.
    const SWEEPS: &'static [Sweep] = &{
        use Scope::{Device, Executor, NewEmulator, OldEmulator, Small, Tiny};
        use Widths::{All, Staged, UpTo, Widest};
        [
            sweep(Tiny, 1, UpTo(&[35]), 1),
            sweep(Small, 3, UpTo(&[35, 1157]), 1),
            sweep(OldEmulator, 5, All(&[1, 2, 33, 127, 300]), 2),
            // One of the two thread orders exposes a missing barrier.
            sweep(NewEmulator, 3, UpTo(&[257]), 1),
            sweep(NewEmulator, 2, Staged(&[1, 5003]), 1),
            sweep(Executor, 19, All(&[1, 2, 3, 31, 32, 33]), 2),
            sweep(Executor, 5, All(&[127, 1023, 1024, 1025, 4099]), 2),
            sweep(Executor, 2, All(&[40_001]), 1),
            sweep(Device, 2, Widest, 2),
        ]
    };

    fn kernels<T: Number>() -> &'static RowVariants<BackwardArgs<T>> {
        T::BACKWARD
    }

    /// Probabilities or, if the seed is odd, their logarithms, some of them 0 or -inf, and gradients in -1..1.
    fn random(layouts: [Layout; 3], seed: u64) -> Self {
        let (Layout { rows, cols, .. }, is_log) = (layouts[0], seed % 2 == 1);
        let mut rng = StdRng::seed_from_u64(seed);
        let mut numbers = |range: std::ops::Range<f32>| -> Vec<f32> {
            (0..rows * cols).map(|_| rng.random_range(range.clone())).collect()
        };
        let (dy, mut logits) = (numbers(-1.0..1.0), numbers(-6.0..6.0));
        for (row, logits) in logits.chunks_mut(cols).enumerate() {
            match row % 4 {
                1 => logits[..cols / 2].fill(f32::NEG_INFINITY),
                2 => logits[cols - 1] = 40.0,
                _ => {}
            }
        }
        let y = reference::softmax(&logits, cols).into_iter().map(|p| if is_log { p.ln() } else { p } as f32);
        Self { layouts, dy, y: y.collect(), scale: 0.5, is_log }
    }

    fn layouts(&self) -> &[Layout] {
        &self.layouts
    }

    /// `dx`, in separate memory or in place of `dy`.
    fn run<T: Number>(
        &self,
        device: &Device,
        kernel: Spread<BackwardArgs<T>>,
        in_place: bool,
    ) -> Result<Outputs> {
        let [of_dx, of_dy, of_y] = self.layouts;
        let (dy, y): (Vec<T>, Vec<T>) = (rounded(&self.dy), rounded(&self.y));
        let mut test = KernelTest::new();
        let y = test.input_at("y", &y, of_y);
        let (dx, of_dx, dy) = if in_place {
            (test.output_at("dy", &dy, of_dy), of_dy, None)
        } else {
            (test.unwritten("dx", of_dx), of_dx, Some(test.input_at("dy", &dy, of_dy)))
        };
        let results = test.run_on(device, |on, memory| {
            let dx = RawBuffer::written(memory.output(dx));
            let args = BackwardArgsHost {
                dx,
                dy: dy.map_or(dx, |dy| RawBuffer::read(memory.input(dy))),
                y: RawBuffer::read(memory.input(y)),
                rows: of_dx.rows as u32,
                cols: of_dx.cols as u32,
                dx_stride: of_dx.stride as u64,
                dy_stride: of_dy.stride as u64,
                y_stride: of_y.stride as u64,
                scale: self.scale,
                flags: if self.is_log { LOG } else { 0 },
                prefetch_blocks: 1,
            };
            // SAFETY: the buffers have the shape and strides, and the grid covers the rows.
            unsafe { kernel.variant.launch(on, kernel.config(args.rows, of_dx.cols), args) }
        })?;
        Ok(vec![("dx", wide(&results.of(dx)))])
    }

    /// The sum is rounded to `f32`, the result to its type.
    fn expected<T: Number>(&self) -> Expected {
        let values = |numbers: &[f32]| rounded::<T>(numbers).into_iter().map(|x| x.value()).collect();
        let (dy, y): (Vec<f32>, Vec<f32>) = (values(&self.dy), values(&self.y));
        let (cols, scale) = (self.layouts[0].cols, f64::from(self.scale));
        let rows = dy.chunks(cols).zip(y.chunks(cols));
        let sums = rows.flat_map(|(dy, y)| reference::softmax_backward(dy, y, self.is_log));
        let bounds =
            sums.map(|sum| Bound::rounded::<T>(sum.value * scale, RELATIVE * sum.magnitude * scale.abs()));
        vec![("dx", bounds.collect())]
    }
}

/// The numbers, rounded to a type.
pub(crate) fn rounded<T: Number>(numbers: &[f32]) -> Vec<T> {
    numbers.iter().map(|&x| T::nearest_finite(x)).collect()
}
