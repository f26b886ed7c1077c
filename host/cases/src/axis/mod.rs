//! Sums, maxima, cumulative sums and transposes: every kernel in every type.

mod problems;

use anyhow::Result;
use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::KernelMeta;
use ferrowarp::axis::{CastTo, ScanBy, choices};
use ferrowarp::device::Device;
use ferrowarp::{
    Cast, CumulativeSum, Element, ElementAs, Error, Reduction, TensorView, TensorViewMut, Transpose,
};
use gpu_kernels::axis::{Blocks, TransposeKernels};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use crate::case::Case;
use crate::compare::{Bound, Outputs};
use crate::later::Later;
use crate::place::{Place, UNTOUCHED};
use crate::reference::{Number, Sum};
use crate::scopes::{Scope, Setting, cases_of_types};
use problems::{Problem, REDUCTIONS, SCANS, TRANSPOSES, Values};

/// Elements after an output.
const GUARD: usize = 8;

/// Every case of the setting.
pub fn cases(setting: &Setting) -> Vec<Case> {
    cases_of_types!(f32, f16, bf16 => of_type::<T>(setting))
}

/// A problem's matrix in one type.
pub struct Operand<T> {
    problem: Problem,
    inp: Vec<T>,
}

impl<T: Number + Element> Operand<T> {
    fn new(problem: &Problem) -> Self {
        let Problem { shape: [rows, cols], gap, start, values, is_of_rows, .. } = *problem;
        let mut rng = StdRng::seed_from_u64((rows * 31 + cols) as u64);
        let mut element = |i: usize| {
            let (row, col) = (i / (cols + gap), i % (cols + gap));
            let x = rng.random_range(-1.0f32..1.0);
            let (line, along) = if is_of_rows { (row, col) } else { (col, row) };
            match values {
                Values::Ordinary => x,
                Values::Offset => 100.0 + x,
                Values::Equal => 0.1,
                Values::Cancelling if along.is_multiple_of(2) => 1000.0,
                Values::Cancelling => -1000.0 + x,
                Values::Special => match (line, along) {
                    (0, 4) => f32::NAN,
                    (1, 3) | (2, 1) => f32::INFINITY,
                    (2, 6) => f32::NEG_INFINITY,
                    _ => x,
                },
            }
        };
        let matrix = (0..rows * (cols + gap)).map(|i| T::nearest(element(i)));
        let inp = core::iter::repeat_n(T::nearest(0.0), start).chain(matrix).collect();
        Self { problem: *problem, inp }
    }

    /// A matrix without gaps, and its reduction: of rows or else columns, with a result in `f32` or else the matrix's type.
    pub fn dense(
        shape: [usize; 2],
        (operation, is_of_rows, is_full): (Reduction, bool, bool),
        inp: Vec<T>,
    ) -> Self {
        Self { problem: Problem { shape, operation, is_of_rows, is_full, ..problems::ROWS }, inp }
    }

    /// Where a matrix of this shape is stored, with the problem's gaps.
    fn place(&self, shape: [usize; 2]) -> Place {
        Place::matrix(shape, self.problem.gap, self.problem.start)
    }

    /// Where an output of this shape is stored.
    fn place_out(&self, shape: [usize; 2]) -> Place {
        Place::matrix(shape, self.problem.gap, self.problem.start + self.problem.later)
    }

    /// The number at a row and column.
    fn at(&self, row: usize, col: usize) -> f64 {
        let Problem { shape: [_, cols], gap, start, .. } = self.problem;
        self.inp[start + row * (cols + gap) + col].value().into()
    }

    /// Runs `on` with a matrix for the results, and this one.
    fn run<O: Pod + cuda_std::testing::Element>(
        &self,
        device: &Device,
        of_out: Place,
        on: impl FnOnce(TensorViewMut<'_, O>, TensorView<'_, T>) -> Result<(), Error>,
    ) -> Result<Outputs> {
        let (inp, of_out) = (device.upload(&self.inp)?, of_out.with_guard(GUARD));
        let mut out = of_out.output::<O>(device, UNTOUCHED)?;
        let from = self.place(self.problem.shape).view::<_, 2>(&inp)?;
        on(of_out.view_mut::<_, 2>(&mut out)?, from)?;
        Ok(vec![("out", of_out.read(&out, UNTOUCHED)?)])
    }

