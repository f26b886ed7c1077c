//! Operations of every kind, queued on a stream and then in a CUDA graph.

use ferrowarp::prelude::*;

struct Model {
    x: Tensor<bf16>,
    weights: Tensor<bf16>,
    bias: Tensor<bf16>,
    scale: Tensor<bf16>,
    cache: Tensor<bf16>,
    pages: Tensor<u32>,
    lengths: Tensor<u32>,
    logs: Tensor<bf16>,
    sums: Tensor<f32>,
    best: (Tensor<f32>, Tensor<u32>),
}

fn step(queue: &impl Queue, of: &mut Model) -> Result<(), Error> {
    let linear = Matmul::new().bias(&of.bias).activation(Activation::Gelu);
    let hidden = linear.run(queue, &of.x, of.weights.t())?;
    let norm = Norm::rms().weight(&of.scale);
    let (normed, saved) = norm.forward(queue, &hidden)?;
    let gradients = norm.backward(queue, &normed, &hidden, &saved)?;
    Reduce::columns(Reduction::Sum).run_into(queue, &mut of.sums, &gradients.input)?;
    let (q, cache) = (normed.view().reshape([2, 1, 1, 64])?, &of.cache);
    let out = Attention::new().pages(&of.pages).lengths(&of.lengths).run(queue, q, cache, cache)?;
    Softmax::new().log().run_into(queue, &mut of.logs, out.view().reshape([2, 64])?)?;
    TopK::new(3).run_into(queue, &mut of.best.0, &mut of.best.1, &of.logs)
}

fn main() -> Result<(), Error> {
    let device = Device::open()?;
    let numbers = |count: usize| (0..count).map(|i| bf16::from_f32((i * 7 % 13) as f32 / 8.0 - 0.7)).collect::<Vec<_>>();
    let mut model = Model {
        x: device.tensor(&numbers(2 * 32), [2, 32])?,
        weights: device.tensor(&numbers(64 * 32), [64, 32])?,
        bias: device.tensor(&numbers(64), [64])?,
        scale: device.tensor(&numbers(64), [64])?,
        cache: device.tensor(&numbers(3 * 16 * 64), [3, 16, 1, 64])?,
        pages: device.tensor(&[2, 0, 1, 1], [2, 2])?,
        lengths: device.tensor(&[20, 3], [2])?,
        logs: Tensor::zeros(&device, [2, 64])?,
        sums: Tensor::zeros(&device, [64])?,
        best: (Tensor::zeros(&device, [2, 3])?, Tensor::zeros(&device, [2, 3])?),
    };
    step(&device.stream()?, &mut model)?;
    let queued = model.best.1.to_vec()?;
    let mut graph = device.record(model, |stream, model| step(stream, model))?;
    graph.launch()?;
    let recorded = graph.state().best.1.to_vec()?;
    assert_eq!(queued, recorded);
    println!("the largest columns of each row on {}: {queued:?}", device.name());
    Ok(())
}
