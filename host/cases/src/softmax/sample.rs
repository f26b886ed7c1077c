//! Draws tokens from a softmax.

use anyhow::Result;
use cuda_std::launch::RawBuffer;
use cuda_std::testing::{KernelTest, Layout};
use ferrowarp::Softmax;
use ferrowarp::device::Device;
use gpu_kernels::softmax::operation::{RowVariants, Spread};
use gpu_kernels::softmax::sample::{GREEDY, NO_TOKEN, Noise, SampleArgs, SampleLaunch};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::backward::rounded;
use super::rowwise::{self, Rowwise, Sweep, Widths, sweep};
use super::top_k::rows_of_all_kinds;
use crate::case::{Case, wide};
use crate::compare::{Bound, Expected, Outputs};
use crate::reference::{self, Draw, Number, RELATIVE};
use crate::scopes::{Scope, Setting};

/// One problem; its numbers are rounded to a kernel's type.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The layout of the logits.
    pub layout: Layout,
    /// The logits.
    pub logits: Vec<f32>,
    /// The draw of the first row.
    pub draw: Draw,
    /// Whether the logarithms of the probabilities are requested.
    pub wants_logarithms: bool,
}

/// Every case of the setting.
pub fn cases(setting: &Setting) -> Vec<Case> {
    let mut cases = rowwise::cases::<Sample>(setting);
    cases.extend(rowwise::cases::<SampleTopK>(setting));
    cases
}

impl Sample {
    /// The rows' numbers in a kernel's type, and the draw of each.
    fn rows<T: Number>(&self) -> Vec<(Vec<f32>, Draw)> {
        let logits: Vec<f32> = rounded::<T>(&self.logits).into_iter().map(|x| x.value()).collect();
        let rows = logits.chunks(self.layout.cols).enumerate();
        let draw = |row| Draw {
            noise: Noise { row: self.draw.noise.row + row as u32, ..self.draw.noise },
            ..self.draw
        };
        rows.map(|(row, logits)| (logits.to_vec(), draw(row))).collect()
    }

    /// The number of rows with only one possible token, and the number of rows.
    pub fn certain_rows<T: Number>(&self) -> [usize; 2] {
        let rows = self.rows::<T>();
        [rows.iter().filter(|(logits, draw)| draw.tokens(logits).len() == 1).count(), rows.len()]
    }
}

