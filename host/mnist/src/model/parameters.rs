//! Weights and biases on the host.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// The parameters of a network, input layer first.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// One entry per layer.
    pub layers: Vec<LayerParameters>,
}

/// The parameters of one linear layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerParameters {
    /// The number of inputs.
    pub inputs: usize,
    /// The number of outputs.
    pub outputs: usize,
    /// `[inputs, outputs]`, row-major.
    pub weights: Vec<f32>,
    /// `[outputs]`.
    pub biases: Vec<f32>,
}

impl Parameters {
    /// Makes random parameters for a network with these widths, input first. Weights and biases of each layer are uniform in
    /// ±1/sqrt(inputs), like PyTorch's `Linear`. The same seed gives the same parameters.
    pub fn init(sizes: &[usize], seed: u64) -> Parameters {
        let mut rng = StdRng::seed_from_u64(seed);
        let layers = sizes.windows(2).map(|pair| {
            let (inputs, outputs) = (pair[0], pair[1]);
            let bound = 1.0 / (inputs.max(1) as f32).sqrt();
            let mut draw = |len: usize| (0..len).map(|_| rng.random_range(-bound..=bound)).collect();
            LayerParameters { inputs, outputs, weights: draw(inputs * outputs), biases: draw(outputs) }
        });
        Parameters { layers: layers.collect() }
    }

    /// The widths of the network, input first.
    pub fn sizes(&self) -> Vec<usize> {
        let first = self.layers.first().map(|layer| layer.inputs);
        first.into_iter().chain(self.layers.iter().map(|layer| layer.outputs)).collect()
    }
}
