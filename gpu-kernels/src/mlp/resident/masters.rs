//! The weights that a block of them owns, between global memory and where they stay for the launch.

use cuda_std::mma::FragmentC;

use super::extents::{PITCH, TILE, UNITS};
use super::halves::{WEIGHTS, feature_of};
use super::weights::{Shared, Tiles};
use super::{Block, ResidentNetwork};

impl<const WARPS: usize> Block<WARPS> {
    /// The weights of the block, and shared memory with what stays there.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    pub(super) unsafe fn begin<const TILES: usize>(
        &self,
        shared: &Shared,
        network: &ResidentNetwork,
        number: usize,
    ) -> Tiles<TILES> {
        // SAFETY: the caller's; indices lie in the shapes.
        unsafe {
            let above = shared.above(0).cast::<f32>();
            for i in self.each(UNITS * 4 * PITCH) {
                let (unit, col) = (i / (4 * PITCH), i % (4 * PITCH));
                *above.add(i) = self.above_of(network, number, unit, col).map_or(0.0, |weight| *weight);
            }
            core::array::from_fn(|t| {
                FragmentC::from_fn(|row, col| {
                    self.weight_of(network, number, t, row, col).map_or(0.0, |weight| *weight * WEIGHTS)
                })
            })
        }
    }

    /// Writes the weights of the block back, after so many steps.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    pub(super) unsafe fn finish<const TILES: usize>(
        &self,
        shared: &Shared,
        network: &ResidentNetwork,
        number: usize,
        steps: usize,
        weights: &Tiles<TILES>,
    ) {
        // SAFETY: the caller's; each weight is one thread's of one block.
        unsafe {
            let above = shared.above(steps).cast::<f32>();
            for i in self.each(UNITS * 4 * PITCH) {
                let (unit, col) = (i / (4 * PITCH), i % (4 * PITCH));
                if let Some(weight) = self.above_of(network, number, unit, col) {
                    *weight = *above.add(i);
                }
            }
            for (t, tile) in weights.iter().enumerate() {
                tile.for_each(|row, col, value| {
                    if let Some(weight) = self.weight_of(network, number, t, row, col) {
                        *weight = value / WEIGHTS;
                    }
                });
            }
        }
    }

    /// Where the weight of the second layer lies that a unit of the block has; of the one that is always 1 the layer's bias.
    #[inline(always)]
    fn above_of(
        &self,
        network: &ResidentNetwork,
        number: usize,
        unit: usize,
        col: usize,
    ) -> Option<*mut f32> {
        let (e, row) = (self.extents, number * UNITS + unit);
        let is_bias = row == e.hidden1;
        let (weights, at) = if is_bias { (network.biases2, 0) } else { (network.weights2, row * e.hidden2) };
        (row <= e.hidden1 && col < e.hidden2).then(|| weights.wrapping_add(at + col))
    }

    /// Where the weight of the first layer lies that an element of the warp's tile `t` holds.
    #[inline(always)]
    fn weight_of(
        &self,
        network: &ResidentNetwork,
        number: usize,
        t: usize,
        row: usize,
        col: usize,
    ) -> Option<*mut f32> {
        let e = self.extents;
        let (feature, unit) = (self.tile(t) * TILE + feature_of(row), number * UNITS + col);
        let is_bias = feature == e.features;
        let (weights, at) =
            if is_bias { (network.biases1, 0) } else { (network.weights1, feature * e.hidden1) };
        (feature <= e.features && unit < e.hidden1).then(|| weights.wrapping_add(at + unit))
    }
}
