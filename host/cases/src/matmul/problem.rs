//! Multiplications, and their cases.

use std::sync::OnceLock;

use anyhow::Result;
use ferrowarp::device::{Buffer, Device};
use ferrowarp::matmul::{Activation, KernelChoice, Matmul, Precision, Problem as Shape};
use ferrowarp::{ElementAs, TensorView};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::oracle::{Ends, bound};
use crate::case::Case;
use crate::compare::{Expected, Outputs};
use crate::later::Later;
use crate::place::{Place, UNTOUCHED};
use crate::reference::{Number, Sum};
use crate::scopes::{
    DEVICE, EMULATOR, LARGER, SMALL_AND_EMULATOR, SMALL_AND_EXECUTOR, Scope, Setting, TINY, setters,
};

/// The values of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Numbers between -1 and 1.
    Ordinary,
    /// Large numbers with products that are far from overflow.
    Large,
    /// Numbers with products near or below the smallest normal one.
    Tiny,
    /// A NaN in a row of A and an infinity in a column of B: they only affect this row and column.
    Damaged,
}

/// One multiplication, for operands of every type.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    /// The scopes that run it.
    pub scopes: &'static [Scope],
    /// Rows and columns of the result, and terms per sum.
    pub shape: [usize; 3],
    /// The number of matrices.
    pub batch: usize,
    /// Elements between the rows, and before the first of them; there a multiple of 8 if above 4.
    pub gap: usize,
    /// Whether bias, residual, a scale and this activation are applied.
    pub epilogue: Option<Activation>,
    /// The values of the operands.
    pub values: Values,
    /// Whether 16-bit operands also give `f32` results.
    pub is_also_f32: bool,
}

pub(super) const PLAIN: Problem = Problem {
    scopes: &[],
    shape: [1, 1, 1],
    batch: 1,
    gap: 0,
    epilogue: None,
    values: Values::Ordinary,
    is_also_f32: false,
};

const fn at(scopes: &'static [Scope], shape: [usize; 3]) -> Problem {
    Problem { scopes, shape, ..PLAIN }
}

setters! {
    Problem;
    batch(batch: usize): batch = batch;
    gap(gap: usize): gap = gap;
    epilogue(activation: Activation): epilogue = Some(activation);
    values(values: Values): values = values;
    also_f32(): is_also_f32 = true;
}

/// Sizes that are not multiples of tiles, fragments, vectors and buffers. One row, column or term, none.
pub const PROBLEMS: &[Problem] = &[
    at(TINY, [8, 8, 8]),
    at(SMALL_AND_EMULATOR, [24, 16, 200]).gap(8),
    // Groups of rows of B are aligned, single rows are not.
    at(SMALL_AND_EMULATOR, [3, 5, 16]),
    at(SMALL_AND_EXECUTOR, [9, 5, 33]).gap(1).epilogue(Activation::Relu),
    at(EMULATOR, [35, 70, 129]).gap(1).epilogue(Activation::Gelu).also_f32(),
    at(LARGER, [1, 1, 1]),
    // Rows and matrices of 16 bytes: the smallest distances that a tensor map takes.
    at(LARGER, [5, 4, 4]).batch(3),
    at(LARGER, [1, 4, 4]).batch(3),
    at(LARGER, [3, 7, 0]).epilogue(Activation::None),
    at(LARGER, [130, 136, 264]),
    // Tensor copies can read every layout.
    at(LARGER, [136, 264, 200]).batch(2).gap(8).epilogue(Activation::Gelu).also_f32(),
    at(LARGER, [65, 131, 97]).batch(3).gap(3).epilogue(Activation::Gelu).also_f32(),
    at(LARGER, [1, 300, 515]).gap(8),
    at(LARGER, [9, 131, 136]).batch(2).epilogue(Activation::Gelu),
    // Rows are aligned in every layout, and end within 16 bytes.
    at(LARGER, [67, 75, 67]).gap(5),
    at(LARGER, [40, 33, 66]).values(Values::Large),
    at(LARGER, [40, 33, 66]).values(Values::Tiny),
    at(LARGER, [40, 33, 66]).values(Values::Damaged),
    at(DEVICE, [264, 392, 520]).batch(2).also_f32(),
    at(DEVICE, [130, 257, 4096]).epilogue(Activation::Relu),
];

/// The tensor core kernels that Miri runs: the smallest `wgmma` tiles.
const SMALLEST: [&str; 2] = ["matmul_bf16_kk_16x128w", "matmul_bf16_kk_64x64p"];

/// Stored matrices, with gaps.
pub(super) struct Stored<T> {
    elements: Vec<T>,
    place: Place,
    is_transposed: bool,
}

impl<T: Number> Stored<T> {
    /// Where matrices of this shape are stored.
    fn place([rows, cols]: [usize; 2], is_transposed: bool, batch: usize, gap: usize) -> Place {
        let [rows, cols] = if is_transposed { [cols, rows] } else { [rows, cols] };
        let stride = cols + gap;
        let matrix = rows * stride + gap;
        // Large gaps leave the first element aligned.
        let first = if gap > 4 { gap.next_multiple_of(8) } else { gap };
        let strides = [batch * matrix, matrix, stride];
        Place { shape: [1, batch, rows, cols], first, strides, len: first + batch * matrix }
    }

