//! Softmax, its gradient, and cross entropy.

use cuda_std::testing::Layout as Dense;
use ferrowarp::device::Device;
use ferrowarp::softmax::SoftmaxAs;
use ferrowarp::softmax::cross_entropy::Outputs;
use ferrowarp::{CrossEntropy, Softmax};
use rand::{RngExt as _, rngs::StdRng};

use super::drawn::{Class, Drawn, only, pick, types, uniform, wanted};
use super::layout::{Layout, Size};
use crate::reference::{Number, RELATIVE, softmax_bounds};
use crate::softmax::backward::{Backward, rounded};
use crate::softmax::cross_entropy::{self, IGNORED};
use crate::softmax::logits::edge_rows;
use crate::softmax::rowwise::Rowwise as _;

/// Rows of at least one column.
pub(super) fn rows(rng: &mut StdRng, size: &Size) -> [usize; 2] {
    let [rows, cols] = size.matrix(rng);
    [rows, cols.max(1)]
}

/// Logits between -8 and 8, or rows that are hard; and whether they are hard.
pub(super) fn logits(rng: &mut StdRng, [rows, cols]: [usize; 2]) -> (Vec<f32>, bool) {
    let mut all: Vec<f32> = uniform(rng, rows * cols, 8.0);
    let is_hard = rng.random_bool(0.5);
    let edges = if is_hard && cols >= 5 { edge_rows(cols) } else { Vec::new() };
    for row in all.chunks_mut(cols).filter(|_| is_hard) {
        match rng.random_range(0..8 + edges.len()) {
            0 => row.fill(3.5),
            1 => row.iter_mut().for_each(|x| *x += 1e4),
            2 => row.iter_mut().for_each(|x| *x = *x * 4.0 - 5e4),
            3 => row.iter_mut().for_each(|x| *x *= 1e-39),
            4 => row[rng.random_range(0..cols)] = pick(rng, &[90.0, f32::INFINITY, f32::NAN, f32::MAX]),
            5 => row.iter_mut().for_each(|x| *x = if *x < 0.0 { f32::NEG_INFINITY } else { *x }),
            6 => row.iter_mut().for_each(|x| *x = x.round()),
            7 => {}
            edge => row.copy_from_slice(&edges[edge - 8].1),
        }
    }
    (all, is_hard)
}

/// A scale, and whether completely masked rows give 0.
pub(super) fn options(rng: &mut StdRng) -> Softmax {
    let options = if rng.random_bool(0.5) { Softmax::new().log() } else { Softmax::new() };
    let options = if rng.random_ratio(1, 4) { options.zero_masked() } else { options };
    if rng.random_ratio(1, 4) { options.scale(10f32.powf(rng.random_range(-3.0..3.0))) } else { options }
}

fn class<I: Number, O: Number>(options: &Softmax, layout: Layout) -> Class {
    Class::new(if options.is_log() { "log-softmax" } else { "softmax" }, types::<I, O>(), layout.name())
}

/// The values of elements.
fn values<T: Number>(elements: &[T]) -> Vec<f32> {
    elements.iter().map(|x| x.value()).collect()
}

pub(super) fn forward<I: Number + SoftmaxAs<O>, O: Number>(rng: &mut StdRng, size: &Size) -> Drawn {
    let shape @ [rows, cols] = rows(rng, size);
    let (layout, options, (logits, is_hard)) = (Layout::draw(rng), options(rng), logits(rng, shape));
    let (of_out, of_inp) = (layout.matrix::<O>(rng, shape), layout.matrix::<I>(rng, shape));
    let inp: Vec<I> = rounded(&logits);
    Drawn::unary(
        class::<I, O>(&options, layout),
        &format!("{rows} x {cols}, {options:?}, hard: {is_hard}"),
        (of_inp, &inp.clone()),
        of_out,
        move |device, to, from| options.run_into(device, to, from),
        move || softmax_bounds::<O>(&values(&inp), cols, &options, RELATIVE),
    )
    .counting::<O>(is_hard || options.factor() != 1.0, &["out"])
}

