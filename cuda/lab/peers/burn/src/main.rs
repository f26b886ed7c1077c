//! burn as a peer of `train-mnist`: `peer-burn --data DIR --out FILE`, with each back end that it is built with.

use burn::module::Module;
use burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor, TensorData};
use peer_common::{Half, Make, Peer, SIZES};

/// What `Cargo.toml` pins.
const VERSION: (&str, &str) = ("burn", "0.22.1");

/// The back ends.
const PEERS: &[(&str, Make)] = &[
    ("burn on the CPU, flex", |train, test, seed| boxed(Device::flex(), train, test, seed)),
    #[cfg(feature = "ndarray")]
    ("burn on the CPU, ndarray", |train, test, seed| {
        #[expect(deprecated, reason = "its slowness shows only in comparison")]
        let device = Device::ndarray();
        boxed(device, train, test, seed)
    }),
    #[cfg(feature = "cpu")]
    ("burn on the CPU, CubeCL", |train, test, seed| boxed(Device::cpu(), train, test, seed)),
    #[cfg(feature = "cuda")]
    ("burn on the GPU", |train, test, seed| boxed(Device::cuda(0), train, test, seed)),
];

fn main() -> anyhow::Result<()> {
    peer_common::main(VERSION, PEERS)
}

#[derive(Module, Debug)]
struct Layers {
    layers: Vec<Linear>,
}

impl Layers {
    fn logits(&self, pixels: Tensor<2>) -> Tensor<2> {
        self.layers.iter().enumerate().fold(pixels, |x, (l, layer)| {
            let x = layer.forward(x);
            if l + 1 < self.layers.len() { relu(x) } else { x }
        })
    }
}

struct Network {
    device: Device,
    /// Taken while a step moves it.
    layers: Option<Layers>,
    optimizer: ModuleOptimizer,
    loss: CrossEntropyLoss,
    train: (Tensor<2>, Tensor<1, Int>),
    test: (Tensor<2>, Tensor<1, Int>),
}

fn boxed(device: Device, train: &Half, test: &Half, seed: u64) -> anyhow::Result<Box<dyn Peer>> {
    let device = device.autodiff();
    device.seed(seed);
    // The first weights that burn chooses are uniform in 1 / sqrt(inputs) both ways, too.
    let layers = SIZES.windows(2).map(|pair| LinearConfig::new(pair[0], pair[1]).init(&device)).collect();
    Ok(Box::new(Network {
        layers: Some(Layers { layers }),
        optimizer: SgdConfig::new().init(),
        loss: CrossEntropyLossConfig::new().init(&device),
        train: upload(train, &device),
        test: upload(test, &device),
        device,
    }))
}

fn upload(half: &Half, device: &Device) -> (Tensor<2>, Tensor<1, Int>) {
    let count = half.labels.len();
    let pixels = TensorData::new(half.pixels.clone(), [count, SIZES[0]]);
    (Tensor::from_data(pixels, device), indices(&half.labels, device))
}

fn indices(numbers: &[u32], device: &Device) -> Tensor<1, Int> {
    let numbers: Vec<i32> = numbers.iter().map(|&number| number as i32).collect();
    Tensor::from_data(TensorData::new(numbers.clone(), [numbers.len()]), device)
}

impl Peer for Network {
    fn epoch(&mut self, order: &[u32], batch: usize, lr: f64) -> anyhow::Result<()> {
        for samples in order.chunks(batch) {
            let Some(layers) = self.layers.take() else { anyhow::bail!("an earlier step has failed") };
            let index = indices(samples, &self.device);
            let (pixels, labels) =
                (self.train.0.clone().select(0, index.clone()), self.train.1.clone().select(0, index));
            let loss = self.loss.forward(layers.logits(pixels), labels);
            let gradients = GradientsParams::from_grads(loss.backward(), &layers);
            self.layers = Some(self.optimizer.step(lr, layers, gradients));
        }
        self.device.sync().map_err(|error| anyhow::anyhow!("the device failed: {error:?}"))
    }

    fn correct(&mut self) -> anyhow::Result<usize> {
        let Some(layers) = &self.layers else { anyhow::bail!("an earlier step has failed") };
        let device = self.device.clone().inner();
        let found = layers.valid().logits(self.test.0.clone().to_device(&device));
        let found = found.argmax(1).into_data().convert::<i64>();
        let labels = self.test.1.clone().into_data().convert::<i64>();
        let pairs = found.iter::<i64>().zip(labels.iter::<i64>());
        Ok(pairs.filter(|(found, label)| found == label).count())
    }
}
