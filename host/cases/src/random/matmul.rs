//! Matrix multiplications.

use anyhow::Result;
use ferrowarp::device::{Buffer, Device};
use ferrowarp::matmul::{Activation, Matmul, Precision};
use ferrowarp::{ElementAs, TensorView};
use rand::{RngExt as _, rngs::StdRng};

use super::drawn::{Class, Drawn, pick, types, uniform};
use super::layout::{Layout, Size, extents};
use crate::matmul::oracle::{Ends, bound};
use crate::matmul::problem::operand_error;
use crate::place::Place;
use crate::reference::{Number, Sum};

/// The values of the operands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Values {
    /// Between -1 and 1.
    Ordinary,
    /// Between 0 and 1, so that nothing cancels.
    Positive,
    /// The same in all rows and columns.
    Equal,
    /// Results near the smallest normal numbers, or subnormal operands.
    Tiny,
    /// Large, with results that fit `f32`.
    Large,
    /// A NaN in A and an infinity in B.
    Damaged,
}

/// A stored operand, which may be stored transposed.
struct Operand<T> {
    place: Place,
    is_transposed: bool,
    /// Whether it is passed as one matrix.
    is_single: bool,
    elements: Vec<T>,
}

impl<T: Number> Operand<T> {
    /// Draws matrices of this shape, or one for the whole batch.
    fn new(
        rng: &mut StdRng,
        layout: Layout,
        (batch @ [outer, inner], [rows, cols]): ([usize; 2], [usize; 2]),
        is_transposed: bool,
        values: Values,
    ) -> Self {
        let [rows, cols] = if is_transposed { [cols, rows] } else { [rows, cols] };
        let mut place = matrices::<T>(rng, layout, batch, [rows, cols]);
        let is_one = outer * inner > 1 && rng.random_ratio(1, 8);
        if is_one {
            place.strides[..2].fill(0);
        }
        let is_single = (is_one || outer * inner == 1) && rng.random_bool(0.5);
        let is_f16 = T::LARGEST < 1e5;
        let range = match (values, is_f16) {
            (Values::Large, true) => 8.0,
            (Values::Large, false) => 2f32.powi(50),
            (Values::Tiny, true) => 2f32.powi(-15),
            (Values::Tiny, false) => 2f32.powi(-63),
            _ => 1.0,
        };
        let mut elements: Vec<T> = uniform(rng, outer * inner * rows * cols, range);
        match values {
            Values::Positive => elements.iter_mut().for_each(|x| *x = T::nearest(x.value().abs())),
            Values::Equal => elements.fill(T::nearest(0.7)),
            _ => {}
        }
        Self { place, is_transposed, is_single, elements }
    }

    /// The buffer, and the elements as stored: equal matrices of a batch are one.
    fn stored(&self) -> Vec<T> {
        self.place.filled(&self.elements)
    }

    fn view<'a>(&self, buffer: &'a Buffer<T>) -> Result<TensorView<'a, T>> {
        let view = if self.is_single {
            self.place.view::<_, 2>(buffer)?
        } else {
            self.place.view::<_, 4>(buffer)?
        };
        Ok(if self.is_transposed { view.t() } else { view })
    }

    /// The vectors of each matrix, row by row, or column by column if `by_columns`.
    fn vectors(&self, by_columns: bool) -> Vec<f64> {
        let [outer, inner, rows, cols] = self.place.shape;
        let stored = self.stored();
        let all: Vec<f64> = self.place.indices().map(|i| stored[i].value().into()).collect();
        if self.is_transposed == by_columns {
            return all;
        }
        let columns = (0..outer * inner * cols).flat_map(|i| {
            let (matrix, col) = (i / cols, i % cols);
            (0..rows).map(move |row| matrix * rows * cols + row * cols + col)
        });
        columns.map(|i| all[i]).collect()
    }
}

/// Draws a place for a batch along two dimensions.
fn matrices<T>(
    rng: &mut StdRng,
    layout: Layout,
    [outer, inner]: [usize; 2],
    [rows, cols]: [usize; 2],
) -> Place {
    let mut place = layout.place::<T>(rng, [outer, inner, rows, cols], [2, 1, 0]);
    place.strides[0] = inner * place.strides[1];
    place
}

/// The sum of products, and of their magnitudes, in several parts that a processor adds side by side.
fn dot(a: &[f64], b: &[f64]) -> Sum {
    const LANES: usize = 8;
    let mut sums = [[0.0; LANES]; 2];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).fold(Sum::default(), Sum::and);
    for (a, b) in a.zip(b) {
        for lane in 0..LANES {
            let term = a[lane] * b[lane];
            sums[0][lane] += term;
            sums[1][lane] += term.abs();
        }
    }
    let [value, magnitude] = sums.map(|sums| sums.iter().sum::<f64>());
    Sum { value: rest.value + value, magnitude: rest.magnitude + magnitude }
}

pub(super) fn draw<T: Number + ElementAs<O>, O: Number>(rng: &mut StdRng, size: &Size) -> Drawn {
    of::<T, O>(rng, size, Precision::F32)
}

pub(super) fn tf32(rng: &mut StdRng, size: &Size) -> Drawn {
    of::<f32, f32>(rng, size, Precision::Tf32)
}

