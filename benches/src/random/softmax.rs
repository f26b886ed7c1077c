//! Softmax and its relatives.

use anyhow::{Context as _, ensure};
use cuda_std::testing::Layout;
use ferrowarp::device::{Buffer, Device};
use ferrowarp::softmax::KernelChoice;
use ferrowarp::softmax::cross_entropy::Outputs as Losses;
use ferrowarp::{CrossEntropy, DeviceProfile, Error, Sample, Softmax, TensorViewMut, TopK};
use ferrowarp_cases::compare::{Expected, Outputs, compare_all};
use ferrowarp_cases::place::Place;
use ferrowarp_cases::random::bench::Operation as Drawn;
use ferrowarp_cases::reference::{Draw, Number, RELATIVE, relative_one_after_the_other, softmax_bounds};
use ferrowarp_cases::softmax::{Rowwise as _, backward, cross_entropy, top_k};
use gpu_kernels::softmax::sample::Noise;

use super::Operation;
use super::operands::{Operand, Values, read, some};
use crate::timed;

/// Rows whose results are checked.
const CHECKED: usize = 12;
/// The seed of the draws.
const SEED: u64 = 42;
/// The number of the draw, the same for all launches.
const DRAW: u64 = 7;

/// A softmax, or its logarithm.
pub struct Forward<T> {
    device: Device,
    softmax: Softmax,
    inp: Operand<T>,
    out: Place,
    /// The bound of the error of a row's sum, relative to it.
    relative: f64,
}

impl<T: Number> Forward<T> {
    /// # Errors
    /// There is not enough memory, or the device failed.
    pub fn new(device: &Device, drawn: &Drawn) -> anyhow::Result<Self> {
        let Drawn::Softmax { log, inp, out } = drawn else { unreachable!("the caller matched it") };
        let softmax = if *log { Softmax::new().log() } else { Softmax::new() };
        let inp = Operand::new(device, inp, Values::Logits, 1)?;
        Ok(Self { device: device.clone(), softmax, inp, out: out.clone(), relative: RELATIVE })
    }

    /// The same, for kernels that add up a row with one thread.
    pub fn added_up_one_after_the_other(self) -> Self {
        Self { relative: relative_one_after_the_other(self.out.shape[3]), ..self }
    }
}

impl<T: Number> Operation for Forward<T> {
    type Set = [Buffer<T>; 2];
    type By = KernelChoice<T>;

    fn bytes(&self) -> usize {
        2 * elements(&self.out) * size_of::<T>()
    }

    fn set(&self) -> anyhow::Result<Self::Set> {
        Ok([self.inp.buffer(&self.device)?, self.device.alloc_zeroed(self.out.len)?])
    }

    fn run(&self, device: &Device, set: &mut Self::Set, by: Option<Self::By>) -> Result<(), Error> {
        let [inp, out] = set;
        let (out, inp) = (self.out.view_mut::<_, 2>(out)?, self.inp.place.view::<_, 2>(inp)?);
        self.softmax.run_by(device, out, inp, by)
    }

    fn choices(&self) -> Vec<(String, Self::By)> {
        let [.., rows, cols] = self.out.shape;
        let profile = DeviceProfile::from(&self.device);
        let chosen = KernelChoice::new(&profile, rows, cols).into_iter();
        let every = KernelChoice::every(&profile, rows, cols).unwrap_or_default();
        let named = chosen.chain(every).map(|choice| {
            let names: Vec<&str> = choice.kernels().map(|kernel| kernel.name).collect();
            let parts = choice.parts();
            let end = if parts > 1 { format!(" ({parts} parts)") } else { String::new() };
            (names.join(" + ") + &end, choice)
        });
        named.collect()
    }

    fn check(&self, [_, out]: &Self::Set) -> anyhow::Result<f64> {
        let [.., rows, cols] = self.out.shape;
        let (mut got, mut bounds) = (Vec::new(), Vec::new());
        for row in some(rows, CHECKED) {
            let inp: Vec<f32> = self.inp.row([0, 0, row]).iter().map(|x| x.value()).collect();
            bounds.extend(softmax_bounds::<T>(&inp, cols, &self.softmax, self.relative));
            got.extend(read(out, &self.out, [0, 0, row])?);
        }
        timed::check("result", &got, &bounds)
    }
}

