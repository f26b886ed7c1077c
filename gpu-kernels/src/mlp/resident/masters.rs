//! The weights that a block of them owns, between global memory and where they stay for the launch.

use cuda_std::mma::FragmentC;

use super::extents::{MAX_ROWS, PITCH, TILE, UNITS};
use super::halves::feature_of;
use super::weights::{Shared, Tiles};
use super::{Block, ResidentNetwork, ResidentSteps};

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
        steps: &ResidentSteps,
        number: usize,
    ) -> Tiles<TILES> {
        let (e, stride) = (self.extents, self.extents.stride());
        // SAFETY: the caller's; indices lie in the shapes.
        unsafe {
            for i in self.each(steps.stages as usize * MAX_ROWS * stride) {
                *shared.pixels.add(i) = if i % stride == e.features { 255 } else { 0 };
            }
            for i in self.each(MAX_ROWS * UNITS) {
                *shared.d_units.add(i) = 0.0;
            }
            let above = shared.above.cast::<f32>();
            for i in self.each((UNITS + 1) * 4 * PITCH) {
                let (unit, col) = (i / (4 * PITCH), i % (4 * PITCH));
                *above.add(i) = self.above_of(network, number, unit, col).map_or(0.0, |weight| *weight);
            }
            core::array::from_fn(|t| {
                FragmentC::from_fn(|row, col| {
                    self.weight_of(network, number, t, row, col).map_or(0.0, |weight| *weight)
                })
            })
        }
    }

    /// Writes the weights of the block back.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    pub(super) unsafe fn finish<const TILES: usize>(
        &self,
        shared: &Shared,
        network: &ResidentNetwork,
        number: usize,
        weights: &Tiles<TILES>,
    ) {
        // SAFETY: the caller's; each weight is one thread's of one block.
        unsafe {
            let above = shared.above.cast::<f32>();
            for i in self.each((UNITS + 1) * 4 * PITCH) {
                let (unit, col) = (i / (4 * PITCH), i % (4 * PITCH));
                if let Some(weight) = self.above_of(network, number, unit, col) {
                    *weight = *above.add(i);
                }
            }
            for (t, tile) in weights.iter().enumerate() {
                tile.for_each(|row, col, value| {
                    if let Some(weight) = self.weight_of(network, number, t, row, col) {
                        *weight = value;
                    }
                });
            }
        }
    }

    /// Where the weight of the second layer lies that a unit of the block has; of the first block's last one its bias.
    #[inline(always)]
    fn above_of(
        &self,
        network: &ResidentNetwork,
        number: usize,
        unit: usize,
        col: usize,
    ) -> Option<*mut f32> {
        let (e, row) = (self.extents, number * UNITS + unit);
        let is_weight = unit < UNITS && row < e.hidden1;
        let is_bias = unit == UNITS && number == 0;
        let (weights, at) = if is_bias { (network.biases2, 0) } else { (network.weights2, row * e.hidden2) };
        ((is_weight || is_bias) && col < e.hidden2).then(|| weights.wrapping_add(at + col))
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
