//! The weights that a block of them owns, between global memory and where they stay for the launch.

use cuda_std::mem::f32x2;
use cuda_std::mma::FragmentC;

use super::extents::{COLUMNS, TILE, UNITS};
use super::halves::{WEIGHTS, feature_of, split};
use super::weights::{Shared, Tiles};
use super::{Block, ResidentNetwork};

impl<const WARPS: usize> Block<WARPS> {
    /// The weights of the block, and shared memory with what stays there.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn begin<const TILES: usize, const HALVES: usize>(
        &self,
        shared: &Shared,
        network: &ResidentNetwork,
        number: usize,
    ) -> Tiles<TILES> {
        // SAFETY: the caller's; indices lie in the shapes.
        unsafe {
            for i in self.each(COLUMNS * UNITS / 2) {
                let (col, unit) = (i / (UNITS / 2), i % (UNITS / 2) * 2);
                let pair = [unit, unit + 1].map(|unit| {
                    self.above_of(network, number, unit, col).map_or(0.0, |weight| *weight * WEIGHTS)
                });
                *shared.above.cast::<f32x2>().add(i) = pair.into();
                let halves = split::<HALVES>(pair);
                for half in 0..HALVES {
                    *shared.above_halves(0, half).cast::<u32>().add(i) = halves[half];
                    // Columns that nobody has stay zeros.
                    *shared.above_halves(1, half).cast::<u32>().add(i) = 0;
                }
            }
            core::array::from_fn(|t| {
                FragmentC::from_fn(|row, col| {
                    self.weight_of(network, number, t, row, col).map_or(0.0, |weight| *weight * WEIGHTS)
                })
            })
        }
    }

    /// Writes the weights of the block back.
    ///
    /// # Safety
    /// Same as for the kernel.
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
            for i in self.each(COLUMNS * UNITS) {
                if let Some(weight) = self.above_of(network, number, i % UNITS, i / UNITS) {
                    *weight = *shared.above.add(i) / WEIGHTS;
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