    /// Creates matrices of this shape with random elements, and NaN in the gaps.
    fn random(
        rng: &mut StdRng,
        range: f32,
        shape: [usize; 2],
        is_transposed: bool,
        (batch, gap): (usize, usize),
    ) -> Self {
        let place = Self::place(shape, is_transposed, batch, gap);
        let mut elements = vec![T::nearest(f32::NAN); place.len];
        for i in place.indices() {
            elements[i] = T::nearest(rng.random_range(-1.0f32..1.0) * range);
        }
        Self { elements, place, is_transposed }
    }

    pub(super) fn view<'a>(&self, buffer: &'a Buffer<T>) -> Result<TensorView<'a, T>> {
        let view = self.place.view::<_, 3>(buffer)?;
        Ok(if self.is_transposed { view.t() } else { view })
    }

    pub(super) fn upload(&self, device: &Device) -> Result<Buffer<T>> {
        Ok(device.upload(&self.elements)?)
    }

    fn index(&self, batch: usize, row: usize, col: usize) -> usize {
        let [r, c] = if self.is_transposed { [col, row] } else { [row, col] };
        let Place { first, strides: [_, by_batch, by_row], .. } = self.place;
        first + batch * by_batch + r * by_row + c
    }

    fn at(&self, batch: usize, row: usize, col: usize) -> f64 {
        self.elements[self.index(batch, row, col)].value().into()
    }

    /// The matrices of this shape without gaps, row by row.
    fn dense(&self, [rows, cols]: [usize; 2]) -> Vec<f64> {
        let at = |i: usize| self.at(i / (rows * cols), i / cols % rows, i % cols);
        (0..self.place.shape[1] * rows * cols).map(at).collect()
    }
}

/// Whether every row starts at a multiple of 16 bytes, like buffers do.
fn is_aligned<T>(&Place { shape, first, strides, .. }: &Place) -> bool {
    is_multiple::<T>(first) && (1..3).all(|i| shape[i] <= 1 || is_multiple::<T>(strides[i]))
}

/// Whether these elements are a multiple of 16 bytes.
fn is_multiple<T>(elements: usize) -> bool {
    (elements * size_of::<T>()).is_multiple_of(16)
}

/// The operands of a problem in one type, and the expected values.
pub(super) struct Operands<T, O> {
    problem: Problem,
    pub(super) a: Stored<T>,
    pub(super) b: Stored<T>,
    bias: Vec<T>,
    residual: Stored<O>,
    scale: f32,
    /// Whether the residual is in the output, for some of the layouts.
    accumulates: bool,
    /// The expected values, computed for the first comparison: there are many kernels, and sums take long.
    expected: OnceLock<Expected>,
}

impl<T: Number + ElementAs<O>, O: Number> Operands<T, O> {
    pub(super) fn new(problem: &Problem, [a_is_transposed, b_is_transposed]: [bool; 2]) -> Self {
        let &Problem { shape: [m, n, k], batch, gap, values, .. } = problem;
        let mut rng = StdRng::seed_from_u64((m * 31 + n * 7 + k) as u64);
        let is_f16 = T::LARGEST < 1e5;
        // Subnormal for f16; for the others, products below 2^-126, and results far from overflow.
        let range = match (values, is_f16) {
            (Values::Large, true) => 8.0,
            (Values::Large, false) => 2f32.powi(56),
            (Values::Tiny, true) => 2f32.powi(-15),
            (Values::Tiny, false) => 2f32.powi(-63),
            _ => 1.0,
        };
        let mut a = Stored::<T>::random(&mut rng, range, [m, k], a_is_transposed, (batch, gap));
        let mut b = Stored::<T>::random(&mut rng, range, [k, n], b_is_transposed, (batch, gap));
        if values == Values::Damaged {
            let (in_a, in_b) = (a.index(0, m / 2, k - 1), b.index(0, 0, n - 1));
            a.elements[in_a] = T::nearest(f32::NAN);
            b.elements[in_b] = T::nearest(f32::INFINITY);
        }
        let bias = (0..n).map(|_| T::nearest(rng.random_range(-1.0..1.0))).collect();
        let residual = Stored::random(&mut rng, 1.0, [m, n], false, (batch, gap));
        Self {
            problem: *problem,
            a,
            b,
            bias,
            residual,
            scale: if problem.epilogue.is_some() { 0.75 } else { 1.0 },
            accumulates: problem.epilogue.is_some() && (a_is_transposed == b_is_transposed) == (batch > 1),
            expected: OnceLock::new(),
        }
    }

