//! RMSNorm and LayerNorm, forward and backward: every kernel in every type.

use std::sync::Arc;

use anyhow::Result;
use cuda_std::half::{bf16, f16};
use ferrowarp::device::Device;
use ferrowarp::norm::{self, Backward, Forward, GradientOutputs, Norm, Statistics};
use gpu_kernels::norm::{Blocks, NormKernels};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use crate::case::{Case, wide};
use crate::compare::{Bound, Expected, Outputs};
use crate::place::{Place, UNTOUCHED};
use crate::reference::Number;
use crate::scopes::{
    DEVICE, EMULATORS, LARGER, SMALL, SMALL_AND_EMULATOR, Scope, Setting, TINY, cases_of_types,
};

/// The values of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// Numbers between -1 and 1.
    Ordinary,
    /// Numbers around 100, so that the mean is far larger than the deviations.
    Offset,
    /// The same number throughout a row: a variance of 0.
    Constant,
    /// Numbers from 1000 to 1000.015: a mean far larger than the deviations, as `f16` and `bf16` the same number.
    Close,
}

/// Matrices to normalise.
#[derive(Clone, Copy, Debug)]
struct Problem {
    scopes: &'static [Scope],
    shape: [usize; 2],
    /// Elements between the rows.
    gap: usize,
    is_centred: bool,
    /// Whether there are a weight, a bias, a residual and a gradient of the sum.
    has_all: bool,
    values: Values,
}

impl Problem {
    /// Whether rows of elements of type `T` are whole vectors of 16 bytes.
    fn is_aligned<T>(&self) -> bool {
        [self.shape[1], self.gap].iter().all(|len| (len * size_of::<T>()).is_multiple_of(16))
    }
}

const PLAIN: Problem = Problem {
    scopes: &[],
    shape: [1, 1],
    gap: 0,
    is_centred: false,
    has_all: false,
    values: Values::Ordinary,
};

/// Rows that end within a vector, a warp and a block. Blocks and rows that are not full.
const PROBLEMS: &[Problem] = &[
    Problem { scopes: TINY, shape: [2, 9], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: SMALL, shape: [5, 43], gap: 2, is_centred: true, has_all: true, ..PLAIN },
    // Rows of whole vectors, which shared memory may hold.
    Problem { scopes: SMALL, shape: [3, 40], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: EMULATORS, shape: [3, 251], gap: 3, is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: EMULATORS, shape: [5, 40], gap: 8, has_all: true, ..PLAIN },
    // Rows without gaps that start at any element of a vector. Each thread takes several.
    Problem { scopes: SMALL, shape: [19, 43], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: SMALL, shape: [21, 42], ..PLAIN },
    Problem { scopes: EMULATORS, shape: [37, 251], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: EMULATORS, shape: [35, 46], ..PLAIN },
    // Narrow rows, several of which a warp has.
    Problem { scopes: SMALL, shape: [150, 24], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: SMALL, shape: [140, 5], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [700, 32], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [333, 8], is_centred: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [515, 3], gap: 2, has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [301, 136], has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [1001, 17], is_centred: true, has_all: true, ..PLAIN },
    // Clusters of two and three blocks, the last one with fewer vectors.
    Problem { scopes: SMALL_AND_EMULATOR, shape: [2, 8200], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [2, 17_000], has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [70, 131], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [23, 1023], has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [11, 4097], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [10, 8185], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [50, 180], is_centred: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [1, 1], ..PLAIN },
    Problem { scopes: LARGER, shape: [7, 256], is_centred: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [6, 1000], has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [5, 1023], gap: 1, is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [3, 4096], gap: 16, is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [2, 8200], has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [2, 33_000], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [1, 131_000], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [1, 140_000], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: LARGER, shape: [4, 300], is_centred: true, values: Values::Offset, ..PLAIN },
    Problem { scopes: LARGER, shape: [4, 72], is_centred: true, values: Values::Constant, ..PLAIN },
    Problem { scopes: LARGER, shape: [3, 65], has_all: true, values: Values::Constant, ..PLAIN },
    Problem { scopes: LARGER, shape: [2, 1000], is_centred: true, values: Values::Constant, ..PLAIN },
    Problem { scopes: LARGER, shape: [1, 4096], is_centred: true, values: Values::Close, ..PLAIN },
    Problem { scopes: LARGER, shape: [1, 1 << 20], is_centred: true, values: Values::Constant, ..PLAIN },
    Problem { scopes: DEVICE, shape: [1000, 768], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: DEVICE, shape: [100_003, 32], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: DEVICE, shape: [50_001, 33], is_centred: true, has_all: true, ..PLAIN },
    Problem { scopes: DEVICE, shape: [3, 40_001], is_centred: true, has_all: true, ..PLAIN },
];

