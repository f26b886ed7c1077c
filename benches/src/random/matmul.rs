//! Matrix multiplications.

use ferrowarp::device::{Buffer, Device};
use ferrowarp::matmul::{Activation, KernelChoice, Matmul as Call, Precision, Problem};
use ferrowarp::{DeviceProfile, Error, TensorView};
use ferrowarp_cases::matmul::oracle::{Ends, bound};
use ferrowarp_cases::place::Place;
use ferrowarp_cases::random::bench::{self, Operation as Drawn, Type};
use ferrowarp_cases::reference::{Number, Sum};

use super::Operation;
use super::operands::{Operand, Values, start};
use super::softmax::elements;
use crate::timed::{self, normal};

/// The largest estimate of choices that are timed, as a multiple of the smallest.
const MOST_ESTIMATE: f64 = 2.0;
/// The numbers of splits that are timed.
const SPLITS: [u32; 11] = [1, 2, 3, 4, 5, 6, 8, 12, 16, 23, 32];
/// Results that are checked.
const CHECKED: usize = 64;

/// A multiplication, and what follows it.
pub struct Matmul<T> {
    device: Device,
    ty: Type,
    problem: Problem,
    a: Operand<T>,
    b: Operand<T>,
    are_transposed: [bool; 2],
    out: Place,
    bias: Option<Vec<T>>,
    residual: Option<Operand<T>>,
    activation: Activation,
}

/// The operands and results of one launch.
#[allow(missing_docs, reason = "the names say it")]
pub struct Set<T> {
    pub a: Buffer<T>,
    pub b: Buffer<T>,
    bias: Option<Buffer<T>>,
    residual: Option<Buffer<T>>,
    pub out: Buffer<T>,
}

/// A matrix, or a batch of them.
fn view<'a, T: Number>(place: &Place, buffer: &'a Buffer<T>) -> Result<TensorView<'a, T>, Error> {
    if place.shape[1] == 1 { place.view::<_, 2>(buffer) } else { place.view::<_, 3>(buffer) }
}

impl<T: Number> Matmul<T> {
    /// # Errors
    /// There is not enough memory, or the device failed.
    ///
    /// # Panics
    /// The problem is another operation.
    pub fn new(device: &Device, problem: &bench::Problem) -> anyhow::Result<Self> {
        let Drawn::Matmul { a, b, out, bias, residual, activation } = &problem.operation else {
            unreachable!("the caller matched it")
        };
        let residual = residual.as_ref().map(|place| Operand::new(device, place, Values::Normal, 4));
        Ok(Self {
            device: device.clone(),
            ty: problem.dtype,
            problem: self::problem(problem),
            a: Operand::new(device, &a.place, Values::Normal, 1)?,
            b: Operand::new(device, &b.place, Values::Normal, 2)?,
            are_transposed: [a.transposed, b.transposed],
            out: out.clone(),
            bias: bias.then(|| normal(out.shape[3], 3)),
            residual: residual.transpose()?,
            activation: match activation {
                bench::Activation::None => Activation::None,
                bench::Activation::Relu => Activation::Relu,
                bench::Activation::Gelu => Activation::Gelu,
            },
        })
    }

    /// The kernels that can do it, with the cycles of the model that chooses, the best first.
    pub fn ranked(&self) -> Vec<(KernelChoice<T>, f64)> {
        KernelChoice::ranked(&DeviceProfile::from(&self.device), &self.problem)
    }
}

/// The problem that the kernel is chosen for.
///
/// # Panics
/// The problem is another operation.
pub fn problem(drawn: &bench::Problem) -> Problem {
    let Drawn::Matmul { a, b, out, residual, .. } = &drawn.operation else {
        unreachable!("the caller matched it")
    };
    let [_, batch, m, n] = out.shape;
    let bytes = drawn.dtype.bytes();
    // A single row counts as one at 128 bytes.
    let is_multiple = |place: &Place, of: usize| {
        let is = |at: usize| (at * bytes).is_multiple_of(of);
        let has_matrices = of == 128 || is(place.first) && (batch == 1 || is(place.strides[1]));
        has_matrices && (place.shape[2] == 1 || is(place.strides[2]))
    };
    let stored = [&a.place, &b.place];
    let first = Place { shape: [1; 4], ..b.place.clone() };
    Problem {
        b_folds: is_multiple(&first, 16),
        batch: batch as u32,
        a_is_transposed: a.transposed,
        b_is_transposed: b.transposed,
        precision: if drawn.dtype == Type::Tf32 { Precision::Tf32 } else { Precision::F32 },
        is_aligned: stored.map(|place| is_multiple(place, 16)),
        has_whole_lines: stored.map(|place| is_multiple(place, 128)),
        out_is_aligned: is_multiple(out, 4 * bytes),
        has_residual: residual.is_some(),
        ..Problem::new(m as u32, n as u32, a.place.shape[if a.transposed { 2 } else { 3 }] as u32)
    }
}

