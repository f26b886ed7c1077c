//! RMSNorm and LayerNorm with a weight, LayerNorm also with a bias, and their gradients.

use ferrowarp::Error;
use ferrowarp::device::{Buffer, Device};
use ferrowarp::norm::{
    Backward as BackwardBy, Forward as ForwardBy, GradientOutputs, Norm, Outputs, Statistics,
};
use ferrowarp_cases::norm::Operands;
use ferrowarp_cases::place::Place;
use ferrowarp_cases::random::bench::Operation as Drawn;
use ferrowarp_cases::reference::Number;

use super::Operation;
use super::operands::{Operand, Values, read, some};
use super::softmax::elements;
use crate::timed::{self, normal};

/// Rows whose results are checked.
const CHECKED: usize = 12;

/// The forward pass.
pub struct Forward<T> {
    device: Device,
    is_centred: bool,
    inp: Operand<T>,
    out: Place,
    residual: Option<(Operand<T>, Place)>,
    weight: Vec<T>,
}

/// The operands and results of [`Forward`].
pub struct Set<T> {
    inp: Buffer<T>,
    residual: Option<Buffer<T>>,
    weight: Buffer<T>,
    out: Buffer<T>,
    sum: Buffer<T>,
}

fn norm<T: Number>(is_centred: bool, weight: &Buffer<T>) -> Norm<'_, T> {
    if is_centred { Norm::layer().weight(weight).bias(weight) } else { Norm::rms().weight(weight) }
}

/// The oracle of a row.
fn row_of<T: Number>(is_centred: bool, weight: &[T], [inp, residual, d_out]: [Vec<T>; 3]) -> Operands<T> {
    let zeros = || vec![T::nearest(0.0); inp.len()];
    let bias = if is_centred { weight.to_vec() } else { zeros() };
    let residual = if residual.is_empty() { zeros() } else { residual };
    let (len, d_sum, d_out) = (inp.len(), zeros(), if d_out.is_empty() { zeros() } else { d_out });
    let epsilon = if is_centred { 1e-5 } else { 1e-6 };
    Operands::dense([1, len], (is_centred, epsilon), [inp, residual, weight.to_vec(), bias, d_out, d_sum])
}

/// Whether rows start at multiples of 16 bytes.
fn is_aligned<T>(places: &[&Place]) -> bool {
    let unit = 16 / size_of::<T>();
    places
        .iter()
        .all(|place| [place.first, place.strides[2], place.shape[3]].iter().all(|at| at.is_multiple_of(unit)))
}

impl<T: Number> Forward<T> {
    pub fn new(device: &Device, drawn: &Drawn) -> anyhow::Result<Self> {
        let Drawn::Norm { centred, inp, out, residual, sum } = drawn else {
            unreachable!("the caller matched it")
        };
        let residual = residual.as_ref().zip(sum.as_ref()).map(|(residual, sum)| {
            Ok::<_, Error>((Operand::new(device, residual, Values::Normal, 2)?, sum.clone()))
        });
        Ok(Self {
            device: device.clone(),
            is_centred: *centred,
            weight: normal(inp.shape[3], 3),
            inp: Operand::new(device, inp, Values::Normal, 1)?,
            out: out.clone(),
            residual: residual.transpose()?,
        })
    }
}

impl<T: Number> Operation for Forward<T> {
    type Set = Set<T>;
    type By = ForwardBy<T>;

    fn bytes(&self) -> usize {
        let matrices = if self.residual.is_some() { 4 } else { 2 };
        matrices * elements(&self.out) * size_of::<T>()
    }

    fn set(&self) -> anyhow::Result<Set<T>> {
        let Self { device, inp, out, residual, weight, .. } = self;
        Ok(Set {
            inp: inp.buffer(device)?,
            residual: residual.as_ref().map(|(residual, _)| residual.buffer(device)).transpose()?,
            weight: device.upload(weight)?,
            out: device.alloc_zeroed(out.len)?,
            sum: device.alloc_zeroed(residual.as_ref().map_or(0, |(_, sum)| sum.len))?,
        })
    }

    fn run(&self, device: &Device, set: &mut Set<T>, by: Option<Self::By>) -> Result<(), Error> {
        let Set { inp, residual, weight, out, sum } = set;
        let mut norm = norm(self.is_centred, weight);
        if !self.is_centred {
            norm = norm.epsilon(1e-6);
        }
        let mut outputs = Outputs::new(self.out.view_mut::<_, 2>(out)?);
        if let Some(((of_residual, of_sum), residual)) = self.residual.as_ref().zip(residual.as_ref()) {
            norm = norm.residual(of_residual.place.view::<_, 2>(residual)?);
            outputs = outputs.sum(of_sum.view_mut::<_, 2>(sum)?);
        }
        norm.run_by(device, outputs, self.inp.place.view::<_, 2>(inp)?, by)
    }

    fn choices(&self) -> Vec<(String, Self::By)> {
        let [.., rows, cols] = self.out.shape;
        let mut places = vec![&self.inp.place, &self.out];
        places.extend(self.residual.iter().flat_map(|(residual, sum)| [&residual.place, sum]));
        let (limits, multiprocessors) = (self.device.limits(), self.device.multiprocessors());
        let all = ForwardBy::choices(limits, multiprocessors, [rows, cols], is_aligned::<T>(&places));
        all.map(|by| (by.meta().name.to_owned(), by)).collect()
    }