/// Half a unit in the last place of `f32`, relative.
const ROUNDING: f64 = f32::EPSILON as f64 / 2.0;
/// Added to the variance.
const EPSILON: f32 = 1e-5;

/// Every case of the setting.
pub fn cases(setting: &Setting) -> Vec<Case> {
    let problems = PROBLEMS.iter().filter(|problem| problem.scopes.contains(&setting.scope));
    problems.flat_map(|problem| cases_of_types!(f32, f16, bf16 => of_type::<T>(problem, setting))).collect()
}

/// The operands in one type.
pub struct Operands<T> {
    problem: Problem,
    epsilon: f32,
    inp: Vec<T>,
    residual: Vec<T>,
    weight: Vec<T>,
    bias: Vec<T>,
    d_out: Vec<T>,
    d_sum: Vec<T>,
    pub(crate) mean: Vec<f32>,
    pub(crate) rstd: Vec<f32>,
}

impl<T: Number> Operands<T> {
    fn new(problem: &Problem) -> Self {
        let [rows, cols] = problem.shape;
        let mut rng = StdRng::seed_from_u64((rows * 31 + cols) as u64);
        let mut numbers = |len: usize, of: &dyn Fn(usize, f32) -> f32| -> Vec<T> {
            (0..len).map(|i| T::nearest(of(i, rng.random_range(-1.0f32..1.0)))).collect()
        };
        let len = rows * (cols + problem.gap);
        let of_row = |i: usize, x: f32| match problem.values {
            Values::Ordinary => x,
            Values::Offset => 100.0 + x,
            Values::Constant => 3333.33 + (i / (cols + problem.gap)) as f32,
            Values::Close => 1000.0 + 1e-3 * (i % 16) as f32,
        };
        let operands = Self {
            problem: *problem,
            epsilon: EPSILON,
            inp: numbers(len, &of_row),
            residual: numbers(len, &|_, x| x),
            weight: numbers(cols, &|_, x| x),
            bias: numbers(cols, &|_, x| x),
            d_out: numbers(len, &|_, x| x),
            d_sum: numbers(len, &|_, x| x),
            mean: Vec::new(),
            rstd: Vec::new(),
        };
        operands.with_statistics()
    }

    /// Matrices without gaps, and epsilon: input, residual, weight, bias, and the gradients of output and sum.
    pub fn dense(
        shape: [usize; 2],
        (is_centred, epsilon): (bool, f32),
        [inp, residual, weight, bias, d_out, d_sum]: [Vec<T>; 6],
    ) -> Self {
        let problem = Problem { shape, is_centred, has_all: true, ..PLAIN };
        let (mean, rstd) = Default::default();
        Self { problem, epsilon, inp, residual, weight, bias, d_out, d_sum, mean, rstd }.with_statistics()
    }

    fn with_statistics(mut self) -> Self {
        let rows = 0..self.problem.shape[0];
        let statistics = rows.map(|row| self.statistics(&self.row(&self.inp, row)));
        (self.mean, self.rstd) = statistics.map(|[mean, rstd]| (mean as f32, rstd as f32)).unzip();
        self
    }

    /// A row of a matrix.
    fn row(&self, matrix: &[T], row: usize) -> Vec<f64> {
        let cols = self.problem.shape[1];
        let first = row * (cols + self.problem.gap);
        matrix[first..first + cols].iter().map(|x| x.value().into()).collect()
    }

