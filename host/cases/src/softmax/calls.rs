//! Tests of the operations that users call, on the device's own buffers. The cases launch the kernels directly.

use anyhow::Result;
use cuda_std::half::{bf16, f16};
use cuda_std::testing::Layout;
use ferrowarp::device::Device;
use ferrowarp::softmax::sample::Outputs;
use ferrowarp::{Softmax, Tensor};
use gpu_kernels::softmax::sample::Noise;

use super::backward::{Backward, rounded};
use super::cross_entropy::CrossEntropy;
use super::forward::Forward;
use super::logits::logits;
use super::rowwise::Rowwise as _;
use super::sample::Sample;
use super::top_k::TopK;
use crate::case::wide;
use crate::compare::{compare, compare_all};
use crate::reference::{Draw, Number};

/// Widths for kernels of about a warp, of a block, of a cluster, and for the pair.
const WIDTHS: [usize; 4] = [67, 2053, 40_000, 600_001];

/// Checks each operation in each type, at widths for each kind of kernel.
///
/// # Errors
/// A result is wrong, or the device failed.
pub fn are_right(device: &Device) -> Result<()> {
    for cols in WIDTHS {
        of_type::<f32>(device, cols)?;
        of_type::<f16>(device, cols)?;
        of_type::<bf16>(device, cols)?;
    }
    Ok(())
}

fn of_type<T: Number>(device: &Device, cols: usize) -> Result<()> {
    let layout = Layout::dense(2, cols);
    let problem = Forward { layouts: [layout; 2], options: Softmax::new(), logits: logits(2, cols) };
    let (inp, expected) = (rounded::<T>(&problem.logits), problem.expected::<T, T>());
    let mut matrix = device.tensor(&inp, [2, cols])?;
    let y = problem.options.run(device, &matrix)?;
    compare_all(&vec![("out", wide(&y.to_vec()?))], &expected)?;
    problem.options.run_in_place(device, &mut matrix)?;
    compare_all(&vec![("out", wide(&matrix.to_vec()?))], &expected)?;

    let problem = Backward::random([layout; 3], 0);
    let tensor = |numbers: &[f32]| device.tensor(&rounded::<T>(numbers), [2, cols]);
    let (dy, y) = (tensor(&problem.dy)?, tensor(&problem.y)?);
    let dx = Softmax::new().scale(problem.scale).backward(device, &dy, &y)?;
    compare_all(&vec![("dx", wide(&dx.to_vec()?))], &problem.expected::<T>())?;

    of_decoding::<T>(device, cols)?;
    let problem = CrossEntropy::random([layout; 3], 1);
    let (inp, targets) = (tensor(&problem.logits)?, device.upload(&problem.targets)?);
    let operation = ferrowarp::CrossEntropy::new().gradient_scale(problem.d_scale);
    let (loss, gradient) = operation.forward(device, &inp, &targets)?;
    for (name, bounds) in problem.expected::<T>() {
        match name {
            "loss" => compare(name, &wide(&loss.to_vec()?), &bounds)?,
            "gradient" => compare(name, &wide(&gradient.to_vec()?), &bounds)?,
            _ => 0.0,
        };
    }
    Ok(())
}

/// Checks the largest probabilities, and a token of each row with every kind of cut.
fn of_decoding<T: Number>(device: &Device, cols: usize) -> Result<()> {
    let (rows, k) = (2, 20);
    let problem = TopK::dense(logits(rows, cols), cols, k, Softmax::new());
    let inp = device.tensor(&rounded::<T>(&problem.logits), [rows, cols])?;
    let (probabilities, indices) = ferrowarp::TopK::new(k).softmax(problem.options).run(device, &inp)?;
    let got = vec![("probabilities", wide(&probabilities.to_vec()?)), ("indices", wide(&indices.to_vec()?))];
    compare_all(&got, &problem.expected::<T>())?;

    for (temperature, top_k, top_p) in [(0.0, 0, 1.0), (0.8, 0, 1.0), (1.0, 0, 0.9), (1.3, 40, 0.9)] {
        let noise = Noise { seed: 3, draw: cols as u64, row: 0 };
        let problem = Sample {
            layout: Layout::dense(rows, cols),
            logits: problem.logits.clone(),
            draw: Draw { noise, temperature, top_k, top_p },
            wants_logarithms: true,
        };
        let sample = ferrowarp::Sample::new().seed(noise.seed).draw(noise.draw);
        let sample = sample.temperature(temperature).top_p(top_p);
        let sample = if top_k > 0 { sample.top_k(top_k) } else { sample };
        let (mut tokens, mut logarithms) = (Tensor::zeros(device, [rows])?, Tensor::zeros(device, [rows])?);
        sample.run_into(device, Outputs::new(&mut tokens).log_probabilities(&mut logarithms), &inp)?;
        let (tokens, logarithms) = (tokens.to_vec()?, logarithms.to_vec()?);
        for (name, bounds) in problem.expected::<T>() {
            match name {
                "tokens" => compare(name, &wide(&tokens), &bounds)?,
                "log-probabilities" => compare(name, &wide(&logarithms), &bounds)?,
                _ => 0.0,
            };
        }
    }
    Ok(())
}
