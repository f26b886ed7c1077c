//! Reductions, cumulative sums and transposes.

use ferrowarp::axis::ScanBy;
use ferrowarp::device::{Buffer, Device};
use ferrowarp::{CumulativeSum, Error, Reduce, Reduction, TensorViewMut, Transpose};
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

#[derive(Clone, Copy)]
enum Kind {
    Rows(Reduction),
    Columns(Reduction),
    Scan,
    Transpose,
}

impl<T: Number> Axis<T> {
    pub fn new(device: &Device, drawn: &Drawn) -> anyhow::Result<Self> {
        let (kind, inp, out) = match drawn {
            Drawn::Reduce { reduction, rows, inp } => {
                let reduction = match reduction {
                    bench::Reduction::Sum => Reduction::Sum,
                    bench::Reduction::Mean => Reduction::Mean,
                    bench::Reduction::Max => Reduction::Max,
                    bench::Reduction::Min => Reduction::Min,
                };
                let kind = if *rows { Kind::Rows(reduction) } else { Kind::Columns(reduction) };
                (kind, inp, Place::matrix([1, inp.shape[if *rows { 2 } else { 3 }]], 0, 0))
            }
            Drawn::CumulativeSum { inp, out } => (Kind::Scan, inp, out.clone()),
            Drawn::Transpose { inp, out } => (Kind::Transpose, inp, out.clone()),
            _ => unreachable!("the caller matched it"),
        };
        Ok(Self { device: device.clone(), kind, inp: Operand::new(device, inp, Values::Normal, 1)?, out })
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
        }
    }

    fn choices(&self) -> Vec<(String, ScanBy)> {
        if !matches!(self.kind, Kind::Scan) {
            return Vec::new();
        }
        let all = CumulativeSum::choices::<T>(self.device.limits(), self.out.shape[3]);
        all.map(|by| (by.kernels::<T>()[0].name.to_owned(), by)).collect()
    }

    fn check(&self, [_, out]: &Self::Set) -> anyhow::Result<f64> {
        let [.., rows, cols] = self.inp.place.shape;
        let (mut got, mut bounds) = (Vec::new(), Vec::new());
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
            Kind::Transpose => {
                for col in some(cols, CHECKED) {
                    bounds.extend(self.column(col).iter().map(|x| Bound::exact(x.value().into())));
                    got.extend(read(out, &self.out, [0, 0, col])?);
                }
            }
        }
        timed::check("result", &got, &bounds)
    }
}