    /// The normalised row in the forward pass.
    fn sum(&self, row: usize) -> Vec<f64> {
        let inp = self.row(&self.inp, row);
        if !self.problem.has_all {
            return inp;
        }
        let pairs = inp.into_iter().zip(self.row(&self.residual, row));
        pairs.map(|(x, residual)| T::nearest((x + residual) as f32).value().into()).collect()
    }

    /// Mean and `1 / sqrt(variance + epsilon)`.
    fn statistics(&self, x: &[f64]) -> [f64; 2] {
        let len = x.len() as f64;
        let mean = if self.problem.is_centred { x.iter().sum::<f64>() / len } else { 0.0 };
        let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / len;
        [mean, 1.0 / (variance + f64::from(self.epsilon)).sqrt()]
    }

    fn weight_of(&self, col: usize) -> f64 {
        if self.problem.has_all { self.weight[col].value().into() } else { 1.0 }
    }

    /// Where the matrices are stored.
    fn place(&self) -> Place {
        Place::matrix(self.problem.shape, self.problem.gap, 0)
    }

    fn forward(&self, device: &Device, kernel: &'static str) -> Result<Outputs> {
        let Problem { shape, is_centred, has_all, .. } = self.problem;
        let (place, [rows, _]) = (self.place(), shape);
        let (inp, residual) = (device.upload(&self.inp)?, device.upload(&self.residual)?);
        let (weight, bias) = (device.upload(&self.weight)?, device.upload(&self.bias)?);
        let (mut out, mut sum) = (place.output(device, UNTOUCHED)?, place.output(device, UNTOUCHED)?);
        let [mut mean, mut rstd] = [device.alloc_zeroed::<f32>(rows)?, device.alloc_zeroed::<f32>(rows)?];
        let to = place.view_mut::<_, 2>(&mut out)?;
        let mut norm = if is_centred { Norm::layer() } else { Norm::rms() }.epsilon(EPSILON);
        let mut outputs = norm::Outputs::new(to).mean(&mut mean).rstd(&mut rstd);
        if has_all {
            norm = norm.weight(&weight).bias(&bias).residual(place.view::<_, 2>(&residual)?);
            outputs = outputs.sum(place.view_mut::<_, 2>(&mut sum)?);
        }
        let (limits, multiprocessors) = (device.limits(), device.multiprocessors());
        let is_aligned = self.problem.is_aligned::<T>();
        let mut choices = Forward::choices(limits, multiprocessors, shape, is_aligned);
        let by = choices.find(|by| by.meta().name == kernel).expect("the kernel is one of them");
        norm.run_by(device, outputs, place.view::<_, 2>(&inp)?, Some(by))?;
        let mut outputs = vec![
            ("out", place.read(&out, UNTOUCHED)?),
            ("mean", wide(&mean.to_vec()?)),
            ("rstd", wide(&rstd.to_vec()?)),
        ];
        if has_all {
            outputs.push(("sum", place.read(&sum, UNTOUCHED)?));
        }
        Ok(outputs)
    }

    /// The expected results: `out`, `mean`, `rstd` and, with all operands, `sum`.
    pub fn expected_forward(&self) -> Expected {
        let Problem { shape: [rows, cols], has_all, .. } = self.problem;
        let [mut out, mut means, mut rstds, mut sums] = [const { Vec::new() }; 4];
        let roundings = 128.0 * ROUNDING;
        for row in 0..rows {
            let x = self.sum(row);
            let [mean, rstd] = self.statistics(&x);
            let distance = |from: f64| x.iter().map(|x| (x - from).abs()).sum::<f64>() / cols as f64;
            let [size, spread] = [0.0, mean].map(distance);
            // The first mean is off by the roundings of a sum. The differences to it correct it, up to their own roundings. The
            // variance is the mean of their squares, minus the square of the correction.
            let off_first = if self.problem.is_centred { roundings * size } else { 0.0 };
            let off_mean = 2.0 * ROUNDING * mean.abs() + roundings * (spread + off_first);
            let off_variance = 4.0 * roundings * off_first * off_first;
            let off_rstd = roundings + off_variance * rstd * rstd;
            means.push(Bound::near(mean, off_mean + ROUNDING * mean.abs()));
            rstds.push(Bound::near(rstd, (off_rstd + 4.0 * ROUNDING) * rstd));
            for (col, &x) in x.iter().enumerate() {
                let bias: f64 = if has_all { self.bias[col].value().into() } else { 0.0 };
                let weight = self.weight_of(col);
                let scaled = (x - mean) * rstd * weight;
                let off = weight.abs() * rstd * off_mean
                    + scaled.abs() * (off_rstd + 8.0 * ROUNDING)
                    + 4.0 * ROUNDING * bias.abs();
                out.push(stored::<T>(scaled + bias, off));
                sums.push(Bound::exact(x));
            }
        }
        let mut expected = vec![("out", out), ("mean", means), ("rstd", rstds)];
        if has_all {
            expected.push(("sum", sums));
        }
        expected
    }

