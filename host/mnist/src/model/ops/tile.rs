//! Chooses the kernel for a fused matrix multiplication.

use core::ops::Deref;

use cuda_std::launch::{KernelMeta, LaunchConfig};
use mlp_kernels::grid::Tiles;
use mlp_kernels::product::Shape;

use super::Queue;

/// The extents of a matrix multiplication.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    pub rows: u32,
    pub cols: u32,
    /// The terms of each sum.
    pub depth: u32,
    /// Whether it computes gradients of parameters.
    pub is_update: bool,
}

impl Extents {
    fn tiles(&self, of: &Shape, workers: u32) -> Tiles {
        match self.is_update {
            true => of.update_tiles(self.rows, self.cols, workers),
            false => of.tiles(self.rows, self.cols, workers),
        }
    }
}

/// The kernel of a launch, and its division into blocks.
pub(super) struct Choice<'a, K> {
    pub kernel: &'a K,
    workers: u32,
    /// The blocks of a cluster that share a tile.
    splits: u32,
}

/// The most blocks that share a tile: the portable cluster size of capability 9.0.
const MOST_SPLITS: u32 = 8;

/// Cycles of a block before its first multiply-add and after its last.
const CYCLES_PER_BLOCK: u64 = 1000;
/// The additional cost of sharing a tile within a cluster.
const CYCLES_PER_CLUSTER: u64 = 800;
/// Multiply-adds per multiprocessor and cycle.
const PRODUCTS_PER_CYCLE: u64 = 128;

/// Chooses the fastest kernel for a launch that computes `products`, among those with the launcher's operand type that the
/// device has. `None` if it has none, which [`check_precision`](super::fused::check_precision) excludes.
pub(super) fn choose<'a, K: Deref<Target = Shape>>(
    kernels: &'a [K],
    meta: impl Fn(&K) -> &'static KernelMeta,
    on: Queue<'_>,
    products: &[Extents],
) -> Option<Choice<'a, K>> {
    let workers = u32::try_from(on.multiprocessors().max(1)).unwrap_or(u32::MAX);
    let suits = |kernel: &&K| {
        let is_serial = kernel.threads == 1;
        let is_of_precision = kernel.operands == on.operands;
        is_of_precision
            && is_serial == on.limits().runs_cpu_only
            && on.limits().runs(meta(kernel))
            && (!kernel.is_cluster || on.limits().max_cluster >= MOST_SPLITS)
    };
    let choices = kernels.iter().filter(suits).map(|kernel| {
        let tiles: u32 = products.iter().map(|product| product.tiles(kernel, workers).count).sum();
        let splits = if kernel.is_cluster { (workers / tiles.max(1)).clamp(1, MOST_SPLITS) } else { 1 };
        Choice { kernel, workers, splits }
    });
    choices.min_by_key(|choice| choice.cycles(products))
}

impl<K: Deref<Target = Shape>> Choice<'_, K> {
    pub fn tiles(&self, product: Extents) -> Tiles {
        product.tiles(self.kernel, self.workers)
    }

    /// The launch configuration for `tiles` tiles.
    pub fn config(&self, tiles: u32) -> LaunchConfig {
        let config = LaunchConfig::new(tiles * self.splits, self.kernel.threads);
        if self.splits > 1 { config.with_cluster(self.splits) } else { config }
    }

    /// Estimates the time, if each multiprocessor works on one block at a time.
    fn cycles(&self, products: &[Extents]) -> u64 {
        let Shape { rows, cols, is_cluster, .. } = **self.kernel;
        let area = u64::from(rows) * u64::from(cols);
        let tiles: u32 = products.iter().map(|&product| self.tiles(product).count).sum();
        let depth = products.iter().map(|product| product.depth).max().unwrap_or(0).div_ceil(self.splits);
        let rounds = u64::from((tiles * self.splits).div_ceil(self.workers));
        let fixed = CYCLES_PER_BLOCK + if is_cluster { CYCLES_PER_CLUSTER } else { 0 };
        rounds * (area * u64::from(depth) / PRODUCTS_PER_CYCLE + fixed)
    }
}