    fn run(&self, device: &Device, choice: KernelChoice<T>, precision: Precision) -> Result<Outputs> {
        let (a, b, bias) = (self.a.upload(device)?, self.b.upload(device)?, device.upload(&self.bias)?);
        let residual = self.residual.upload(device)?;
        let of_out = &self.residual.place;
        let before = of_out.indices().map(|i| self.residual.elements[i]).filter(|_| self.accumulates);
        let mut out = device.upload(&of_out.filled_between(&before.collect::<Vec<_>>(), UNTOUCHED))?;
        let mut call = Matmul::new().precision(precision);
        if let Some(activation) = self.problem.epilogue {
            call = call.scale(self.scale).bias(&bias).activation(activation);
            let residual = self.residual.view(&residual)?;
            call = if self.accumulates { call.accumulate() } else { call.residual(residual) };
        }
        let to = of_out.view_mut::<_, 3>(&mut out)?;
        call.run_by(device, to, self.a.view(&a)?, self.b.view(&b)?, Some(choice))?;
        Ok(vec![("out", of_out.read(&out, UNTOUCHED)?)])
    }

    /// `operand_error` is relative to a product.
    pub(super) fn expected(&self, operand_error: f64) -> Expected {
        let &Problem { shape: [m, n, k], batch, epilogue, .. } = &self.problem;
        let (a, b) = (self.a.dense([m, k]), self.b.dense([k, n]));
        let bounds = (0..batch * m * n).map(|i| {
            let (matrix, row, col) = (i / (m * n), i / n % m, i % n);
            let term = |i: usize| a[(matrix * m + row) * k + i] * b[(matrix * k + i) * n + col];
            let sum = (0..k).map(term).fold(Sum::default(), Sum::and);
            let ends = match epilogue {
                None => Ends { scale: 1.0, ..Ends::default() },
                Some(activation) => Ends {
                    scale: self.scale.into(),
                    bias: self.bias[col].value().into(),
                    residual: self.residual.at(matrix, row, col),
                    activation,
                },
            };
            bound::<O>(k, sum, operand_error, ends)
        });
        vec![("out", bounds.collect())]
    }
}

/// The error of an operand's rounding, relative to a product.
pub(crate) fn operand_error<T: Number>(precision: Precision) -> f64 {
    match (T::NAME, precision) {
        // Both operands are rounded to 11 bits.
        ("f32", Precision::Tf32) => 2f64.powi(-10) + 2f64.powi(-22),
        ("f32", Precision::F32) => 3.0 * 2f64.powi(-22),
        _ => 0.0,
    }
}

/// The cases of a problem with operands of `T` and results of `O`: all four layouts with every kernel that supports them.
pub(super) fn of_types<T: Number + ElementAs<O>, O: Number>(
    problem: &Problem,
    setting: &Setting,
) -> Vec<Case> {
    let mut cases = Vec::new();
    let precisions: &[_] =
        if T::NAME == "f32" { &[Precision::F32, Precision::Tf32] } else { &[Precision::F32] };
    for layout in [[false, false], [false, true], [true, false], [true, true]] {
        for &precision in precisions {
            // Three TF32 products turn infinity times an exact number into NaN.
            let damaged = problem.values == Values::Damaged;
            if damaged && T::NAME == "f32" && precision == Precision::F32 {
                continue;
            }
            let of = *problem;
            let operands = Later::new(move || Operands::<T, O>::new(&of, layout));
            let [m, n, k] = of.shape;
            let [a_is_transposed, b_is_transposed] = layout;
            // A row without gaps is a row in both layouts.
            if of.gap == 0 && (a_is_transposed && m == 1 || b_is_transposed && k == 1) {
                continue;
            }
            let [of_a, of_b] = [([m, k], a_is_transposed), ([k, n], b_is_transposed)]
                .map(|(shape, is_transposed)| Stored::<T>::place(shape, is_transposed, of.batch, of.gap));
            let is_aligned = [is_aligned::<T>(&of_a), is_aligned::<T>(&of_b)];
            let [m, n, k] = of.shape.map(|extent| extent as u32);
            let batch = of.batch as u32;
            let shape = Shape {
                batch,
                a_is_transposed,
                b_is_transposed,
                precision,
                is_aligned,
                b_folds: is_multiple::<T>(of_b.first) && (of.batch == 1 || is_multiple::<T>(of_b.strides[1])),
                has_whole_lines: [false; 2],
                ..Shape::new(m, n, k)
            };
            for choice in KernelChoice::<T>::every(&setting.profile, &shape) {
                let kernels: Vec<_> = choice.kernels().map(|kernel| kernel.name).collect();
                let splits = choice.splits();
                let is_small = |name: &&str| name.ends_with("_serial") || SMALLEST.contains(name);
                if setting.is_serial() && !kernels.iter().all(is_small) {
                    continue;
                }
                let Problem { batch, gap, epilogue, values, .. } = of;
                let words = move |_: &_| {
                    format!(
                        "{batch} x {m} x {n} x {k}, {splits} splits, {gap} gap, {epilogue:?}, {values:?}, {} out",
                        O::NAME,
                    )
                };
                let operand_error = operand_error::<T>(precision);
                let run = move |of: &Operands<T, O>, device: &Device| of.run(device, choice, precision);
                cases.push(Case::of(&operands, kernels, words, run, move |of| {
                    of.expected.get_or_init(|| of.expected(operand_error)).clone()
                }));
            }
        }
    }
    cases
}
