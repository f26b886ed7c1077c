//! Reductions, cumulative sums and transposes.

use ferrowarp::axis::ScanBy;
use ferrowarp::device::{Buffer, Device};
use ferrowarp::{Cast, CumulativeSum, Error, Reduce, Reduction, TensorViewMut, Transpose};
use ferrowarp_cases::axis::Operand as Oracle;
use ferrowarp_cases::compare::Bound;
use ferrowarp_cases::place::Place;
use ferrowarp_cases::random::bench::{self, Operation as Drawn};
use ferrowarp_cases::reference::Number;

use super::Operation;
use super::operands::{Operand, Values, read, some, start};
use super::softmax::elements;
use crate::timed;

/// Rows or columns whose results are checked.
const CHECKED: usize = 12;

/// One of the operations.
pub struct Axis<T> {
    device: Device,
    kind: Kind,
    inp: Operand<T>,
    out: Place,
}

/// Which one.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A result for each row.
    Rows(Reduction),
    /// A result for each column.
    Columns(Reduction),
    /// Cumulative sums of the rows.
    Scan,
    /// The transpose.
    Transpose,
    /// A copy.
    Cast,
}

impl Kind {
    /// The result of a matrix of this shape, without gaps.
    pub fn out(self, [rows, cols]: [usize; 2]) -> Place {
        let shape = match self {
            Kind::Rows(_) => [1, rows],
            Kind::Columns(_) => [1, cols],
            Kind::Scan | Kind::Cast => [rows, cols],
            Kind::Transpose => [cols, rows],
        };
        Place::matrix(shape, 0, 0)
    }
}

impl<T: Number> Axis<T> {
    /// On a matrix of this shape, without gaps.
    ///
    /// # Errors
    /// There is not enough memory, or the device failed.
    pub fn new(device: &Device, kind: Kind, shape: [usize; 2]) -> Result<Self, Error> {
        Self::of(device, kind, &Place::matrix(shape, 0, 0), kind.out(shape))
    }

    fn of(device: &Device, kind: Kind, inp: &Place, out: Place) -> Result<Self, Error> {
        Ok(Self { device: device.clone(), kind, inp: Operand::new(device, inp, Values::Normal, 1)?, out })
    }

    pub(super) fn drawn(device: &Device, drawn: &Drawn) -> Result<Self, Error> {
        match drawn {
            Drawn::Reduce { reduction, rows, inp } => {
                let reduction = match reduction {
                    bench::Reduction::Sum => Reduction::Sum,
                    bench::Reduction::Mean => Reduction::Mean,
                    bench::Reduction::Max => Reduction::Max,
                    bench::Reduction::Min => Reduction::Min,
                };
                let kind = if *rows { Kind::Rows(reduction) } else { Kind::Columns(reduction) };
                Self::of(device, kind, inp, kind.out([inp.shape[2], inp.shape[3]]))
            }
            Drawn::CumulativeSum { inp, out } => Self::of(device, Kind::Scan, inp, out.clone()),
            Drawn::Transpose { inp, out } => Self::of(device, Kind::Transpose, inp, out.clone()),
            _ => unreachable!("the caller matched it"),
        }
    }

    fn column(&self, col: usize) -> Vec<T> {
        let rows = 0..self.inp.place.shape[2];
        rows.map(|row| self.inp.element(start(&self.inp.place, [0, 0, row]) + col)).collect()
    }
}

impl<T: Number> Operation for Axis<T> {
    type Set = [Buffer<T>; 2];
    type By = ScanBy;

    fn bytes(&self) -> usize {
        (elements(&self.inp.place) + elements(&self.out)) * size_of::<T>()
    }

    fn set(&self) -> anyhow::Result<Self::Set> {
        Ok([self.inp.buffer(&self.device)?, self.device.alloc_zeroed(self.out.len)?])
    }

    fn run(&self, device: &Device, [inp, out]: &mut Self::Set, by: Option<ScanBy>) -> Result<(), Error> {
        let inp = self.inp.place.view::<_, 2>(inp)?;
        let len = out.len();
        match self.kind {
            Kind::Rows(reduction) => {
                Reduce::rows(reduction).run_into(device, TensorViewMut::new(out, [len])?, inp)
            }
            Kind::Columns(reduction) => {
                Reduce::columns(reduction).run_into(device, TensorViewMut::new(out, [len])?, inp)
            }
            Kind::Scan => CumulativeSum::new().run_by(device, self.out.view_mut::<_, 2>(out)?, inp, by),
            Kind::Transpose => Transpose::new().run_into(device, self.out.view_mut::<_, 2>(out)?, inp),
            Kind::Cast => Cast::new().run_into(device, self.out.view_mut::<_, 2>(out)?, inp),
        }
    }

    fn choices(&self) -> Vec<(String, ScanBy)> {
        if !matches!(self.kind, Kind::Scan) {
            return Vec::new();
        }
        let (limits, [.., rows, cols]) = (self.device.limits(), self.out.shape);
        let all = CumulativeSum::choices::<T>(limits, self.device.multiprocessors(), [rows, cols]);
        all.map(|by| (by.kernels::<T>()[0].name.to_owned(), by)).collect()
    }

    fn check(&self, [_, out]: &Self::Set) -> anyhow::Result<f64> {
        let [.., rows, cols] = self.inp.place.shape;
        let (mut got, mut bounds) = (Vec::new(), Vec::new());
        let exact = |of: Vec<T>| of.into_iter().map(|x| Bound::exact(x.value().into()));
        let one = |of: Vec<T>, operation| Oracle::dense([1, of.len()], (operation, true, false), of);
        match self.kind {
            Kind::Rows(operation) | Kind::Columns(operation) => {
                let is_of_rows = matches!(self.kind, Kind::Rows(_));
                let results = read(out, &self.out, [0; 3])?;
                for line in some(if is_of_rows { rows } else { cols }, CHECKED) {
                    let of = if is_of_rows { self.inp.row([0, 0, line]) } else { self.column(line) };
                    bounds.extend(one(of, operation).expected_reduce());
                    got.push(results[line]);
                }
            }
            Kind::Scan => {
                for row in some(rows, CHECKED) {
                    bounds.extend(one(self.inp.row([0, 0, row]), Reduction::Sum).expected_scan());
                    got.extend(read(out, &self.out, [0, 0, row])?);
                }
            }
            Kind::Cast => {
                for row in some(rows, CHECKED) {
                    bounds.extend(exact(self.inp.row([0, 0, row])));
                    got.extend(read(out, &self.out, [0, 0, row])?);
                }
            }
            Kind::Transpose => {
                for col in some(cols, CHECKED) {
                    bounds.extend(exact(self.column(col)));
                    got.extend(read(out, &self.out, [0, 0, col])?);
                }
            }
        }
        timed::check("result", &got, &bounds)
    }
}