    fn backward(&self, device: &Device, kernel: &'static str) -> Result<Outputs> {
        let Problem { shape, gap, is_centred, has_all, .. } = self.problem;
        let (place, [_, cols]) = (self.place(), shape);
        let read = |matrix: &[T]| device.upload(matrix);
        let (inp, d_out, d_sum) = (read(&self.inp)?, read(&self.d_out)?, read(&self.d_sum)?);
        let weight = read(&self.weight)?;
        let (mean, rstd) = (device.upload(&self.mean)?, device.upload(&self.rstd)?);
        let mut d_inp = place.output(device, UNTOUCHED)?;
        let [mut d_weight, mut d_bias] = [device.alloc_zeroed::<T>(cols)?, device.alloc_zeroed::<T>(cols)?];
        let to = place.view_mut::<_, 2>(&mut d_inp)?;
        let (mut norm, statistics) = match is_centred {
            true => (Norm::layer(), Statistics::layer(&mean, &rstd)),
            false => (Norm::rms(), Statistics::rms(&rstd)),
        };
        let mut outputs = GradientOutputs::new(to).weight(&mut d_weight);
        if has_all {
            norm = norm.weight(&weight).sum_gradient(place.view::<_, 2>(&d_sum)?);
            outputs = outputs.bias(&mut d_bias);
        }
        let mut choices =
            Backward::choices(device.limits(), shape, [gap == 0, true, self.problem.is_aligned::<T>()]);
        let by = choices.find(|by| by.meta().name == kernel).expect("the kernel is one of them");
        let (d_out, inp) = (place.view::<_, 2>(&d_out)?, place.view::<_, 2>(&inp)?);
        norm.run_backward_by(device, outputs, d_out, inp, statistics, Some(by))?;
        let mut outputs =
            vec![("d_inp", place.read(&d_inp, UNTOUCHED)?), ("d_weight", wide(&d_weight.to_vec()?))];
        if has_all {
            outputs.push(("d_bias", wide(&d_bias.to_vec()?)));
        }
        Ok(outputs)
    }

