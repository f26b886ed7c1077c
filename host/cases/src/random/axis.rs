//! Reductions, cumulative sums and transposes.

use bytemuck::Pod;
use cuda_std::testing::Element;
use ferrowarp::axis::CastTo;
use ferrowarp::{Cast, CumulativeSum, ElementAs, Fill, Reduce, Reduction, Transpose};
use rand::{RngExt as _, rngs::StdRng};

use super::drawn::{Class, Drawn, pick, types, uniform};
use super::layout::{Layout, Size};
use crate::axis::Operand;
use crate::compare::Bound;
use crate::reference::Number;

/// Elements between -1 and 1, or hard ones: with an offset, cancelling, equal, or with a NaN and infinities.
fn values<T: Number>(rng: &mut StdRng, len: usize, has_special: bool) -> (Vec<T>, bool) {
    let mut all: Vec<f32> = uniform(rng, len, 1.0);
    let kind = rng.random_range(0..10);
    match kind {
        0 => all.iter_mut().for_each(|x| *x += 100.0),
        1 => all.iter_mut().zip([1000.0, -1000.0].into_iter().cycle()).for_each(|(x, y)| *x += y),
        2 => all.fill(3.1),
        3 => all.iter_mut().for_each(|x| *x *= 1e-37),
        4 if has_special && len > 0 => {
            for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0] {
                all[rng.random_range(0..len)] = x;
            }
        }
        _ => {}
    }
    (all.into_iter().map(T::nearest).collect(), kind < 5)
}

pub(super) fn reduce<T: Number + ElementAs<O>, O: Number + ferrowarp::Element>(
    rng: &mut StdRng,
    size: &Size,
) -> Drawn {
    let shape @ [rows, cols] = size.matrix(rng);
    let layout = Layout::draw(rng);
    let is_of_rows = rng.random_bool(0.5);
    let operation =
        pick(rng, &[Reduction::Sum, Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min]);
    let (inp, is_hard) = values::<T>(rng, rows * cols, true);
    let of_inp = layout.matrix::<T>(rng, shape);
    let of_out = layout.matrix::<O>(rng, [1, if is_of_rows { rows } else { cols }]);
    let line = if is_of_rows { "rows" } else { "columns" };
    let is_sum = matches!(operation, Reduction::Sum | Reduction::Mean);
    let kind = format!("{} of {line}", format!("{operation:?}").to_lowercase());
    let oracle = Operand::<T>::dense(shape, (operation, is_of_rows, O::NAME != T::NAME), inp.clone());
    Drawn::unary::<T, O>(
        Class::new(kind, types::<T, O>(), layout.name()),
        &format!("{rows} x {cols}, hard: {is_hard}"),
        (of_inp, &inp),
        of_out,
        move |device, to, from| {
            let reduce = if is_of_rows { Reduce::rows(operation) } else { Reduce::columns(operation) };
            let len = to.shape()[1];
            reduce.run_into(device, to.reshape([len])?, from)
        },
        move || oracle.expected_reduce(),
    )
    .counting::<O>(is_hard || !is_sum, &["out"])
}

pub(super) fn scan<T: Number + ferrowarp::Element>(rng: &mut StdRng, size: &Size) -> Drawn {
    let shape @ [rows, cols] = size.matrix(rng);
    let layout = Layout::draw(rng);
    let (inp, is_hard) = values::<T>(rng, rows * cols, false);
    let [of_inp, of_out] = [0; 2].map(|_| layout.matrix::<T>(rng, shape));
    let oracle = Operand::<T>::dense(shape, (Reduction::Sum, true, false), inp.clone());
    Drawn::unary::<T, T>(
        Class::new("cumulative sum", T::NAME, layout.name()),
        &format!("{rows} x {cols}, hard: {is_hard}"),
        (of_inp, &inp),
        of_out,
        |device, to, from| CumulativeSum::new().run_into(device, to, from),
        move || oracle.expected_scan(),
    )
    .counting::<T>(is_hard, &["out"])
}

pub(super) fn transpose<W: Pod + Element + Send + Sync>(rng: &mut StdRng, size: &Size) -> Drawn {
    let shape @ [rows, cols] = size.matrix(rng);
    let layout = Layout::draw(rng);
    let (of_inp, of_out) = (layout.matrix::<W>(rng, shape), layout.matrix::<W>(rng, [cols, rows]));
    let bits: Vec<u32> = (0..rows * cols).map(|_| rng.random()).collect();
    let inp: Vec<W> = bits.iter().map(|bits| bytemuck::cast_slice(&[*bits])[0]).collect();
    Drawn::unary::<W, W>(
        Class::new("transpose", format!("{} bits", 8 * size_of::<W>()), layout.name()),
        &format!("{rows} x {cols}"),
        (of_inp, &inp.clone()),
        of_out,
        |device, to, from| Transpose::new().run_into(device, to, from),
        move || {
            let moved = (0..cols).flat_map(|col| (0..rows).map(move |row| row * cols + col));
            moved.map(|i| Bound::exact(inp[i].to_f64())).collect()
        },
    )
}

/// A copy of a matrix, of its transpose, of one of its rows for all rows, or one number everywhere.
pub(super) fn cast<T: Number + CastTo<O> + ferrowarp::Element, O: Number + ferrowarp::Element>(
    rng: &mut StdRng,
    size: &Size,
) -> Drawn {
    let shape @ [rows, cols] = size.matrix(rng);
    let layout = Layout::draw(rng);
    let (inp, is_hard) = values::<T>(rng, rows * cols, true);
    let (of_inp, of_out) = (layout.matrix::<T>(rng, shape), layout.matrix::<O>(rng, shape));
    let kind = pick(rng, &["copy", "transposes", "row", "fill"]);
    let kind = if rows * cols == 0 { "copy" } else { kind };
    let (row, value) = (rng.random_range(0..rows.max(1)), rng.random_range(-1e9f32..1e9));
    Drawn::unary::<T, O>(
        Class::new("cast", types::<T, O>(), layout.name()),
        &format!("{kind}, {rows} x {cols}, hard: {is_hard}, row {row}"),
        (of_inp, &inp.clone()),
        of_out,
        move |device, to, from| match kind {
            "copy" => Cast::new().run_into(device, to, from),
            "transposes" => Cast::new().run_into(device, to.t(), from.t()),
            "row" => Cast::new().run_into(device, to, from.slice(0, row..=row)?.broadcast([rows, cols])?),
            _ => Fill::new(value).run_into(device, to),
        },
        move || {
            let element = |i: usize| match kind {
                "row" => inp[row * cols + i % cols].value(),
                "fill" => value,
                _ => inp[i].value(),
            };
            let nearest = |i: usize| Bound::exact(O::nearest(element(i)).value().into());
            (0..rows * cols).map(nearest).collect()
        },
    )
}
