//! RMSNorm and LayerNorm, and their gradients.

use std::sync::Arc;

use ferrowarp::Element;
use ferrowarp::device::Device;
use ferrowarp::norm::{GradientOutputs, Norm, Outputs, Statistics};
use rand::{RngExt as _, rngs::StdRng};

use super::drawn::{Class, Drawn, only, pick, uniform, wanted};
use super::layout::{Layout, Size};
use super::softmax::rows;
use crate::norm::Operands;
use crate::reference::Number;

/// The fewest columns of norms whose errors count: those of fewer cancel nearly all digits.
const LEAST_COLUMNS: usize = 8;

/// Rows between -1 and 1, or hard ones: large against their deviations, equal, tiny, or with an outlier.
fn values<T: Number>(rng: &mut StdRng, [rows, cols]: [usize; 2]) -> (Vec<T>, bool) {
    let mut all: Vec<f32> = uniform(rng, rows * cols, 1.0);
    let is_hard = rng.random_bool(0.5);
    for row in all.chunks_mut(cols).filter(|_| is_hard) {
        match rng.random_range(0..6) {
            0 => row.iter_mut().for_each(|x| *x += 100.0),
            1 => row.iter_mut().for_each(|x| *x += 10_000.0),
            2 => row.fill(pick(rng, &[0.75, 3333.33, -1e4, 0.0])),
            3 => row.iter_mut().for_each(|x| *x *= 1e-5),
            4 => row[rng.random_range(0..cols)] = 1000.0,
            _ => {}
        }
    }
    (all.into_iter().map(T::nearest).collect(), is_hard)
}

/// The operands, and the name of the operation.
fn operands<T: Number + Element>(
    rng: &mut StdRng,
    shape @ [rows, cols]: [usize; 2],
    has: [bool; 4],
) -> (Operands<T>, [Vec<T>; 6], (bool, f32), bool) {
    let (is_centred, epsilon) = (rng.random_bool(0.5), pick(rng, &[1e-5, 1e-5, 1e-6, 1e-3]));
    let (inp, is_hard) = values::<T>(rng, shape);
    // An operand that is left out is 0 or 1 in the oracle.
    let mut numbers = |has: bool, len: usize, other: f32| match has {
        true => uniform(rng, len, 1.0),
        false => vec![T::nearest(other); len],
    };
    let [has_residual, has_weight, has_bias, has_d_sum] = has;
    let all = [
        inp,
        numbers(has_residual, rows * cols, 0.0),
        numbers(has_weight, cols, 1.0),
        numbers(has_bias, cols, 0.0),
        numbers(true, rows * cols, 0.0),
        numbers(has_d_sum, rows * cols, 0.0),
    ];
    (Operands::dense(shape, (is_centred, epsilon), all.clone()), all, (is_centred, epsilon), is_hard)
}

pub(super) fn forward<T: Number + Element>(rng: &mut StdRng, size: &Size) -> Drawn {
    let shape @ [rows, cols] = rows(rng, size);
    let layout = Layout::draw(rng);
    let has @ [has_residual, has_weight, has_bias, _] = [0; 4].map(|_| rng.random_bool(0.5));
    let [has_sum, has_mean, has_rstd] = [0; 3].map(|_| rng.random_bool(0.5));
    let (oracle, [inp, residual, weight, bias, ..], (is_centred, epsilon), is_hard) =
        operands::<T>(rng, shape, has);
    let [of_inp, of_out, of_residual, of_sum] = [0; 4].map(|_| layout.matrix::<T>(rng, shape));
    let of_cols = layout.matrix::<T>(rng, [1, cols]);
    let of_rows = layout.matrix::<f32>(rng, [1, rows]);
    let name = if is_centred { "LayerNorm" } else { "RMSNorm" };
    let names = [("out", true), ("mean", has_mean), ("rstd", has_rstd), ("sum", has_sum)];
    let class = Class::new(name, T::NAME, layout.name());
    let words = format!(
        "{rows} x {cols}, epsilon {epsilon:e}, residual, weight, bias, _: {has:?}, {names:?}, hard: {is_hard}, inp \
         {of_inp:?}, out {of_out:?}, residual {of_residual:?}, sum {of_sum:?}, columns {of_cols:?}"
    );
    let run = move |device: &Device, byte| {
        let (on_inp, on_residual) = (of_inp.input(device, &inp)?, of_residual.input(device, &residual)?);
        let (on_weight, on_bias) = (of_cols.input(device, &weight)?, of_cols.input(device, &bias)?);
        let mut out = of_out.output::<T>(device, byte)?;
        let mut sum = of_sum.output::<T>(device, byte)?;
        let mut mean = of_rows.output::<f32>(device, byte)?;
        let mut rstd = of_rows.output::<f32>(device, byte)?;
        let mut norm = if is_centred { Norm::layer() } else { Norm::rms() }.epsilon(epsilon);
        let mut outputs = Outputs::new(of_out.view_mut::<_, 2>(&mut out)?);
        if has_weight {
            norm = norm.weight(on_weight.view(of_cols.row())?);
        }
        if has_bias {
            norm = norm.bias(on_bias.view(of_cols.row())?);
        }
        if has_residual {
            norm = norm.residual(of_residual.view::<_, 2>(&on_residual)?);
        }
        if has_sum {
            outputs = outputs.sum(of_sum.view_mut::<_, 2>(&mut sum)?);
        }
        if has_mean {
            outputs = outputs.mean(mean.view_mut(of_rows.row())?);
        }
        if has_rstd {
            outputs = outputs.rstd(rstd.view_mut(of_rows.row())?);
        }
        norm.run_into(device, outputs, of_inp.view::<_, 2>(&on_inp)?)?;
        let outputs = vec![
            ("out", of_out.read(&out, byte)?),
            ("mean", of_rows.read(&mean, byte)?),
            ("rstd", of_rows.read(&rstd, byte)?),
            ("sum", of_sum.read(&sum, byte)?),
        ];
        Ok(only(&wanted(&names), outputs))
    };
    Drawn::of(class, words, run, move || only(&wanted(&names), oracle.expected_forward()))
        .counting::<T>(is_hard || cols < LEAST_COLUMNS, &["out"])
}

