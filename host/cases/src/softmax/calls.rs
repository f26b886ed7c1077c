//! Tests of the functions that users call, on the device's own buffers. The cases launch the kernels directly.

use anyhow::Result;
use cuda_std::half::{bf16, f16};
use cuda_std::testing::Layout;
use ferrowarp::device::Device;
use ferrowarp::softmax::{
    CrossEntropy as Call, Matrix, MatrixMut, Options, Sampling, sample_with_log_probabilities,
    softmax_backward, softmax_in_place, softmax_of_slice, softmax_top_k,
};
use gpu_kernels::softmax::sample::Noise;

use super::Rowwise as _;
use super::backward::{Backward, rounded};
use super::cross_entropy::CrossEntropy;
use super::forward::Forward;
use super::logits::logits;
use super::sample::Sample;
use super::top_k::TopK;
use crate::case::wide;
use crate::compare::{compare, compare_all};
use crate::reference::{Draw, Number};

/// Widths for kernels of about a warp, of a block, of a cluster, and for the pair.
const WIDTHS: [usize; 4] = [67, 2053, 40_000, 600_001];

/// Checks each function in each type, at widths for each kind of kernel.
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
    let problem = Forward { layouts: [layout; 2], options: Options::new(), logits: logits(2, cols) };
    let (inp, expected) = (rounded::<T>(&problem.logits), problem.expected::<T, T>());
    let y: Vec<T> = softmax_of_slice(device, &inp, [2, cols], &problem.options)?;
    compare_all(&vec![("out", wide(&y))], &expected)?;
    let mut matrix = device.upload(&inp)?;
    softmax_in_place(device, &mut MatrixMut::new(&mut matrix, 2, cols)?, &problem.options)?;
    compare_all(&vec![("out", wide(&matrix.to_vec()?))], &expected)?;

    let problem = Backward::random([layout; 3], 0);
    let (dy, y) = (device.upload(&rounded::<T>(&problem.dy))?, device.upload(&rounded::<T>(&problem.y))?);
    let (dy, y) = (Matrix::new(&dy, 2, cols)?, Matrix::new(&y, 2, cols)?);
    let mut dx = device.alloc_zeroed::<T>(2 * cols)?;
    let options = Options::new().scale(problem.scale);
    softmax_backward(device, &mut MatrixMut::new(&mut dx, 2, cols)?, &dy, &y, &options)?;
    compare_all(&vec![("dx", wide(&dx.to_vec()?))], &problem.expected::<T>())?;

    of_decoding::<T>(device, cols)?;
    let problem = CrossEntropy::random([layout; 3], 1);
    let (inp, targets) = (device.upload(&rounded::<T>(&problem.logits))?, device.upload(&problem.targets)?);
    let (mut gradient, mut loss) = (device.alloc_zeroed::<T>(2 * cols)?, device.alloc_zeroed::<f32>(2)?);
    Call::new(&mut loss, &Matrix::new(&inp, 2, cols)?, &targets)
        .with_gradient(MatrixMut::new(&mut gradient, 2, cols)?, problem.d_scale)
        .run(device)?;
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
    let problem = TopK::dense(logits(rows, cols), cols, k, Options::new());
    let inp = device.upload(&rounded::<T>(&problem.logits))?;
    let matrix = Matrix::new(&inp, rows, cols)?;
    let mut probabilities = device.alloc_zeroed::<f32>(rows * k)?;
    let mut indices = device.alloc_zeroed::<u32>(rows * k)?;
    let mut to = MatrixMut::new(&mut probabilities, rows, k)?;
    softmax_top_k(device, &mut to, &mut MatrixMut::new(&mut indices, rows, k)?, &matrix, &problem.options)?;
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
        let sampling = Sampling::new(noise.seed).temperature(temperature).top_p(top_p);
        let sampling = if top_k > 0 { sampling.top_k(top_k) } else { sampling };
        let (mut tokens, mut logarithms) =
            (device.alloc_zeroed::<u32>(rows)?, device.alloc_zeroed::<f32>(rows)?);
        sample_with_log_probabilities(device, &mut tokens, &mut logarithms, &matrix, &sampling, noise.draw)?;
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
