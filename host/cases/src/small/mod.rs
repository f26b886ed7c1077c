//! What runs under every seed: each kernel, on shapes small enough for thousands of runs.

mod rows;

use std::fmt;
use std::sync::OnceLock;

use anyhow::{Context as _, Result};
use cuda_std::half::{bf16, f16};
use ferrowarp::device::Device;
use gpu_kernels::softmax::Variant;

use crate::layer::{Check, Problem, Runner, checks};

/// The shapes of a set of cases.
pub struct Shapes {
    /// The network's layer: tiles, warps and vectors end in their midst; the last lies off a boundary.
    pub layers: &'static [([usize; 3], usize)],
    /// The ladder runs on those with at most this many rows: its widest kernels have a cluster for each.
    pub ladder_rows: usize,
    /// Where there is such a layer, these kernels run on it and on no other.
    pub cluster_layer: Option<([usize; 3], usize)>,
    /// Rows, columns and the largest clusters of the forward kernels. Clusters, of up to 1024 threads a block, are what
    /// takes the time.
    pub forward: &'static [(usize, usize, u32)],
    /// Whether the pairs of kernels for wide rows run with every number of parts, or with one: those of `f32` with the
    /// largest, the others, which are the same but for the type, with the smallest.
    pub all_parts: bool,
    /// Widths of the other softmax kernels.
    pub widths: &'static [usize],
    /// Rows of theirs, at most 3.
    pub rows: usize,
}

/// Small enough for thousands of runs.
pub const SMALL: Shapes = Shapes {
    layers: &[([33, 17, 35], 0), ([5, 1, 35], 0), ([3, 66, 68], 1)],
    ladder_rows: 5,
    cluster_layer: None,
    forward: &[(3, 35, 1), (3, 1157, 1), (1, 1157, 4)],
    all_parts: true,
    widths: &[35, 1157],
    rows: 3,
};

/// For tools that run a kernel thousands of times slower: the least that makes every kernel do all it does. The first row
/// of a matrix lies on a boundary of 16 bytes and the second does not.
pub const TINY: Shapes = Shapes {
    layers: &[([2, 5, 35], 0)],
    ladder_rows: 2,
    cluster_layer: Some(([1, 5, 35], 0)),
    forward: &[(1, 35, 1), (1, 67, 2)],
    all_parts: false,
    widths: &[35],
    rows: 1,
};

/// Every output of a case, by name. The numbers of all types are numbers of f64.
pub type Outputs = Vec<(&'static str, Vec<f64>)>;

type Run = Box<dyn Fn(&Device) -> Result<Outputs> + Send + Sync>;

/// A kernel, or a pair of them, on one shape.
pub struct Case {
    kernels: Vec<&'static str>,
    shape: String,
    run: Run,
}

impl Case {
    /// A case of the kernels, with words for the shape.
    fn new(
        kernels: Vec<&'static str>,
        shape: String,
        run: impl Fn(&Device) -> Result<Outputs> + Send + Sync + 'static,
    ) -> Self {
        Self { kernels, shape, run: Box::new(run) }
    }

    /// The kernels that it launches.
    pub fn kernels(&self) -> impl Iterator<Item = &'static str> {
        self.kernels.iter().copied()
    }

    /// Runs it, and gives its outputs.
    ///
    /// # Errors
    /// A kernel failed, or wrote outside its output.
    pub fn run(&self, device: &Device) -> Result<Outputs> {
        (self.run)(device)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kernels.join(" + "), self.shape)
    }
}

/// Every case.
///
/// # Errors
/// A case cannot be prepared.
pub fn all(shapes: &Shapes) -> Result<Vec<Case>> {
    let mut cases = of_layer(shapes);
    rows::forward::<f32, f32>(&mut cases, shapes)?;
    rows::forward::<f16, f16>(&mut cases, shapes)?;
    rows::forward::<bf16, bf16>(&mut cases, shapes)?;
    rows::forward::<f16, f32>(&mut cases, shapes)?;
    rows::forward::<bf16, f32>(&mut cases, shapes)?;
    rows::backward::<f32>(&mut cases, shapes).context("gradients of f32")?;
    rows::backward::<f16>(&mut cases, shapes).context("gradients of f16")?;
    rows::backward::<bf16>(&mut cases, shapes).context("gradients of bf16")?;
    rows::cross_entropy::<f32>(&mut cases, shapes).context("cross entropies of f32")?;
    rows::cross_entropy::<f16>(&mut cases, shapes).context("cross entropies of f16")?;
    rows::cross_entropy::<bf16>(&mut cases, shapes).context("cross entropies of bf16")?;
    Ok(cases)
}

/// The network's kernels and the ladder's.
fn of_layer(shapes: &Shapes) -> Vec<Case> {
    let mut cases = Vec::new();
    let layers = shapes.layers.iter().map(|&layer| (layer, false));
    let cluster_layer = shapes.cluster_layer.iter().map(|&layer| (layer, true));
    for (seed, ((shape, misalignment), for_clusters)) in layers.chain(cluster_layer).enumerate() {
        let problem = std::sync::Arc::new(Problem::new(shape, seed as u64, misalignment));
        let device = Device::cpu();
        let suits = |check: &Check| match check.run {
            Runner::With(_) => !for_clusters,
            Runner::Softmax(variant) => {
                let is_cluster = has_clusters(variant, shape);
                shape[0] <= shapes.ladder_rows
                    && check.run.takes(&device, &problem)
                    && (for_clusters == is_cluster || shapes.cluster_layer.is_none())
            }
        };
        for check in checks().into_iter().filter(suits) {
            let (words, problem, names) = (problem.to_string(), problem.clone(), OnceLock::new());
            cases.push(Case::new(check.kernels(), words, move |device| {
                let of = || (check.reference)(&problem).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
                Ok(names.get_or_init(of).iter().copied().zip(check.run.on(device, &problem)?).collect())
            }));
        }
    }
    cases
}

/// Whether a way of the ladder launches clusters for this layer.
fn has_clusters(variant: Variant, [rows, _, cols]: [usize; 3]) -> bool {
    let config = variant.prepare(rows, cols).and_then(|prepared| prepared.config());
    config.is_some_and(|config| config.cluster > 1)
}