pub(super) fn backward<T: Number + Element>(rng: &mut StdRng, size: &Size) -> Drawn {
    let shape @ [rows, cols] = rows(rng, size);
    let layout = Layout::draw(rng);
    let [has_weight, has_d_sum, has_d_weight, has_d_bias] = [0; 4].map(|_| rng.random_bool(0.5));
    let (oracle, [inp, _, weight, _, d_out, d_sum], (is_centred, epsilon), is_hard) =
        operands::<T>(rng, shape, [false, has_weight, false, has_d_sum]);
    let oracle = Arc::new(oracle);
    let [of_inp, of_d_inp, of_d_out, of_d_sum] = [0; 4].map(|_| layout.matrix::<T>(rng, shape));
    let of_cols = layout.matrix::<T>(rng, [1, cols]);
    let name = if is_centred { "LayerNorm backward" } else { "RMSNorm backward" };
    let names = [("d_inp", true), ("d_weight", has_d_weight), ("d_bias", has_d_bias)];
    let on_run = oracle.clone();
    let class = Class::new(name, T::NAME, layout.name());
    let words = format!(
        "{rows} x {cols}, epsilon {epsilon:e}, weight: {has_weight}, d_sum: {has_d_sum}, {names:?}, hard: {is_hard}, inp \
         {of_inp:?}, d_inp {of_d_inp:?}, d_out {of_d_out:?}, d_sum {of_d_sum:?}, columns {of_cols:?}"
    );
    let run = move |device: &Device, byte| {
        let (on_inp, on_d_out) = (of_inp.input(device, &inp)?, of_d_out.input(device, &d_out)?);
        let (on_d_sum, on_weight) = (of_d_sum.input(device, &d_sum)?, of_cols.input(device, &weight)?);
        let (mean, rstd) = (device.upload(&on_run.mean)?, device.upload(&on_run.rstd)?);
        let mut d_inp = of_d_inp.output::<T>(device, byte)?;
        let mut d_weight = of_cols.output::<T>(device, byte)?;
        let mut d_bias = of_cols.output::<T>(device, byte)?;
        let mut outputs = GradientOutputs::new(of_d_inp.view_mut::<_, 2>(&mut d_inp)?);
        let (mut norm, statistics) = match is_centred {
            true => (Norm::layer(), Statistics::layer(&mean, &rstd)),
            false => (Norm::rms(), Statistics::rms(&rstd)),
        };
        if has_weight {
            norm = norm.weight(on_weight.view(of_cols.row())?);
        }
        if has_d_sum {
            norm = norm.sum_gradient(of_d_sum.view::<_, 2>(&on_d_sum)?);
        }
        if has_d_weight {
            outputs = outputs.weight(d_weight.view_mut(of_cols.row())?);
        }
        if has_d_bias {
            outputs = outputs.bias(d_bias.view_mut(of_cols.row())?);
        }
        let (d_out, x) = (of_d_out.view::<_, 2>(&on_d_out)?, of_inp.view::<_, 2>(&on_inp)?);
        norm.backward_into(device, outputs, d_out, x, statistics)?;
        let outputs = vec![
            ("d_inp", of_d_inp.read(&d_inp, byte)?),
            ("d_weight", of_cols.read(&d_weight, byte)?),
            ("d_bias", of_cols.read(&d_bias, byte)?),
        ];
        Ok(only(&wanted(&names), outputs))
    };
    Drawn::of(class, words, run, move || only(&wanted(&names), oracle.expected_backward()))
        .counting::<T>(is_hard || cols < LEAST_COLUMNS, &["d_inp", "d_weight"])
}
