//! candle on the CPU as a peer of `train-mnist`: `peer-candle --data DIR --out FILE`.

use candle_core::{D, DType, Device, Tensor, Var};
use peer_common::{Half, Peer, Random, SIZES};

/// What `Cargo.toml` pins.
const VERSION: (&str, &str) = ("candle-core", "0.11.1");

fn main() -> anyhow::Result<()> {
    peer_common::main(
        VERSION,
        &[("candle on the CPU", |train, test, seed| Ok(Box::new(Network::new(train, test, seed)?)))],
    )
}

struct Network {
    /// Weights `[inputs, outputs]` and biases `[outputs]`.
    layers: Vec<(Var, Var)>,
    train: (Tensor, Tensor),
    test: (Tensor, Tensor),
}

impl Network {
    fn new(train: &Half, test: &Half, seed: u64) -> anyhow::Result<Network> {
        let mut random = Random(seed);
        let layers = SIZES.windows(2).map(|pair| {
            let (inputs, outputs) = (pair[0], pair[1]);
            let bound = 1.0 / (inputs as f32).sqrt();
            let mut draw = |count| random.uniform(count, bound);
            let weights = Var::from_vec(draw(inputs * outputs), (inputs, outputs), &Device::Cpu)?;
            Ok((weights, Var::from_vec(draw(outputs), outputs, &Device::Cpu)?))
        });
        Ok(Network {
            layers: layers.collect::<anyhow::Result<_>>()?,
            train: upload(train)?,
            test: upload(test)?,
        })
    }

    fn logits(&self, pixels: &Tensor) -> candle_core::Result<Tensor> {
        let mut x = pixels.clone();
        for (l, (weights, biases)) in self.layers.iter().enumerate() {
            x = x.matmul(weights)?.broadcast_add(biases)?;
            if l + 1 < self.layers.len() {
                x = x.relu()?;
            }
        }
        Ok(x)
    }
}

fn upload(half: &Half) -> anyhow::Result<(Tensor, Tensor)> {
    let count = half.labels.len();
    let pixels = Tensor::from_slice(&half.pixels, (count, SIZES[0]), &Device::Cpu)?;
    Ok((pixels, Tensor::from_slice(&half.labels, count, &Device::Cpu)?))
}

impl Peer for Network {
    fn epoch(&mut self, order: &[u32], batch: usize, lr: f64) -> anyhow::Result<()> {
        for samples in order.chunks(batch) {
            let index = Tensor::from_slice(samples, samples.len(), &Device::Cpu)?;
            let (pixels, labels) =
                (self.train.0.index_select(&index, 0)?, self.train.1.index_select(&index, 0)?);
            let logits = self.logits(&pixels)?;
            let of_label = logits.gather(&labels.unsqueeze(1)?, 1)?.squeeze(1)?;
            let loss = (logits.log_sum_exp(D::Minus1)? - of_label)?.mean_all()?;
            let gradients = loss.backward()?;
            for variable in self.layers.iter().flat_map(|(weights, biases)| [weights, biases]) {
                if let Some(gradient) = gradients.get(variable) {
                    variable.set(&(variable.as_tensor() - (gradient * lr)?)?)?;
                }
            }
        }
        Ok(())
    }

    fn correct(&mut self) -> anyhow::Result<usize> {
        let found = self.logits(&self.test.0)?.argmax(D::Minus1)?;
        Ok(found.eq(&self.test.1)?.to_dtype(DType::U32)?.sum_all()?.to_scalar::<u32>()? as usize)
    }
}