    fn check(&self, set: &Set<T>) -> anyhow::Result<f64> {
        let (mut got, mut bounds) = (Vec::new(), Vec::new());
        for row in some(self.out.shape[2], CHECKED) {
            let residual = self.residual.as_ref().map(|(residual, _)| residual.row([0, 0, row]));
            let inputs = [self.inp.row([0, 0, row]), residual.unwrap_or_default(), Vec::new()];
            bounds.extend(row_of(self.is_centred, &self.weight, inputs).expected_forward().remove(0).1);
            got.extend(read(&set.out, &self.out, [0, 0, row])?);
        }
        timed::check("result", &got, &bounds)
    }
}

/// The gradients of the input, the weight and the bias.
pub struct Backward<T> {
    device: Device,
    is_centred: bool,
    inp: Operand<T>,
    d_out: Operand<T>,
    d_inp: Place,
    weight: Vec<T>,
}

/// The operands and results of [`Backward`].
pub struct GradientSet<T> {
    inp: Buffer<T>,
    d_out: Buffer<T>,
    weight: Buffer<T>,
    mean: Buffer<f32>,
    rstd: Buffer<f32>,
    d_inp: Buffer<T>,
    d_weight: Buffer<T>,
    d_bias: Buffer<T>,
}

impl<T: Number> Backward<T> {
    pub fn new(device: &Device, drawn: &Drawn) -> anyhow::Result<Self> {
        let Drawn::NormBackward { centred, inp, d_out, d_inp } = drawn else {
            unreachable!("the caller matched it")
        };
        Ok(Self {
            device: device.clone(),
            is_centred: *centred,
            weight: normal(inp.shape[3], 3),
            inp: Operand::new(device, inp, Values::Normal, 1)?,
            d_out: Operand::new(device, d_out, Values::Normal, 2)?,
            d_inp: d_inp.clone(),
        })
    }
}

impl<T: Number> Operation for Backward<T> {
    type Set = GradientSet<T>;
    type By = BackwardBy<T>;

    fn bytes(&self) -> usize {
        3 * elements(&self.d_inp) * size_of::<T>()
    }

    fn set(&self) -> anyhow::Result<GradientSet<T>> {
        let Self { device, inp, d_out, d_inp, weight, .. } = self;
        let [.., rows, cols] = d_inp.shape;
        let mut set = GradientSet {
            inp: inp.buffer(device)?,
            d_out: d_out.buffer(device)?,
            weight: device.upload(weight)?,
            mean: device.alloc_zeroed(rows)?,
            rstd: device.alloc_zeroed(rows)?,
            d_inp: device.alloc_zeroed(d_inp.len)?,
            d_weight: device.alloc_zeroed(cols)?,
            d_bias: device.alloc_zeroed(cols)?,
        };
        let GradientSet { inp: on_inp, weight, mean, rstd, d_inp: out, .. } = &mut set;
        let mut norm = norm(self.is_centred, weight);
        if !self.is_centred {
            norm = norm.epsilon(1e-6);
        }
        let mut outputs = Outputs::new(d_inp.view_mut::<_, 2>(out)?).rstd(rstd);
        if self.is_centred {
            outputs = outputs.mean(mean);
        }
        norm.run_into(device, outputs, inp.place.view::<_, 2>(on_inp)?)?;
        Ok(set)
    }

    fn run(&self, device: &Device, set: &mut GradientSet<T>, by: Option<Self::By>) -> Result<(), Error> {
        let GradientSet { inp, d_out, weight, mean, rstd, d_inp, d_weight, d_bias } = set;
        let (inp, d_out) = (self.inp.place.view::<_, 2>(inp)?, self.d_out.place.view::<_, 2>(d_out)?);
        let outputs = GradientOutputs::new(self.d_inp.view_mut::<_, 2>(d_inp)?).weight(d_weight);
        let (mean, rstd) = (&*mean, &*rstd);
        if self.is_centred {
            let (norm, statistics) = (Norm::layer().weight(&*weight), Statistics::layer(mean, rstd));
            norm.run_backward_by(device, outputs.bias(d_bias), d_out, inp, statistics, by)
        } else {
            let norm = Norm::rms().weight(&*weight);
            norm.run_backward_by(device, outputs, d_out, inp, Statistics::rms(rstd), by)
        }
    }

    fn choices(&self) -> Vec<(String, Self::By)> {
        let [.., rows, cols] = self.d_inp.shape;
        let places = [&self.inp.place, &self.d_out.place, &self.d_inp];
        let unit = 16 / size_of::<T>();
        let is_dense =
            places.iter().all(|place| place.strides[2] == place.shape[3] && place.first.is_multiple_of(unit));
        let all = BackwardBy::choices(
            self.device.limits(),
            [rows, cols],
            [is_dense, true, is_aligned::<T>(&places)],
        );
        all.map(|by| (by.meta().name.to_owned(), by)).collect()
    }

    fn check(&self, set: &GradientSet<T>) -> anyhow::Result<f64> {
        let (mut got, mut bounds) = (Vec::new(), Vec::new());
        for row in some(self.d_inp.shape[2], CHECKED) {
            let inputs = [self.inp.row([0, 0, row]), Vec::new(), self.d_out.row([0, 0, row])];
            bounds.extend(row_of(self.is_centred, &self.weight, inputs).expected_backward().remove(0).1);
            got.extend(read(&set.d_inp, &self.d_inp, [0, 0, row])?);
        }
        timed::check("gradient", &got, &bounds)
    }
}
