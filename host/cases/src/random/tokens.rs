//! The largest probabilities, and draws of tokens.

use cuda_std::testing::Layout as Dense;
use ferrowarp::device::Device;
use ferrowarp::softmax::sample::Outputs;
use gpu_kernels::softmax::sample::Noise;
use rand::{RngExt as _, rngs::StdRng};

use super::drawn::{Class, Drawn, pick};
use super::layout::{Layout, Size};
use super::softmax::{logits, options, rows};
use crate::reference::{Draw as Choice, Number};
use crate::softmax::backward::rounded;
use crate::softmax::rowwise::Rowwise as _;
use crate::softmax::sample::Sample;
use crate::softmax::top_k::TopK;

pub(super) fn top_k<T: Number>(rng: &mut StdRng, size: &Size) -> Drawn {
    let shape @ [rows, cols] = rows(rng, size);
    let (layout, options, (logits, is_hard)) = (Layout::draw(rng), options(rng), logits(rng, shape));
    let k = if rng.random_bool(0.5) { rng.random_range(1..=128) } else { rng.random_range(1..=9) };
    let of_inp = layout.matrix::<T>(rng, shape);
    let of_out = [0; 2].map(|_| layout.matrix::<f32>(rng, [rows, k]));
    let inp = rounded::<T>(&logits);
    let problem = TopK::dense(logits, cols, k, options);
    let class = Class::new("top-k", T::NAME, layout.name());
    let words =
        format!("{k} of {rows} x {cols}, {options:?}, hard: {is_hard}, inp {of_inp:?}, out {of_out:?}");
    let run = move |device: &Device, byte| {
        let inp = of_inp.input(device, &inp)?;
        let from = of_inp.view::<_, 2>(&inp)?;
        let [of_probabilities, of_indices] = &of_out;
        let mut probabilities = of_probabilities.output::<f32>(device, byte)?;
        let mut indices = of_indices.output::<u32>(device, byte)?;
        let to = of_probabilities.view_mut::<_, 2>(&mut probabilities)?;
        let columns = of_indices.view_mut::<_, 2>(&mut indices)?;
        ferrowarp::TopK::new(k).softmax(options).run_into(device, to, columns, from)?;
        let probabilities = of_probabilities.read(&probabilities, byte)?;
        Ok(vec![("probabilities", probabilities), ("indices", of_indices.read(&indices, byte)?)])
    };
    let is_hard = is_hard || options.is_log() || options.factor() != 1.0;
    Drawn::of(class, words, run, move || problem.expected::<T>()).counting::<f32>(is_hard, &["probabilities"])
}

pub(super) fn sample<T: Number>(rng: &mut StdRng, size: &Size) -> Drawn {
    let shape @ [rows, cols] = rows(rng, size);
    let (layout, (logits, is_hard)) = (Layout::draw(rng), logits(rng, shape));
    let draw = Choice {
        noise: Noise { seed: rng.random(), draw: rng.random(), row: 0 },
        temperature: pick(rng, &[1.0, 0.7, 2.5, 30.0, 0.01, 0.0]),
        top_k: pick(rng, &[0, 0, 1, 7, 128]),
        top_p: pick(rng, &[1.0, 0.9, 0.5, 0.999, 0.02]),
    };
    let wants_logarithms = rng.random_bool(0.5);
    let of_inp = layout.matrix::<T>(rng, shape);
    let of_rows = layout.matrix::<u32>(rng, [1, rows]);
    let inp = rounded::<T>(&logits);
    let problem = Sample { layout: Dense::dense(rows, cols), logits, draw, wants_logarithms };
    let sampling = ferrowarp::Sample::new().seed(draw.noise.seed).draw(draw.noise.draw);
    let sampling = sampling.temperature(draw.temperature).top_p(draw.top_p);
    let sampling = if draw.top_k > 0 { sampling.top_k(draw.top_k) } else { sampling };
    let class = Class::new("sample", T::NAME, layout.name());
    let words =
        format!("{rows} x {cols}, {sampling:?}, logarithms: {wants_logarithms}, hard: {is_hard}, {of_inp:?}");
    let run = move |device: &Device, byte| {
        let inp = of_inp.input(device, &inp)?;
        let from = of_inp.view::<_, 2>(&inp)?;
        let mut tokens = of_rows.output::<u32>(device, byte)?;
        let mut logarithms = of_rows.output::<f32>(device, byte)?;
        let mut to = Outputs::new(tokens.view_mut(of_rows.row())?);
        if wants_logarithms {
            to = to.log_probabilities(logarithms.view_mut(of_rows.row())?);
        }
        sampling.run_into(device, to, from)?;
        let mut outputs = vec![("tokens", of_rows.read(&tokens, byte)?)];
        if wants_logarithms {
            outputs.push(("log-probabilities", of_rows.read(&logarithms, byte)?));
        }
        Ok(outputs)
    };
    let expected = move || {
        let all = problem.expected::<T>().into_iter();
        all.filter(|(name, _)| *name != "may be drawn").collect()
    };
    Drawn::of(class, words, run, expected)
}
