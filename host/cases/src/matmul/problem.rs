//! Multiplications, and their cases.

use std::sync::OnceLock;

use anyhow::{Result, ensure};
use ferrowarp::device::{Buffer, Device};
use ferrowarp::matmul::{Activation, KernelChoice, Matmul, Precision, Problem as Shape};
use ferrowarp::{ElementAs, TensorView, TensorViewMut};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::oracle::{Ends, bound};
use crate::case::wide;
use crate::compare::{Expected, Outputs};
use crate::later::Later;
use crate::reference::{Number, Sum};
use crate::scopes::{DEVICE, EMULATOR, LARGER, SMALL_AND_EMULATOR, SMALL_AND_EXECUTOR, TINY, setters};
use crate::softmax::Setting;
use crate::{Case, Scope};

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

const PLAIN: Problem = Problem {
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
    // Rows are aligned in every layout, and end within 16 bytes.
    at(LARGER, [67, 75, 67]).gap(5),
    at(LARGER, [40, 33, 66]).values(Values::Large),
    at(LARGER, [40, 33, 66]).values(Values::Tiny),
    at(LARGER, [40, 33, 66]).values(Values::Damaged),
    at(DEVICE, [264, 392, 520]).batch(2).also_f32(),
    at(DEVICE, [130, 257, 4096]).epilogue(Activation::Relu),
];

/// The tensor core kernels that Miri runs: the smallest `wgmma` tiles.
const SMALLEST: [&str; 2] = ["matmul_bf16_kk_16x128w", "matmul_bf16_kk_128x64w"];

/// A byte that no kernel writes: fills the gaps between rows of the output.
const UNTOUCHED: u8 = 0x5b;

/// A stored matrix, with gaps.
struct Stored<T> {
    elements: Vec<T>,
    /// Rows and columns as stored.
    stored: [usize; 2],
    stride: usize,
    batch: usize,
    batch_stride: usize,
    first: usize,
    is_transposed: bool,
}

impl<T: Number> Stored<T> {
    /// Matrices of this shape, without their elements.
    fn empty([rows, cols]: [usize; 2], is_transposed: bool, batch: usize, gap: usize) -> Self {
        let stored = if is_transposed { [cols, rows] } else { [rows, cols] };
        let stride = stored[1] + gap;
        let batch_stride = stored[0] * stride + gap;
        // Large gaps leave the first element aligned.
        let first = if gap > 4 { gap.next_multiple_of(8) } else { gap };
        Self { elements: Vec::new(), stored, stride, batch, batch_stride, first, is_transposed }
    }

    /// Creates matrices of this shape with all elements `fill`.
    fn new(shape: [usize; 2], is_transposed: bool, batch: usize, gap: usize, fill: T) -> Self {
        let mut matrices = Self::empty(shape, is_transposed, batch, gap);
        matrices.elements = vec![fill; matrices.first + batch * matrices.batch_stride];
        matrices
    }

    /// Whether every row starts at a multiple of 16 bytes, like buffers do.
    fn is_aligned(&self) -> bool {
        let is_multiple = |elements: usize| (elements * size_of::<T>()).is_multiple_of(16);
        is_multiple(self.first)
            && (self.stored[0] <= 1 || is_multiple(self.stride))
            && (self.batch <= 1 || is_multiple(self.batch_stride))
    }

    /// Extents and strides of the matrices.
    fn layout(&self) -> [[usize; 3]; 2] {
        let ([rows, cols], strides) = (self.stored, [self.stride, 1]);
        let ([rows, cols], [down, right]) =
            if self.is_transposed { ([cols, rows], [1, self.stride]) } else { ([rows, cols], strides) };
        [[self.batch, rows, cols], [self.batch_stride, down, right]]
    }

    fn view<'a>(&self, buffer: &'a Buffer<T>) -> Result<TensorView<'a, T>> {
        let [shape, strides] = self.layout();
        Ok(TensorView::with_strides(buffer.view(self.first..)?, shape, strides)?)
    }

    fn index(&self, batch: usize, row: usize, col: usize) -> usize {
        let [r, c] = if self.is_transposed { [col, row] } else { [row, col] };
        self.first + batch * self.batch_stride + r * self.stride + c
    }

    fn at(&self, batch: usize, row: usize, col: usize) -> f64 {
        self.elements[self.index(batch, row, col)].value().into()
    }

    /// Fills all elements with numbers; the gaps stay unchanged.
    fn filled(mut self, rng: &mut StdRng, range: f32) -> Self {
        for batch in 0..self.batch {
            for r in 0..self.stored[0] {
                for c in 0..self.stored[1] {
                    let i = self.first + batch * self.batch_stride + r * self.stride + c;
                    self.elements[i] = T::nearest(rng.random_range(-1.0f32..1.0) * range);
                }
            }
        }
        self
    }
}

/// The operands of a problem in one type, and the expected values.
struct Operands<T, O> {
    problem: Problem,
    a: Stored<T>,
    b: Stored<T>,
    bias: Vec<T>,
    residual: Stored<O>,
    scale: f32,
    /// Whether the residual is in the output, for some of the layouts.
    accumulates: bool,
    /// The expected values, computed for the first comparison: there are many kernels, and sums take long.
    expected: OnceLock<Expected>,
}

