//! Reductions, cumulative sums and transposes.

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::testing::Element;
use ferrowarp::axis::CastTo;
use ferrowarp::{Cast, CumulativeSum, ElementAs, Fill, Reduce, Reduction, Transpose};
use rand::{RngExt as _, rngs::StdRng};

use super::place::{Layout, Place, Size};
use super::softmax::counted;
use super::{Class, Draw, Drawn, never, pick, types, ulp, uniform};
use crate::axis::Operand;
use crate::compare::Bound;
use crate::reference::Number;

pub(super) fn reduce(rng: &mut StdRng, size: &Size) -> Drawn {
    pick::<Draw>(
        rng,
        &[
            reduce_of::<f32, f32>,
            reduce_of::<f16, f16>,
            reduce_of::<bf16, bf16>,
            reduce_of::<f16, f32>,
            reduce_of::<bf16, f32>,
        ],
    )(rng, size)
}

pub(super) fn scan(rng: &mut StdRng, size: &Size) -> Drawn {
    pick::<Draw>(rng, &[scan_of::<f32>, scan_of::<f16>, scan_of::<bf16>])(rng, size)
}

pub(super) fn transpose(rng: &mut StdRng, size: &Size) -> Drawn {
    match rng.random_bool(0.5) {
        true => transpose_of::<u16>(rng, size, "16 bits", |bits| bits as u16),
        false => transpose_of::<u32>(rng, size, "32 bits", |bits| bits),
    }
}

pub(super) fn cast(rng: &mut StdRng, size: &Size) -> Drawn {
    pick::<Draw>(
        rng,
        &[
            cast_of::<f32, f32>,
            cast_of::<f32, f16>,
            cast_of::<f32, bf16>,
            cast_of::<f16, f32>,
            cast_of::<f16, f16>,
            cast_of::<f16, bf16>,
            cast_of::<bf16, f32>,
            cast_of::<bf16, f16>,
            cast_of::<bf16, bf16>,
        ],
    )(rng, size)
}

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

fn reduce_of<T: Number + ElementAs<O>, O: Number + ferrowarp::Element>(
    rng: &mut StdRng,
    size: &Size,
) -> Drawn {
    let shape @ [rows, cols] = size.matrix(rng);
    let layout = Layout::draw(rng);
    let is_of_rows = rng.random_bool(0.5);
    let operation =
        pick(rng, &[Reduction::Sum, Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min]);
    let (inp, is_hard) = values::<T>(rng, rows * cols, true);
    let of_inp = Place::matrix::<T>(rng, layout, shape);
    let len = if is_of_rows { rows } else { cols };
    let of_out = Place::matrix::<O>(rng, layout, [1, len]);
    let stored = of_inp.filled(&inp);
    let line = if is_of_rows { "rows" } else { "columns" };
    let is_sum = matches!(operation, Reduction::Sum | Reduction::Mean);
    let oracle = Operand::<T>::dense(shape, (operation, is_of_rows, O::NAME != T::NAME), inp);
    Drawn {
        class: Class::new(
            format!("{} of {line}", format!("{operation:?}").to_lowercase()),
            types::<T, O>(),
            layout.name(),
        ),
        words: format!("{rows} x {cols}, hard: {is_hard}, inp {of_inp:?}, out {of_out:?}"),
        counted: counted(is_hard || !is_sum, &["out"]),
        ulp: ulp::<O>(),
        may_be_refused: Box::new(never),
        run: Box::new(move |device, byte| {
            let inp = device.upload(&stored)?;
            let mut out = device.upload(&of_out.unwritten::<O>(byte))?;
            let reduce = if is_of_rows { Reduce::rows(operation) } else { Reduce::columns(operation) };
            reduce.run_into(device, out.view_mut(of_out.row())?, of_inp.view_in(&inp)?)?;
            Ok(vec![("out", of_out.read(&out, byte)?)])
        }),
        expected: Box::new(move || vec![("out", oracle.expected_reduce())]),
    }
}