    fn reduce<O: Element + cuda_std::testing::Element>(
        &self,
        device: &Device,
        blocks: Blocks,
    ) -> Result<Outputs>
    where
        T: ElementAs<O>,
    {
        let Problem { shape: [rows, cols], is_of_rows, .. } = self.problem;
        let len = if is_of_rows { rows } else { cols };
        self.run(device, Place::matrix([1, len], 0, 0), |to: TensorViewMut<'_, O>, inp| {
            self.problem.reduce().run_by(device, to.reshape([len])?, inp, Some(blocks))
        })
    }

    /// The expected values of the reduction.
    pub fn expected_reduce(&self) -> Vec<Bound> {
        let Problem { shape: [rows, cols], operation, is_of_rows, is_full, .. } = self.problem;
        let (outputs, len) = if is_of_rows { (rows, cols) } else { (cols, rows) };
        let result = |output: usize| {
            let all = (0..len).map(|i| if is_of_rows { self.at(output, i) } else { self.at(i, output) });
            let larger = |a: f64, b: f64| if a > b || a.is_nan() { a } else { b };
            match operation {
                Reduction::Max => Bound::exact(all.fold(f64::NEG_INFINITY, larger)),
                Reduction::Min => Bound::exact(-all.map(|x| -x).fold(f64::NEG_INFINITY, larger)),
                Reduction::Sum | Reduction::Mean => {
                    let sum = all.fold(Sum::default(), Sum::and);
                    let by = if operation == Reduction::Mean { 1.0 / len as f64 } else { 1.0 };
                    let sum = Sum { value: sum.value * by, magnitude: sum.magnitude * by };
                    // A thread adds up at most 256 terms, or runs of terms whose sums' roundings are added up on their own.
                    rounded::<T>(sum.within(160.0), is_full)
                }
            }
        };
        (0..outputs).map(result).collect()
    }

    fn scan(&self, device: &Device, by: ScanBy) -> Result<Outputs> {
        self.run(device, self.place_out(self.problem.shape), |to: TensorViewMut<'_, T>, inp| {
            CumulativeSum::new().run_by(device, to, inp, Some(by))
        })
    }

    /// The expected cumulative sums of the rows.
    pub fn expected_scan(&self) -> Vec<Bound> {
        let [rows, cols] = self.problem.shape;
        let of_row = |row: usize| {
            (0..cols).scan(Sum::default(), move |sum, col| {
                *sum = sum.and(self.at(row, col));
                // A thread adds up to 256 elements, and then one sum for at least as many.
                let roundings = 64.0 + (col.min(256) + col / 256) as f64;
                Some(rounded::<T>(sum.within(roundings), false))
            })
        };
        (0..rows).flat_map(of_row).collect()
    }

    fn transpose(&self, device: &Device, by: usize) -> Result<Outputs> {
        let [rows, cols] = self.problem.shape;
        self.run(device, self.place_out([cols, rows]), |to: TensorViewMut<'_, T>, inp| {
            Transpose::new().run_by(device, to, inp, Some(by))
        })
    }

    fn expected_transpose(&self) -> Vec<Bound> {
        let [rows, cols] = self.problem.shape;
        (0..cols).flat_map(|col| (0..rows).map(move |row| Bound::exact(self.at(row, col)))).collect()
    }

    /// A copy, of the transpose if rows have gaps.
    fn cast<O: Number + Element>(&self, device: &Device, blocks: Blocks) -> Result<Outputs>
    where
        T: CastTo<O>,
    {
        let Problem { shape, gap, .. } = self.problem;
        self.run(device, self.place(shape), |to: TensorViewMut<'_, O>, inp| {
            let (to, inp) = if gap > 0 { (to.t(), inp.t()) } else { (to, inp) };
            Cast::new().run_by(device, to, inp, blocks)
        })
    }

    fn expected_cast<O: Number>(&self) -> Vec<Bound> {
        let [rows, cols] = self.problem.shape;
        let element = |i: usize| Bound::exact(O::nearest(self.at(i / cols, i % cols) as f32).value().into());
        (0..rows * cols).map(element).collect()
    }
}

/// The expected value after rounding, to `f32` if `is_full`.
fn rounded<T: Number>(Bound { value, allowed, .. }: Bound, is_full: bool) -> Bound {
    if is_full { Bound::rounded::<f32>(value, allowed) } else { Bound::rounded::<T>(value, allowed) }
}