impl<T: Number + ElementAs<O>, O: Number> Operands<T, O> {
    fn new(problem: &Problem, [a_is_transposed, b_is_transposed]: [bool; 2]) -> Self {
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
        let nan = T::nearest(f32::NAN);
        let mut a = Stored::new([m, k], a_is_transposed, batch, gap, nan).filled(&mut rng, range);
        let mut b = Stored::new([k, n], b_is_transposed, batch, gap, nan).filled(&mut rng, range);
        if values == Values::Damaged {
            let (in_a, in_b) = (a.index(0, m / 2, k - 1), b.index(0, 0, n - 1));
            a.elements[in_a] = nan;
            b.elements[in_b] = T::nearest(f32::INFINITY);
        }
        let bias = (0..n).map(|_| T::nearest(rng.random_range(-1.0..1.0))).collect();
        let residual = Stored::new([m, n], false, batch, gap, O::nearest(f32::NAN)).filled(&mut rng, 1.0);
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
        let &Problem { shape: [m, n, _], batch, gap, .. } = &self.problem;
        let read = |stored: &Stored<T>| device.upload(&stored.elements);
        let (a, b, bias) = (read(&self.a)?, read(&self.b)?, device.upload(&self.bias)?);
        let residual = device.upload(&self.residual.elements)?;
        let mut out = Stored::<O>::new([m, n], false, batch, gap, O::nearest(0.0));
        bytemuck::cast_slice_mut(&mut out.elements).fill(UNTOUCHED);
        if self.accumulates {
            for i in 0..batch * m * n {
                let at = out.index(i / (m * n), i / n % m, i % n);
                out.elements[at] = self.residual.elements[at];
            }
        }
        let mut buffer = device.upload(&out.elements)?;
        let mut call = Matmul::new().precision(precision);
        if let Some(activation) = self.problem.epilogue {
            call = call.scale(self.scale).bias(&bias).activation(activation);
            let residual = self.residual.view(&residual)?;
            call = if self.accumulates { call.accumulate() } else { call.residual(residual) };
        }
        let [shape, strides] = out.layout();
        let to = TensorViewMut::with_strides(buffer.view_mut(out.first..)?, shape, strides)?;
        call.run_by(device, to, self.a.view(&a)?, self.b.view(&b)?, Some(choice))?;
        let got = buffer.to_vec()?;
        let mut inside = vec![false; got.len()];
        let mut results = Vec::with_capacity(batch * m * n);
        for i in 0..batch * m * n {
            let at = out.index(i / (m * n), i / n % m, i % n);
            inside[at] = true;
            results.push(got[at]);
        }
        let is_same = |i: usize| bytemuck::bytes_of(&got[i]).iter().all(|&byte| byte == UNTOUCHED);
        let changed = (0..got.len()).find(|&i| !inside[i] && !is_same(i));
        ensure!(changed.is_none(), "element {changed:?} between the rows was written");
        Ok(vec![("out", wide(&results))])
    }

    /// `operand_error` is relative to a product.
    fn expected(&self, operand_error: f64) -> Expected {
        let &Problem { shape: [m, n, k], batch, epilogue, .. } = &self.problem;
        let bounds = (0..batch * m * n).map(|i| {
            let (matrix, row, col) = (i / (m * n), i / n % m, i % n);
            let term = |i: usize| self.a.at(matrix, row, i) * self.b.at(matrix, i, col);
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
            let is_aligned = Stored::<T>::empty([m, k], a_is_transposed, of.batch, of.gap).is_aligned()
                && Stored::<T>::empty([k, n], b_is_transposed, of.batch, of.gap).is_aligned();
            let [m, n, k] = of.shape.map(|extent| extent as u32);
            let batch = of.batch as u32;
            let shape = Shape {
                batch,
                a_is_transposed,
                b_is_transposed,
                precision,
                is_aligned,
                has_whole_lines: false,
                ..Shape::new(m, n, k)
            };
            for choice in KernelChoice::<T>::every(&setting.profile, &shape) {
                let kernels: Vec<_> = choice.kernels().map(|kernel| kernel.name).collect();
                let splits = choice.splits();
                let is_small = |name: &&str| name.ends_with("_serial") || SMALLEST.contains(name);
                if setting.is_serial() && !kernels.iter().all(is_small) {
                    continue;
                }
                let words = move || {
                    format!(
                        "{} x {m} x {n} x {k}, {} splits, {} gap, {:?}, {:?}, {} out",
                        of.batch,
                        splits,
                        of.gap,
                        of.epilogue,
                        of.values,
                        O::NAME,
                    )
                };
                let (on_run, on_expect) = (operands.clone(), operands.clone());
                let operand_error = operand_error::<T>(precision);
                let run = move |device: &Device| on_run.run(device, choice, precision);
                cases.push(Case::new(kernels, words, run, move || {
                    on_expect.expected.get_or_init(|| on_expect.expected(operand_error)).clone()
                }));
            }
        }
    }
    cases
}