fn scan_of<T: Number + ferrowarp::Element>(rng: &mut StdRng, size: &Size) -> Drawn {
    let shape @ [rows, cols] = size.matrix(rng);
    let layout = Layout::draw(rng);
    let (inp, is_hard) = values::<T>(rng, rows * cols, false);
    let [of_inp, of_out] = [0; 2].map(|_| Place::matrix::<T>(rng, layout, shape));
    let stored = of_inp.filled(&inp);
    let oracle = Operand::<T>::dense(shape, (Reduction::Sum, true, false), inp);
    Drawn {
        class: Class::new("cumulative sum", T::NAME, layout.name()),
        words: format!("{rows} x {cols}, hard: {is_hard}, inp {of_inp:?}, out {of_out:?}"),
        counted: counted(is_hard, &["out"]),
        ulp: ulp::<T>(),
        may_be_refused: Box::new(never),
        run: Box::new(move |device, byte| {
            let inp = device.upload(&stored)?;
            let mut out = device.upload(&of_out.unwritten::<T>(byte))?;
            CumulativeSum::new().run_into(device, of_out.view_in_mut(&mut out)?, of_inp.view_in(&inp)?)?;
            Ok(vec![("out", of_out.read(&out, byte)?)])
        }),
        expected: Box::new(move || vec![("out", oracle.expected_scan())]),
    }
}

fn transpose_of<W: Pod + Element>(rng: &mut StdRng, size: &Size, name: &str, word: fn(u32) -> W) -> Drawn {
    let shape @ [rows, cols] = size.matrix(rng);
    let layout = Layout::draw(rng);
    let of_inp = Place::matrix::<W>(rng, layout, shape);
    let of_out = Place::matrix::<W>(rng, layout, [cols, rows]);
    let inp: Vec<W> = (0..rows * cols).map(|_| word(rng.random())).collect();
    let stored = of_inp.filled(&inp);
    Drawn {
        class: Class::new("transpose", name, layout.name()),
        words: format!("{rows} x {cols}, inp {of_inp:?}, out {of_out:?}"),
        counted: &[],
        ulp: 1.0,
        may_be_refused: Box::new(never),
        run: Box::new(move |device, byte| {
            let inp = device.upload(&stored)?;
            let mut out = device.upload(&of_out.unwritten::<W>(byte))?;
            Transpose::new().run_into(device, of_out.view_in_mut(&mut out)?, of_inp.view_in(&inp)?)?;
            Ok(vec![("out", of_out.read(&out, byte)?)])
        }),
        expected: Box::new(move || {
            let moved = (0..cols).flat_map(|col| (0..rows).map(move |row| row * cols + col));
            vec![("out", moved.map(|i| Bound::exact(inp[i].to_f64())).collect())]
        }),
    }
}

/// A copy of a matrix, of its transpose, of one of its rows for all rows, or one number everywhere.
fn cast_of<T: Number + CastTo<O> + ferrowarp::Element, O: Number + ferrowarp::Element>(
    rng: &mut StdRng,
    size: &Size,
) -> Drawn {
    let shape @ [rows, cols] = size.matrix(rng);
    let layout = Layout::draw(rng);
    let (inp, is_hard) = values::<T>(rng, rows * cols, true);
    let [of_inp, of_out] = [Place::matrix::<T>(rng, layout, shape), Place::matrix::<O>(rng, layout, shape)];
    let kind = pick(rng, &["copy", "transposes", "row", "fill"]);
    let kind = if rows * cols == 0 { "copy" } else { kind };
    let (row, value) = (rng.random_range(0..rows.max(1)), rng.random_range(-1e9f32..1e9));
    let stored = of_inp.filled(&inp);
    let words =
        format!("{kind}, {rows} x {cols}, hard: {is_hard}, row {row}, inp {of_inp:?}, out {of_out:?}");
    Drawn {
        class: Class::new("cast", types::<T, O>(), layout.name()),
        words,
        counted: &[],
        ulp: ulp::<O>(),
        may_be_refused: Box::new(never),
        run: Box::new(move |device, byte| {
            let inp = device.upload(&stored)?;
            let mut out = device.upload(&of_out.unwritten::<O>(byte))?;
            let (to, from) = (of_out.view_in_mut(&mut out)?, of_inp.view_in(&inp)?);
            match kind {
                "copy" => Cast::new().run_into(device, to, from)?,
                "transposes" => Cast::new().run_into(device, to.t(), from.t())?,
                "row" => {
                    Cast::new().run_into(device, to, from.slice(0, row..=row)?.broadcast([rows, cols])?)?
                }
                _ => Fill::new(value).run_into(device, to)?,
            }
            Ok(vec![("out", of_out.read(&out, byte)?)])
        }),
        expected: Box::new(move || {
            let element = |i: usize| match kind {
                "row" => inp[row * cols + i % cols].value(),
                "fill" => value,
                _ => inp[i].value(),
            };
            let nearest = |i: usize| Bound::exact(O::nearest(element(i)).value().into());
            vec![("out", (0..rows * cols).map(nearest).collect())]
        }),
    }
}