/// The cases of a type, one for every kernel that supports them.
fn of_type<T: Number + ElementAs<f32>>(setting: &Setting) -> Vec<Case> {
    let limits = &setting.profile.limits;
    // Miri takes minutes for blocks of 256 threads, so it runs each of their kernels once.
    let is_tiny = setting.scope == Scope::Tiny;
    let of_blocks = |problem: &Problem| {
        let is_wide =
            !is_tiny || T::NAME == "f32" && (problem.is_of_rows || problem.values == Values::Special);
        choices(limits).iter().copied().filter(move |blocks| is_wide || *blocks == Blocks::Serial)
    };
    let problems =
        |of: &'static [Problem]| of.iter().filter(|problem| problem.scopes.contains(&setting.scope));
    let mut cases = Vec::new();
    for problem in problems(REDUCTIONS) {
        let operand = Later::new(|| Operand::<T>::new(problem));
        let reduce = problem.reduce();
        let clusters = reduce.choices::<T>(limits).find(|by| problem.is_split && *by == Blocks::Clusters);
        for blocks in of_blocks(problem).chain(clusters) {
            let mut kernels = vec![reduce.kernel::<T>(blocks).meta];
            let has_finish = problem.is_split && blocks != Blocks::Clusters;
            kernels.extend(has_finish.then(|| T::finish(blocks).meta));
            let words = move |of: Problem| {
                let line = if of.is_of_rows { "rows" } else { "columns" };
                format!("{:?} of {line}{}", of.operation, if of.is_full { " as f32" } else { "" })
            };
            cases.push(case(
                (problem, &operand),
                kernels,
                words,
                move |operand, device| {
                    if operand.problem.is_full {
                        operand.reduce::<f32>(device, blocks)
                    } else {
                        operand.reduce::<T>(device, blocks)
                    }
                },
                Operand::expected_reduce,
            ));
        }
    }
    for problem in problems(SCANS) {
        let operand = Later::new(|| Operand::<T>::new(problem));
        let cols = problem.shape[1];
        // Also blocks with several tiles.
        let by = CumulativeSum::choices::<T>(limits, 1, problem.shape)
            .chain((cols > 2 * T::SCAN_GRID.tile as usize).then_some(ScanBy::Grid(2)));
        for by in by.filter(|by| !is_tiny || *by == ScanBy::Serial) {
            cases.push(case(
                (problem, &operand),
                by.kernels::<T>(),
                move |_| format!("cumulative sums, {by:?}"),
                move |operand, device| operand.scan(device, by),
                Operand::expected_scan,
            ));
        }
    }
    for problem in problems(TRANSPOSES) {
        let operand = Later::new(|| Operand::<T>::new(problem));
        for blocks in of_blocks(problem) {
            cases.push(cast_case::<T, f32>(problem, &operand, blocks));
            cases.push(cast_case::<T, f16>(problem, &operand, blocks));
            cases.push(cast_case::<T, bf16>(problem, &operand, blocks));
        }
    }
    // Elements are moved unchanged: one type of each size.
    for problem in problems(TRANSPOSES).filter(|_| T::NAME != "bf16") {
        let operand = Later::new(|| Operand::<T>::new(problem));
        let kernels = if size_of::<T>() == 2 {
            transposes::<u16>(problem, setting)
        } else {
            transposes::<u32>(problem, setting)
        };
        for (by, kernel) in kernels.into_iter().enumerate() {
            if is_tiny && !kernel.cpu_only && T::NAME != "f32" {
                continue;
            }
            cases.push(case(
                (problem, &operand),
                vec![kernel],
                |_| "transpose".to_owned(),
                move |operand, device| operand.transpose(device, by),
                Operand::expected_transpose,
            ));
        }
    }
    cases
}

/// The kernels that transpose a problem's matrix.
fn transposes<W: TransposeKernels>(problem: &Problem, setting: &Setting) -> Vec<&'static KernelMeta> {
    let (limits, multiprocessors) = (&setting.profile.limits, setting.profile.multiprocessors);
    let shape = problem.shape.map(|extent| extent as u32);
    let kernels = Transpose::choices::<W>(limits, multiprocessors, shape, problem.is_aligned::<W>());
    kernels.into_iter().map(|kernel| kernel.meta).collect()
}

/// A case of a copy.
fn cast_case<T: Number + Element + CastTo<O>, O: Number + Element>(
    problem: &'static Problem,
    operand: &Later<Operand<T>>,
    blocks: Blocks,
) -> Case {
    case(
        (problem, operand),
        vec![<T as CastTo<O>>::CAST.meta],
        |_| format!("cast to {}", O::NAME),
        move |operand, device| operand.cast::<O>(device, blocks),
        Operand::expected_cast::<O>,
    )
}

/// A case of the kernels on a problem's matrix.
fn case<T: Number + Element>(
    (problem, operand): (&'static Problem, &Later<Operand<T>>),
    kernels: Vec<&'static KernelMeta>,
    words: impl Fn(Problem) -> String + Send + 'static,
    run: impl Fn(&Operand<T>, &Device) -> Result<Outputs> + Send + Sync + 'static,
    expected: impl Fn(&Operand<T>) -> Vec<Bound> + Send + Sync + 'static,
) -> Case {
    let words = move |_: &_| {
        let Problem { shape: [rows, cols], gap, start, later, values, .. } = *problem;
        format!("{} {rows} x {cols}, gap {gap}, start {start}, later {later}, {values:?}", words(*problem))
    };
    let kernels = kernels.into_iter().map(|meta| meta.name).collect();
    Case::of(operand, kernels, words, run, move |operand| vec![("out", expected(operand))])
}