impl<T: Number> Operation for Matmul<T> {
    type Set = Set<T>;
    type By = KernelChoice<T>;

    fn bytes(&self) -> usize {
        let residual = self.residual.as_ref().map(|residual| &residual.place);
        let all = [Some(&self.a.place), Some(&self.b.place), Some(&self.out), residual];
        all.into_iter().flatten().map(elements).sum::<usize>() * size_of::<T>()
    }

    fn set(&self) -> anyhow::Result<Set<T>> {
        let device = &self.device;
        Ok(Set {
            a: self.a.buffer(device)?,
            b: self.b.buffer(device)?,
            bias: self.bias.as_ref().map(|bias| device.upload(bias)).transpose()?,
            residual: self.residual.as_ref().map(|residual| residual.buffer(device)).transpose()?,
            out: device.alloc_zeroed(self.out.len)?,
        })
    }

    fn run(&self, device: &Device, set: &mut Set<T>, by: Option<Self::By>) -> Result<(), Error> {
        let mut call = Call::new().precision(self.problem.precision).activation(self.activation);
        if let Some(bias) = &set.bias {
            call = call.bias(bias);
        }
        if let Some((operand, residual)) = self.residual.as_ref().zip(set.residual.as_ref()) {
            call = call.residual(view(&operand.place, residual)?);
        }
        let [of_a, of_b] = self.are_transposed;
        let (a, b) = (view(&self.a.place, &set.a)?, view(&self.b.place, &set.b)?);
        let (a, b) = (if of_a { a.t() } else { a }, if of_b { b.t() } else { b });
        let out = match self.out.shape[1] {
            1 => self.out.view_mut::<_, 2>(&mut set.out)?,
            _ => self.out.view_mut::<_, 3>(&mut set.out)?,
        };
        call.run_by(device, out, a, b, by)
    }

    fn choices(&self) -> Vec<(String, Self::By)> {
        let chosen = KernelChoice::new(&DeviceProfile::from(&self.device), &self.problem).into_iter();
        let ranked = self.ranked();
        let most = ranked.first().map_or(0.0, |(_, estimate)| MOST_ESTIMATE * estimate);
        let some = ranked
            .into_iter()
            .filter(|(choice, estimate)| SPLITS.contains(&choice.splits()) && *estimate < most);
        let some = some.map(|(choice, _)| choice);
        chosen.chain(some).map(|choice| (choice.to_string(), choice)).collect()
    }

    fn check(&self, set: &Set<T>) -> anyhow::Result<f64> {
        let ([_, batch, m, n], k) = (self.out.shape, self.problem.k as usize);
        let operand_error = match self.ty {
            // Operands may be truncated instead of rounded.
            Type::Tf32 => 2f64.powi(-9),
            Type::F32 => 3.0 * 2f64.powi(-22),
            Type::Bf16 | Type::F16 => 0.0,
        };
        let [of_a, of_b] = self.are_transposed;
        let at = |operand: &Operand<T>, matrix: usize, [row, col]: [usize; 2]| {
            operand.value(start(&operand.place, [0, matrix, row]) + col)
        };
        let (mut got, mut bounds) = (Vec::new(), Vec::new());
        for i in 0..CHECKED {
            let i = i * (batch * m * n - 1) / (CHECKED - 1);
            let (matrix, row, col) = (i / (m * n), i / n % m, i % n);
            let term = |term: usize| {
                let a = at(&self.a, matrix, if of_a { [term, row] } else { [row, term] });
                let b = at(&self.b, matrix, if of_b { [col, term] } else { [term, col] });
                a * b
            };
            let sum = (0..k).map(term).fold(Sum::default(), Sum::and);
            let bias = self.bias.as_ref().map_or(0.0, |bias| bias[col].value().into());
            let residual = self.residual.as_ref().map_or(0.0, |residual| at(residual, matrix, [row, col]));
            let ends = Ends { scale: 1.0, bias, residual, activation: self.activation };
            bounds.push(bound::<T>(k, sum, operand_error, ends));
            let index = start(&self.out, [0, matrix, row]) + col;
            got.extend(set.out.view(index..=index)?.to_vec()?);
        }
        timed::check("result", &got, &bounds)
    }
}