pub(super) fn in_place<T: Number>(rng: &mut StdRng, size: &Size) -> Drawn {
    let shape @ [rows, cols] = rows(rng, size);
    let (layout, options, (logits, is_hard)) = (Layout::draw(rng), options(rng), logits(rng, shape));
    let place = layout.matrix::<T>(rng, shape);
    let inp: Vec<T> = rounded(&logits);
    let words = format!("in place, {rows} x {cols}, {options:?}, hard: {is_hard}, {place:?}");
    let to_run = inp.clone();
    let run = move |device: &Device, byte| {
        let mut matrix = device.upload(&place.filled_between(&to_run, byte))?;
        options.run_in_place(device, place.view_mut::<_, 2>(&mut matrix)?)?;
        Ok(vec![("out", place.read(&matrix, byte)?)])
    };
    let expected = move || vec![("out", softmax_bounds::<T>(&values(&inp), cols, &options, RELATIVE))];
    Drawn::of(class::<T, T>(&options, layout), words, run, expected)
}

pub(super) fn backward<T: Number>(rng: &mut StdRng, size: &Size) -> Drawn {
    let shape @ [rows, cols] = rows(rng, size);
    let layout = Layout::draw(rng);
    let [of_dx, of_dy, of_y] = [0; 3].map(|_| layout.matrix::<T>(rng, shape));
    let is_in_place = rng.random_ratio(1, 4);
    let problem = Backward::random([Dense::dense(rows, cols); 3], rng.random());
    let (dy, y): (Vec<T>, Vec<T>) = (rounded(&problem.dy), rounded(&problem.y));
    let options = Softmax::new().scale(problem.scale);
    let options = if problem.is_log { options.log() } else { options };
    let operation = if problem.is_log { "log-softmax backward" } else { "softmax backward" };
    let words = format!("{rows} x {cols}, in place: {is_in_place}, dx {of_dx:?}, dy {of_dy:?}, y {of_y:?}");
    let run = move |device: &Device, byte| {
        let y = of_y.input(device, &y)?;
        let y = of_y.view::<_, 2>(&y)?;
        let (of_out, before) = if is_in_place { (&of_dy, &dy[..]) } else { (&of_dx, &[][..]) };
        let mut out = device.upload(&of_out.filled_between(before, byte))?;
        let to = of_out.view_mut::<_, 2>(&mut out)?;
        if is_in_place {
            options.backward_in_place(device, to, y)?;
        } else {
            let dy = of_dy.input(device, &dy)?;
            options.backward_into(device, to, of_dy.view::<_, 2>(&dy)?, y)?;
        }
        Ok(vec![("dx", of_out.read(&out, byte)?)])
    };
    Drawn::of(Class::new(operation, T::NAME, layout.name()), words, run, move || problem.expected::<T>())
        .counting::<T>(false, &["dx"])
}

/// The bytes of a target.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Classes {
    I64,
    I32,
    U32,
    U8,
}