/// The operations on rows whose kernels are not compared.
pub(super) struct Other<T> {
    device: Device,
    drawn: Drawn,
    /// The logits, or the result of the forward pass.
    inp: Operand<T>,
    dy: Option<Operand<T>>,
    /// The gradient.
    out: Option<Place>,
    targets: Vec<i64>,
}

/// The operands and results of [`Other`].
pub(super) struct Set<T> {
    inp: Buffer<T>,
    dy: Option<Buffer<T>>,
    out: Buffer<T>,
    targets: Buffer<i64>,
    /// Losses or probabilities.
    numbers: Buffer<f32>,
    /// Columns.
    indices: Buffer<u32>,
}

impl<T: Number> Other<T> {
    pub fn new(device: &Device, drawn: &Drawn) -> anyhow::Result<Self> {
        let (inp, values, dy, out) = match drawn {
            Drawn::SoftmaxBackward { log: true, y, dy, dx } => {
                (y, Values::LogProbabilities, Some(dy), Some(dx))
            }
            Drawn::SoftmaxBackward { y, dy, dx, .. } => {
                (y, Values::Probabilities(y.shape[3]), Some(dy), Some(dx))
            }
            Drawn::CrossEntropy { logits, gradient } => (logits, Values::Logits, None, gradient.as_ref()),
            Drawn::TopK { logits, .. } | Drawn::Sample { logits, .. } => (logits, Values::Logits, None, None),
            _ => unreachable!("the caller matched the others"),
        };
        let [.., rows, cols] = inp.shape;
        Ok(Self {
            device: device.clone(),
            drawn: drawn.clone(),
            inp: Operand::new(device, inp, values, 1)?,
            dy: dy.map(|dy| Operand::new(device, dy, Values::Normal, 2)).transpose()?,
            out: out.cloned(),
            targets: (0..rows).map(|row| (row * 7919 % cols) as i64).collect(),
        })
    }

    /// Results of a row that are not of type `T`.
    fn selected(&self) -> usize {
        if let Drawn::TopK { k, .. } = self.drawn { k } else { 1 }
    }

    fn sample(&self) -> Option<(Sample, Draw)> {
        let &Drawn::Sample { temperature, top_k, top_p, .. } = &self.drawn else { return None };
        let noise = Noise { seed: SEED, draw: DRAW, row: 0 };
        let draw = Draw { noise, temperature, top_k: top_k.unwrap_or(0), top_p };
        let sample = Sample::new().seed(SEED).draw(DRAW).temperature(temperature).top_p(top_p);
        Some((top_k.map_or(sample, |k| sample.top_k(k)), draw))
    }

    fn softmax(&self) -> Softmax {
        let is_log = matches!(self.drawn, Drawn::SoftmaxBackward { log: true, .. });
        if is_log { Softmax::new().log() } else { Softmax::new() }
    }
}

impl<T: Number> Operation for Other<T> {
    type Set = Set<T>;
    type By = ();

    fn bytes(&self) -> usize {
        let matrices = 1 + usize::from(self.dy.is_some()) + usize::from(self.out.is_some());
        matrices * elements(&self.inp.place) * size_of::<T>()
    }

    fn set(&self) -> anyhow::Result<Set<T>> {
        let count = self.inp.place.shape[2] * self.selected();
        Ok(Set {
            inp: self.inp.buffer(&self.device)?,
            dy: self.dy.as_ref().map(|dy| dy.buffer(&self.device)).transpose()?,
            out: self.device.alloc_zeroed(self.out.as_ref().map_or(0, |out| out.len))?,
            targets: self.device.upload(&self.targets)?,
            numbers: self.device.alloc_zeroed(count)?,
            indices: self.device.upload(&vec![u32::MAX; count])?,
        })
    }