fn of<T: Number + ElementAs<O>, O: Number>(rng: &mut StdRng, size: &Size, precision: Precision) -> Drawn {
    let [m, n, k] = extents(rng, size.terms);
    let batch: usize = if rng.random_ratio(1, 4) { rng.random_range(0..6) } else { 1 };
    // More columns are refused.
    let [m, n, k] = [m, n, k].map(|extent| extent.min(if batch > 1 { 512 } else { 1 << 22 }));
    let outer = if batch.is_multiple_of(2) { pick(rng, &[1, 2]) } else { 1 };
    let (matrices_of, layout) = ([outer, batch / outer], Layout::draw(rng));
    let [a_is_transposed, b_is_transposed] = [rng.random_bool(0.5), rng.random_bool(0.5)];
    let is_plain = rng.random_bool(0.6);
    let mut values = Values::Ordinary;
    if !is_plain {
        values = pick(rng, &[Values::Ordinary, Values::Positive, Values::Equal, Values::Tiny, Values::Large]);
        // Three TF32 products turn infinity times an exact number into NaN.
        if rng.random_ratio(1, 5) && (T::NAME != "f32" || precision == Precision::Tf32) {
            values = Values::Damaged;
        }
    }
    let mut a = Operand::<T>::new(rng, layout, (matrices_of, [m, k]), a_is_transposed, values);
    let mut b = Operand::<T>::new(rng, layout, (matrices_of, [k, n]), b_is_transposed, values);
    if values == Values::Damaged && !a.elements.is_empty() && !b.elements.is_empty() {
        let (in_a, in_b) = (rng.random_range(0..a.elements.len()), rng.random_range(0..b.elements.len()));
        a.elements[in_a] = T::nearest(f32::NAN);
        b.elements[in_b] = T::nearest(f32::INFINITY);
    }
    let of_out = matrices::<O>(rng, layout, matrices_of, [m, n]);
    let of_residual = matrices::<O>(rng, layout, matrices_of, [m, n]);
    let bias = (!is_plain && rng.random_bool(0.5)).then(|| uniform::<T>(rng, n, 1.0));
    let residual = (!is_plain && rng.random_bool(0.5)).then(|| uniform::<O>(rng, batch * m * n, 1.0));
    let accumulates = residual.is_some() && rng.random_bool(0.5);
    let scale = if !is_plain && rng.random_bool(0.5) { pick(rng, &[0.75, -2.0, 0.0, 1e-3]) } else { 1.0 };
    let activation = match is_plain {
        true => Activation::None,
        false => pick(rng, &[Activation::None, Activation::None, Activation::Relu, Activation::Gelu]),
    };
    let name = |is_transposed: bool, names: [&'static str; 2]| names[usize::from(is_transposed)];
    let stored_as =
        [name(a_is_transposed, ["[m, k]", "[k, m]"]), name(b_is_transposed, ["[k, n]", "[n, k]"])];
    let types = match (T::NAME, precision) {
        ("f32", Precision::Tf32) => "tf32".to_owned(),
        _ => types::<T, O>(),
    };
    let (b_of_oracle, a_of_oracle) = (b.vectors(true), a.vectors(false));
    let (bias_of_oracle, residual_of_oracle) = (bias.clone(), residual.clone());
    let class = Class::new("matmul", types, format!("{} {}", stored_as[0], stored_as[1]));
    let words = format!(
        "{batch} x {m} x {n} x {k}, {values:?}, bias: {}, residual: {}, in place: {accumulates}, scale {scale}, {activation:?}, out {of_out:?}, a \
         {:?}, b {:?}, residual {of_residual:?}",
        bias.is_some(),
        residual.is_some(),
        a.place,
        b.place
    );
    let run = move |device: &Device, byte| {
        let (on_a, on_b) = (device.upload(&a.stored())?, device.upload(&b.stored())?);
        let on_bias = device.upload(bias.as_deref().unwrap_or_default())?;
        let on_residual = device.upload(&of_residual.filled(residual.as_deref().unwrap_or_default()))?;
        let before = residual.as_deref().filter(|_| accumulates).unwrap_or_default();
        let mut out = device.upload(&of_out.filled_between(before, byte))?;
        let mut call = Matmul::new().scale(scale).activation(activation).precision(precision);
        if bias.is_some() {
            call = call.bias(&on_bias);
        }
        if accumulates {
            call = call.accumulate();
        } else if residual.is_some() {
            call = call.residual(of_residual.view::<_, 4>(&on_residual)?);
        }
        call.run_into(device, of_out.view_mut::<_, 4>(&mut out)?, a.view(&on_a)?, b.view(&on_b)?)?;
        Ok(vec![("out", of_out.read(&out, byte)?)])
    };
    let expected = move || {
        let error = operand_error::<T>(precision);
        let bounds = (0..batch * m * n).map(|i| {
            let (matrix, row, col) = (i / (m * n), i / n % m, i % n);
            let a = &a_of_oracle[(matrix * m + row) * k..][..k];
            let sum = dot(a, &b_of_oracle[(matrix * n + col) * k..][..k]);
            let bias = bias_of_oracle.as_ref().map_or(0.0, |bias| bias[col].value().into());
            let residual = residual_of_oracle.as_ref().map_or(0.0, |it| it[i].value().into());
            bound::<O>(k, sum, error, Ends { scale: scale.into(), bias, residual, activation })
        });
        vec![("out", bounds.collect())]
    };
    let mut drawn = Drawn::of(class, words, run, expected).counting::<O>(!is_plain, &["out"]);
    if precision == Precision::Tf32 {
        drawn.ulp = 2f64.powi(-10);
    }
    drawn.refused_if(|limits| limits.capability < 80)
}
