//! The largest probabilities, and draws of tokens.

use cuda_std::half::{bf16, f16};
use cuda_std::testing::Layout as Dense;
use ferrowarp::softmax::sample::Outputs;
use gpu_kernels::softmax::sample::Noise;
use rand::{RngExt as _, rngs::StdRng};

use super::place::{Layout, Place, Size};
use super::softmax::{counted, logits, options, rows};
use super::{Class, Draw, Drawn, never, pick, ulp};
use crate::reference::{Draw as Choice, Number};
use crate::softmax::Rowwise as _;
use crate::softmax::backward::rounded;
use crate::softmax::sample::Sample;
use crate::softmax::top_k::TopK;

pub(super) fn top_k(rng: &mut StdRng, size: &Size) -> Drawn {
    pick::<Draw>(rng, &[top_k_of::<f32>, top_k_of::<f16>, top_k_of::<bf16>])(rng, size)
}

pub(super) fn sample(rng: &mut StdRng, size: &Size) -> Drawn {
    pick::<Draw>(rng, &[sample_of::<f32>, sample_of::<f16>, sample_of::<bf16>])(rng, size)
}

fn top_k_of<T: Number>(rng: &mut StdRng, size: &Size) -> Drawn {
    let shape @ [rows, cols] = rows(rng, size);
    let (layout, options, (logits, is_hard)) = (Layout::draw(rng), options(rng), logits(rng, shape));
    let k = if rng.random_bool(0.5) { rng.random_range(1..=128) } else { rng.random_range(1..=9) };
    let of_inp = Place::matrix::<T>(rng, layout, shape);
    let of_out = [0; 2].map(|_| Place::matrix::<f32>(rng, layout, [rows, k]));
    let stored = of_inp.filled(&rounded::<T>(&logits));
    let problem = TopK::dense(logits, cols, k, options);
    Drawn {
        class: Class::new("top-k", T::NAME, layout.name()),
        words: format!(
            "{k} of {rows} x {cols}, {options:?}, hard: {is_hard}, inp {of_inp:?}, out {of_out:?}"
        ),
        counted: counted(is_hard || options.is_log() || options.factor() != 1.0, &["probabilities"]),
        ulp: ulp::<f32>(),
        may_be_refused: Box::new(never),
        run: Box::new(move |device, byte| {
            let inp = device.upload(&stored)?;
            let from = of_inp.view_in(&inp)?;
            let [of_probabilities, of_indices] = &of_out;
            let mut probabilities = device.upload(&of_probabilities.unwritten::<f32>(byte))?;
            let mut indices = device.upload(&of_indices.unwritten::<u32>(byte))?;
            let to = of_probabilities.view_in_mut(&mut probabilities)?;
            let columns = of_indices.view_in_mut(&mut indices)?;
            ferrowarp::TopK::new(k).softmax(options).run_into(device, to, columns, from)?;
            let probabilities = of_probabilities.read(&probabilities, byte)?;
            Ok(vec![("probabilities", probabilities), ("indices", of_indices.read(&indices, byte)?)])
        }),
        expected: Box::new(move || problem.expected::<T>()),
    }
}

fn sample_of<T: Number>(rng: &mut StdRng, size: &Size) -> Drawn {
    let shape @ [rows, cols] = rows(rng, size);
    let (layout, (logits, is_hard)) = (Layout::draw(rng), logits(rng, shape));
    let draw = Choice {
        noise: Noise { seed: rng.random(), draw: rng.random(), row: 0 },
        temperature: pick(rng, &[1.0, 0.7, 2.5, 30.0, 0.01, 0.0]),
        top_k: pick(rng, &[0, 0, 1, 7, 128]),
        top_p: pick(rng, &[1.0, 0.9, 0.5, 0.999, 0.02]),
    };
    let wants_logarithms = rng.random_bool(0.5);
    let of_inp = Place::matrix::<T>(rng, layout, shape);
    let of_rows = Place::matrix::<u32>(rng, layout, [1, rows]);
    let stored = of_inp.filled(&rounded::<T>(&logits));
    let problem = Sample { layout: Dense::dense(rows, cols), logits, draw, wants_logarithms };
    let sampling = ferrowarp::Sample::new().seed(draw.noise.seed).draw(draw.noise.draw);
    let sampling = sampling.temperature(draw.temperature).top_p(draw.top_p);
    let sampling = if draw.top_k > 0 { sampling.top_k(draw.top_k) } else { sampling };
    Drawn {
        class: Class::new("sample", T::NAME, layout.name()),
        words: format!(
            "{rows} x {cols}, {sampling:?}, logarithms: {wants_logarithms}, hard: {is_hard}, {of_inp:?}"
        ),
        counted: &[],
        ulp: ulp::<f32>(),
        may_be_refused: Box::new(never),
        run: Box::new(move |device, byte| {
            let inp = device.upload(&stored)?;
            let from = of_inp.view_in(&inp)?;
            let mut tokens = device.upload(&of_rows.unwritten::<u32>(byte))?;
            let mut logarithms = device.upload(&of_rows.unwritten::<f32>(byte))?;
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
        }),
        expected: Box::new(move || {
            let all = problem.expected::<T>().into_iter();
            all.filter(|(name, _)| *name != "may be drawn").collect()
        }),
    }
}