    /// The expected gradients: `d_inp`, `d_weight` and, with all operands, `d_bias`.
    pub fn expected_backward(&self) -> Expected {
        let Problem { shape: [rows, cols], is_centred, has_all, .. } = self.problem;
        let mut d_inp = Vec::new();
        // Sums, with the sums of their terms' absolute values.
        let mut d_weight = vec![[0.0; 2]; cols];
        let mut d_bias = d_weight.clone();
        let along_row = (64 + cols) as f64 * ROUNDING;
        for row in 0..rows {
            let (mean, rstd) = (f64::from(self.mean[row]), f64::from(self.rstd[row]));
            let mean = if is_centred { mean } else { 0.0 };
            let x: Vec<f64> = self.row(&self.inp, row).iter().map(|x| (x - mean) * rstd).collect();
            let d_out = self.row(&self.d_out, row);
            let d_sum = self.row(&self.d_sum, row);
            let g: Vec<f64> = (0..cols).map(|col| d_out[col] * self.weight_of(col)).collect();
            let of = |term: &dyn Fn(usize) -> f64| (0..cols).map(term).sum::<f64>() / cols as f64;
            let [with_x, size_with_x] = [of(&|col| g[col] * x[col]), of(&|col| (g[col] * x[col]).abs())];
            let [alone, size_alone] = [of(&|col| g[col]), of(&|col| g[col].abs())];
            let alone = if is_centred { alone } else { 0.0 };
            for col in 0..cols {
                let other = if has_all { d_sum[col] } else { 0.0 };
                let value = rstd * (g[col] - x[col] * with_x - alone) + other;
                let size = g[col].abs() + (x[col] * with_x).abs() + alone.abs();
                let off_sums = along_row * (x[col].abs() * size_with_x + size_alone);
                let off = rstd * (off_sums + 16.0 * ROUNDING * size) + 4.0 * ROUNDING * other.abs();
                d_inp.push(stored::<T>(value, off));
                for (sum, term) in [(&mut d_weight[col], d_out[col] * x[col]), (&mut d_bias[col], d_out[col])]
                {
                    *sum = [sum[0] + term, sum[1] + term.abs()];
                }
            }
        }
        let along_column = (64 + rows) as f64 * ROUNDING;
        let gradients = |sums: Vec<[f64; 2]>| {
            sums.into_iter().map(|[sum, size]| stored::<T>(sum, along_column * size)).collect()
        };
        let mut expected = vec![("d_inp", d_inp), ("d_weight", gradients(d_weight))];
        if has_all {
            expected.push(("d_bias", gradients(d_bias)));
        }
        expected
    }
}

/// The expected value of a result that may be off by `off` before it is rounded.
fn stored<T: Number>(value: f64, off: f64) -> Bound {
    Bound::rounded::<T>(value, off + f64::from(f32::MIN_POSITIVE))
}

/// The cases of a problem, forward and backward, one for every kernel that supports it.
fn of_type<T: Number>(problem: &Problem, setting: &Setting) -> Vec<Case> {
    let (of, limits, multiprocessors) = (*problem, &setting.profile.limits, setting.profile.multiprocessors);
    let operands = Arc::new(Operands::<T>::new(problem));
    let cols = of.shape[1];
    // Miri takes minutes for a thousand threads. Long rows are slow; in small cases only clusters need them.
    let is_small = |name: &&'static str| {
        (setting.scope != Scope::Tiny || name.ends_with("_serial") || name.contains("_32x"))
            && (setting.scope != Scope::Small || cols < 8192 || name.ends_with("_cluster"))
    };
    let words = move |_: &_| {
        let Problem { shape: [rows, cols], gap, is_centred, has_all, values, .. } = of;
        let kind = if is_centred { "layer" } else { "rms" };
        let all = if has_all { ", all operands" } else { "" };
        format!("{kind} {rows} x {cols}, gap {gap}, {values:?}{all}")
    };
    let mut cases = Vec::new();
    let forward = Forward::<T>::choices(limits, multiprocessors, of.shape, of.is_aligned::<T>());
    for name in forward.map(|by| by.meta().name).filter(is_small) {
        let run = move |of: &Operands<T>, device: &Device| of.forward(device, name);
        cases.push(Case::of(&operands, vec![name], words, run, Operands::expected_forward));
    }
    let backward = Backward::<T>::choices(limits, of.shape, [of.gap == 0, true, of.is_aligned::<T>()]);
    for name in backward.map(|by| by.meta().name).filter(is_small) {
        let run = move |of: &Operands<T>, device: &Device| of.backward(device, name);
        let columns = [("_serial", Blocks::Serial), ("_wide", Blocks::Wide)].into_iter();
        let columns = columns
            .filter(|(end, _)| name.ends_with(end))
            .map(|(_, blocks)| <T as NormKernels>::columns(blocks).meta.name);
        let sum_parts = Some(T::SUM_PARTS.meta.name).filter(|_| !name.contains("_few"));
        let kernels = [name].into_iter().chain(columns).chain(sum_parts).collect();
        cases.push(Case::of(&operands, kernels, words, run, Operands::expected_backward));
    }
    cases
}