    fn run(&self, device: &Device, set: &mut Set<T>, _: Option<()>) -> Result<(), Error> {
        let Set { inp, dy, out, targets, numbers, indices } = set;
        let rows = self.inp.place.shape[2];
        let inp = self.inp.place.view::<_, 2>(inp)?;
        if let (Some(of_dy), Some(dy), Some(of_out)) = (&self.dy, dy, &self.out) {
            let dx = of_out.view_mut::<_, 2>(out)?;
            return self.softmax().backward_into(device, dx, of_dy.place.view::<_, 2>(dy)?, inp);
        }
        if let Some((sample, _)) = self.sample() {
            return sample.run_into(device, indices, inp);
        }
        if let Drawn::TopK { k, .. } = self.drawn {
            let numbers = TensorViewMut::new(numbers, [rows, k])?;
            return TopK::new(k).run_into(device, numbers, TensorViewMut::new(indices, [rows, k])?, inp);
        }
        let mut losses = Losses::new(numbers);
        if let Some(of_out) = &self.out {
            losses = losses.gradient(of_out.view_mut::<_, 2>(out)?);
        }
        CrossEntropy::new().gradient_scale(1.0 / rows as f32).run_into(device, losses, inp, &*targets)
    }

    fn check(&self, set: &Set<T>) -> anyhow::Result<f64> {
        let [.., rows, _] = self.inp.place.shape;
        let (mut all, mut of_all) = (Vec::new(), Vec::new());
        for row in some(rows, CHECKED) {
            let (got, expected) = self.row(set, row)?;
            compare_all(&got, &expected).with_context(|| format!("row {row}"))?;
            let counted = got
                .into_iter()
                .zip(expected)
                .filter(|((name, _), _)| ["dx", "gradient", "probabilities", "loss"].contains(name));
            for ((_, got), (_, expected)) in counted {
                all.extend(got.iter().map(|&x| x as f32));
                of_all.extend(expected);
            }
        }
        if all.is_empty() { Ok(0.0) } else { timed::check("result", &all, &of_all) }
    }
}

impl<T: Number> Other<T> {
    /// The results of a row, and the expected ones.
    fn row(&self, set: &Set<T>, row: usize) -> anyhow::Result<(Outputs, Expected)> {
        let [.., rows, cols] = self.inp.place.shape;
        let wide = |row: Vec<T>| -> Vec<f64> { row.into_iter().map(|x| x.to_f64()).collect() };
        let values = |of: &Operand<T>| of.row([0, 0, row]).iter().map(|x| x.value()).collect::<Vec<f32>>();
        let (inp, layout, range) =
            (values(&self.inp), Layout::dense(1, cols), row * self.selected()..(row + 1) * self.selected());
        let out = |name| -> anyhow::Result<Outputs> {
            let Some(of_out) = &self.out else { return Ok(Vec::new()) };
            Ok(vec![(name, wide(read(&set.out, of_out, [0, 0, row])?))])
        };
        if let Some(dy) = &self.dy {
            let (is_log, dy) = (self.softmax().is_log(), values(dy));
            let problem = backward::Backward { layouts: [layout; 3], dy, y: inp, scale: 1.0, is_log };
            return Ok((out("dx")?, problem.expected::<T>()));
        }
        let numbers: Vec<f64> =
            set.numbers.view(range.clone())?.to_vec()?.into_iter().map(f64::from).collect();
        let indices: Vec<f64> = set.indices.view(range)?.to_vec()?.into_iter().map(f64::from).collect();
        if let Some((_, draw)) = self.sample() {
            let draw = Draw { noise: Noise { row: row as u32, ..draw.noise }, ..draw };
            let allowed = draw.tokens(&inp);
            let is_allowed = allowed.iter().any(|&allowed| f64::from(allowed) == indices[0]);
            ensure!(is_allowed, "the token is {}, not one of {allowed:?}", indices[0]);
            return Ok(Default::default());
        }
        if let Drawn::TopK { k, .. } = self.drawn {
            let expected = top_k::TopK::dense(inp, cols, k, Softmax::new()).expected::<T>();
            return Ok((vec![("probabilities", numbers), ("indices", indices)], expected));
        }
        let problem = cross_entropy::CrossEntropy {
            layouts: [layout; 2],
            logits: inp,
            targets: vec![self.targets[row]],
            d_loss: None,
            d_scale: 1.0 / rows as f32,
        };
        let mut expected = problem.expected::<T>();
        expected.retain(|(name, _)| *name == "loss" || *name == "gradient" && self.out.is_some());
        Ok(([vec![("loss", numbers)], out("gradient")?].concat(), expected))
    }
}

/// The elements of a place.
pub(super) fn elements(place: &Place) -> usize {
    place.shape.iter().product()
}
