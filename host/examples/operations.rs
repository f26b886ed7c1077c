//! Operations of every kind, queued on a stream and then in a CUDA graph.

use ferrowarp::prelude::*;

type Inputs = ([Tensor<bf16>; 5], [Tensor<u32>; 2]);
type Outputs = (Tensor<bf16>, Tensor<bf16>, Tensor<f32>, Tensor<u32>);

fn step(
    queue: &impl Queue,
    (inputs, (logs, sums, values, columns)): &mut (Inputs, Outputs),
) -> Result<(), Error> {
    let ([x, weights, bias, scale, cache], [pages, lengths]) = &*inputs;
    let linear = Matmul::new().bias(bias).activation(Activation::Gelu);
    let hidden = linear.run(queue, x, weights.t())?;
    let norm = Norm::rms().weight(scale);
    let (normed, saved) = norm.forward(queue, &hidden)?;
    let gradients = norm.backward(queue, &normed, &hidden, &saved)?;
    Reduce::columns(Reduction::Sum).run_into(queue, &mut *sums, &gradients.input)?;
    let q = normed.view().reshape([2, 1, 1, 64])?;
    let out = Attention::new().pages(pages).lengths(lengths).run(queue, q, cache, cache)?;
    Softmax::new().log().run_into(queue, &mut *logs, out.view().reshape([2, 64])?)?;
    TopK::new(3).run_into(queue, values, columns, &*logs)
}

#[cfg_attr(test, test)]
fn main() -> Result<(), Error> {
    let device = Device::open()?;
    let number = |i: usize| bf16::from_f32((i * 7 % 13) as f32 / 8.0 - 0.7);
    let of = |len: usize| (0..len).map(number).collect::<Vec<_>>();
    let (x, weights) = (device.tensor(&of(64), [2, 32])?, device.tensor(&of(2048), [64, 32])?);
    let (bias, scale) = (device.tensor(&of(64), [64])?, device.tensor(&of(64), [64])?);
    let cache = device.tensor(&of(3072), [3, 16, 1, 64])?;
    let tables = [device.tensor(&[2, 0, 1, 1], [2, 2])?, device.tensor(&[20, 3], [2])?];
    let (logs, sums) = (Tensor::zeros(&device, [2, 64])?, Tensor::zeros(&device, [64])?);
    let best = (Tensor::zeros(&device, [2, 3])?, Tensor::zeros(&device, [2, 3])?);
    let mut all = (([x, weights, bias, scale, cache], tables), (logs, sums, best.0, best.1));
    step(&device.stream()?, &mut all)?;
    let queued = all.1.3.to_vec()?;
    let mut graph = device.record(all, step)?;
    graph.launch()?;
    assert_eq!(graph.state().1.3.to_vec()?, queued);
    println!("the largest columns of each row on {}: {queued:?}", device.name());
    Ok(())
}