impl Rowwise for Sample {
    type Args<T: Number> = SampleArgs<T>;
    const NAME: &'static str = "sampling";
    const IN_PLACE: bool = false;
    // Every second seed has a cut by probability.
    const SWEEPS: &'static [Sweep] = &{
        use Scope::{Device, Executor, NewEmulator, OldEmulator, Small, Tiny};
        use Widths::{All, Staged, UpTo};
        [
            sweep(Tiny, 1, UpTo(&[35]), 2),
            sweep(Small, 3, UpTo(&[35, 1157]), 2),
            sweep(OldEmulator, 3, All(&[1, 33, 1157]), 4),
            // One of the two thread orders exposes a missing barrier.
            sweep(NewEmulator, 2, All(&[33, 257]), 2),
            sweep(NewEmulator, 2, Staged(&[3, 2311]), 4),
            sweep(Executor, 24, All(&[1, 31, 33, 127]), 12),
            sweep(Executor, 24, All(&[1023, 1025]), 4),
            sweep(Executor, 4, All(&[12_673, 50_257]), 2),
            sweep(Device, 24, All(&[35, 1025]), 8),
            sweep(Device, 6, All(&[50_257]), 4),
        ]
    };

    fn kernels<T: Number>() -> &'static RowVariants<SampleArgs<T>> {
        &T::SAMPLING.sample
    }

    /// The seed determines the kinds of rows, the cut by probability and the temperature.
    fn random([layout, ..]: [Layout; 3], seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let ps = [0.9, 0.5, 0.999, 0.02];
        let top_p = if seed.is_multiple_of(2) { ps[rng.random_range(0..4)] } else { 1.0 };
        let temperature = [1.0, 0.7, 2.5, 30.0, 0.01, 0.0][rng.random_range(0..6)];
        let noise = Noise { seed: rng.random(), draw: rng.random(), row: rng.random_range(0..1000) };
        Self {
            layout,
            logits: rows_of_all_kinds(layout.rows, layout.cols, seed),
            draw: Draw { noise, temperature, top_k: 0, top_p },
            wants_logarithms: !seed.is_multiple_of(3),
        }
    }

    fn layouts(&self) -> &[Layout] {
        std::slice::from_ref(&self.layout)
    }

    fn run<T: Number>(&self, device: &Device, kernel: Spread<SampleArgs<T>>, _: bool) -> Result<Outputs> {
        let (Layout { rows, cols, stride, .. }, draw) = (self.layout, self.draw);
        let (mut test, of_rows) = (KernelTest::new(), Layout::dense(1, rows));
        let logits = test.input_at("logits", &rounded::<T>(&self.logits), self.layout);
        let tokens = test.output_at("tokens", &vec![NO_TOKEN - 1; rows], of_rows);
        let logarithms = self.wants_logarithms.then(|| test.unwritten::<f32>("log-probabilities", of_rows));
        let results = test.run_on(device, |on, memory| {
            let args = SampleLaunch {
                tokens: RawBuffer::written(memory.output(tokens)),
                log_probabilities: logarithms
                    .map_or(RawBuffer::NULL, |logarithms| RawBuffer::written(memory.output(logarithms))),
                logits: RawBuffer::read(memory.input(logits)),
                rows: rows as u32,
                stride: stride as u64,
                seed: draw.noise.seed,
                draw: draw.noise.draw,
                cols: cols as u32,
                first_row: draw.noise.row,
                top_k: draw.top_k as u32,
                top_p: draw.top_p,
                scale: draw.scale(),
                flags: if draw.temperature == 0.0 { GREEDY } else { 0 },
            };
            // SAFETY: the buffers have the shape and stride, and the grid covers the rows.
            unsafe { kernel.variant.launch(on, kernel.config(rows as u32, cols), args) }
        })?;
        let tokens = wide(&results.of(tokens));
        let are_allowed = self.rows::<T>().into_iter().zip(&tokens).map(|((logits, draw), &token)| {
            f64::from(u8::from(draw.tokens(&logits).iter().any(|&allowed| allowed as f64 == token)))
        });
        let mut outputs = vec![("may be drawn", are_allowed.collect()), ("tokens", tokens)];
        if let Some(logarithms) = logarithms {
            outputs.push(("log-probabilities", wide(&results.of(logarithms))));
        }
        Ok(outputs)
    }

    /// The token, or the range of the possible tokens in the rare case of several.
    fn expected<T: Number>(&self) -> Expected {
        let between = |bounds: &mut dyn Iterator<Item = Bound>| {
            let ends = bounds.map(|it| (it.value - it.allowed, it.value + it.allowed, it));
            let (least, most, first) =
                ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1), a.2)).expect("a token");
            // A range with a NaN or an infinity is not a range of numbers.
            let is_finite = least.is_finite() && most.is_finite();
            if is_finite { Bound::near((least + most) / 2.0, (most - least) / 2.0) } else { first }
        };
        let (mut are_allowed, mut tokens, mut logarithms) = (Vec::new(), Vec::new(), Vec::new());
        for (logits, draw) in self.rows::<T>() {
            let log = Softmax::new().scale(draw.scale()).log();
            let all = reference::softmax_bounds::<f32>(&logits, logits.len(), &log, RELATIVE);
            let allowed = draw.tokens(&logits);
            are_allowed.push(Bound::exact(1.0));
            tokens.push(between(&mut allowed.iter().map(|&token| Bound::exact(token.into()))));
            let logarithm = |&token: &u32| match all.get(token as usize) {
                Some(&bound) => bound,
                None => Bound::exact(f64::NAN),
            };
            logarithms.push(between(&mut allowed.iter().map(logarithm)));
        }
        let mut expected = vec![("may be drawn", are_allowed), ("tokens", tokens)];
        if self.wants_logarithms {
            expected.push(("log-probabilities", logarithms));
        }
        expected
    }
}

/// A [`Sample`] with a cut to the largest tokens.
#[derive(Clone, Debug)]
pub struct SampleTopK(pub Sample);

impl Rowwise for SampleTopK {
    type Args<T: Number> = SampleArgs<T>;
    const NAME: &'static str = "sampling of the largest";
    const IN_PLACE: bool = false;
    const SWEEPS: &'static [Sweep] = &{
        use Scope::{Device, Executor, NewEmulator, OldEmulator, Small, Tiny};
        use Widths::{All, Staged, UpTo};
        [
            sweep(Tiny, 1, UpTo(&[35]), 1),
            sweep(Small, 3, UpTo(&[35, 1157]), 1),
            sweep(OldEmulator, 3, All(&[33, 1157]), 2),
            sweep(NewEmulator, 2, All(&[33]), 2),
            sweep(NewEmulator, 2, Staged(&[2311]), 2),
            sweep(Executor, 24, All(&[1, 33, 127, 1025]), 4),
            sweep(Executor, 4, All(&[12_673, 50_257]), 1),
            sweep(Device, 24, All(&[35, 1025]), 4),
            sweep(Device, 6, All(&[50_257]), 2),
        ]
    };

    fn kernels<T: Number>() -> &'static RowVariants<SampleArgs<T>> {
        &T::SAMPLING.sample_top_k
    }

    /// Same as for [`Sample`], at a temperature above 0.
    fn random(layouts: [Layout; 3], seed: u64) -> Self {
        let Sample { draw, .. } = Sample::random(layouts, seed);
        let temperature = if draw.temperature == 0.0 { 1.3 } else { draw.temperature };
        let draw = Draw { top_k: [50, 1, 128, 2][seed as usize / 2 % 4], temperature, ..draw };
        Self(Sample { draw, ..Sample::random(layouts, seed) })
    }

    fn layouts(&self) -> &[Layout] {
        self.0.layouts()
    }

    fn run<T: Number>(
        &self,
        device: &Device,
        kernel: Spread<SampleArgs<T>>,
        in_place: bool,
    ) -> Result<Outputs> {
        self.0.run(device, kernel, in_place)
    }

    fn expected<T: Number>(&self) -> Expected {
        self.0.expected::<T>()
    }
}