pub(super) fn cross_entropy<T: Number>(rng: &mut StdRng, size: &Size) -> Drawn {
    let shape @ [rows, cols] = rows(rng, size);
    let (layout, (logits, is_hard)) = (Layout::draw(rng), logits(rng, shape));
    let kind = pick(rng, &[Classes::I64, Classes::I32, Classes::U32, Classes::U8]);
    let has_negative = matches!(kind, Classes::I64 | Classes::I32);
    let targets = (0..rows).map(|_| match rng.random_range(0..16) {
        0 if is_hard && has_negative => pick(rng, &[IGNORED, -1]),
        1 if is_hard && kind != Classes::U8 => cols as i64 + rng.random_range(0..3),
        _ => rng.random_range(0..if kind == Classes::U8 { cols.min(256) } else { cols }) as i64,
    });
    let targets: Vec<i64> = targets.collect();
    let d_loss = rng.random_bool(0.5).then(|| uniform::<f32>(rng, rows, 1.0));
    let [has_lse, has_correct, is_in_place] = [0; 3].map(|_| rng.random_bool(0.5));
    let has_gradient = is_in_place || rng.random_bool(0.7);
    let (of_gradient, of_logits) = (layout.matrix::<T>(rng, shape), layout.matrix::<T>(rng, shape));
    let of_rows = layout.matrix::<f32>(rng, [1, rows]);
    let dense = [Dense::dense(rows, cols); 2];
    let d_scale = if has_gradient { pick(rng, &[1.0, 0.25, 3.7]) } else { 1.0 };
    let inp: Vec<T> = rounded(&logits);
    let problem =
        cross_entropy::CrossEntropy { layouts: dense, logits, targets: targets.clone(), d_loss, d_scale };
    let d_loss = problem.d_loss.clone();
    let names = [("loss", true), ("lse", has_lse), ("correct", has_correct), ("gradient", has_gradient)];
    let names = wanted(&names);
    let on_run = names.clone();
    let class = Class::new("cross entropy", T::NAME, layout.name());
    let words = format!(
        "{rows} x {cols}, {names:?}, targets {kind:?}, row gradients: {}, in place: {is_in_place}, hard: {is_hard}, logits \
         {of_logits:?}, gradient {of_gradient:?}, rows {of_rows:?}",
        d_loss.is_some()
    );
    let run = move |device: &Device, byte| {
        let u8s = device.upload(&targets.iter().map(|&x| x as u8).collect::<Vec<_>>())?;
        let u32s = device.upload(&targets.iter().map(|&x| x as u32).collect::<Vec<_>>())?;
        let i32s = device.upload(&targets.iter().map(|&x| x as i32).collect::<Vec<_>>())?;
        let i64s = device.upload(&targets)?;
        let mut loss = of_rows.output::<f32>(device, byte)?;
        let mut lse = of_rows.output::<f32>(device, byte)?;
        let mut correct = of_rows.output::<u32>(device, byte)?;
        let row_gradients = device.upload(d_loss.as_deref().unwrap_or_default())?;
        let (of_out, before) = if is_in_place { (&of_logits, &inp[..]) } else { (&of_gradient, &[][..]) };
        let mut gradient = device.upload(&of_out.filled_between(before, byte))?;
        let logits = of_logits.input(device, &inp)?;
        let (to, from) = (of_out.view_mut::<_, 2>(&mut gradient)?, of_logits.view::<_, 2>(&logits)?);
        let mut call = CrossEntropy::new().gradient_scale(d_scale);
        if d_loss.is_some() {
            call = call.row_gradients(&row_gradients);
        }
        let mut outputs = Outputs::new(loss.view_mut(of_rows.row())?);
        if has_lse {
            outputs = outputs.log_sum_exp(lse.view_mut(of_rows.row())?);
        }
        if has_correct {
            outputs = outputs.correct(correct.view_mut(of_rows.row())?);
        }
        macro_rules! run {
            ($targets:ident) => {
                if is_in_place {
                    call.run_in_place(device, outputs, to, &$targets)
                } else if has_gradient {
                    call.run_into(device, outputs.gradient(to), from, &$targets)
                } else {
                    call.run_into(device, outputs, from, &$targets)
                }
            };
        }
        match kind {
            Classes::I64 => run!(i64s),
            Classes::I32 => run!(i32s),
            Classes::U32 => run!(u32s),
            Classes::U8 => run!(u8s),
        }?;
        let outputs = vec![
            ("loss", of_rows.read(&loss, byte)?),
            ("lse", of_rows.read(&lse, byte)?),
            ("correct", of_rows.read(&correct, byte)?),
            ("gradient", of_out.read(&gradient, byte)?),
        ];
        Ok(only(&on_run, outputs))
    };
    Drawn::of(class, words, run, move || only(&names, problem.expected::<T>()))
        .counting::<T>(is_hard, if has_gradient { &["gradient"] } else { &[] })
}
