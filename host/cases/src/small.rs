//! The cases for every seed and for tools: each kernel, on shapes small enough for thousands of runs.

use std::sync::Arc;

use cuda_std::launch::Limits;

use crate::attention;
use crate::axis;
use crate::case::Case;
use crate::gallery;
use crate::layer::{self, Problem};
use crate::matmul;
use crate::norm;
use crate::scopes::{Scope, Setting};
use crate::softmax::{self, ladder};

/// The network's layers: sizes that are not multiples of tiles, warps and vectors; the last is misaligned. The ladder runs
/// on those with at most 5 rows: its widest kernels have a cluster for each.
const SMALL: [([usize; 3], usize); 3] = [([33, 17, 35], 0), ([5, 1, 35], 0), ([3, 66, 68], 1)];

/// The network's layer for tools that run a kernel thousands of times slower: one partial tile. The first row of a matrix is
/// aligned to 16 bytes and the second is not.
const TINY: ([usize; 3], usize) = ([2, 5, 19], 0);

/// The network's last layer, which has few classes.
const LAST: [usize; 3] = [5, 17, 10];

/// Replaces [`TINY`] for kernels with clusters.
const TINY_FOR_CLUSTERS: ([usize; 3], usize) = ([1, 5, 35], 0);

/// Every case of [`Scope::Tiny`] or [`Scope::Small`].
pub fn all(scope: Scope) -> Vec<Case> {
    let (is_tiny, limits) = (scope == Scope::Tiny, Limits::default());
    let layers = if is_tiny { &[TINY][..] } else { &SMALL };
    let layers = layers.iter().copied().chain(is_tiny.then_some(TINY_FOR_CLUSTERS)).enumerate();
    let of_layer = |(seed, (shape, misalignment)): (usize, ([usize; 3], usize))| {
        let problem = Arc::new(Problem::new(shape, seed as u64, misalignment));
        let for_clusters = is_tiny && seed == 1;
        let suits = |case: &Case| !is_tiny || for_clusters == (case.cluster_threads() > 0);
        let network = layer::cases(&problem, &limits).filter(suits);
        let ladder = ladder::of_layer(&problem, &limits).into_iter();
        let ladder = ladder.filter(|_| shape[0] <= 5).filter(suits);
        network.chain(ladder).collect::<Vec<_>>()
    };
    let last = Arc::new(Problem::new(LAST, 0, 1));
    let last = layer::last(&last, &limits);
    layers
        .flat_map(of_layer)
        .chain(last)
        .chain(softmax::cases(&Setting::new(scope)))
        .chain(matmul::cases(&Setting::new(scope)))
        .chain(attention::cases(&Setting::new(scope)))
        .chain(norm::cases(&Setting::new(scope)))
        .chain(axis::cases(&Setting::new(scope)))
        .chain(gallery::cases(scope, &limits))
        .collect()
}
