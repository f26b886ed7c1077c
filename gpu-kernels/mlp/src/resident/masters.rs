//! Moves the weights that a block owns between global memory and where they stay during the launch.

use cuda_std::mem::f32x2;
use cuda_std::mma::FragmentC;

use super::extents::{COLUMNS, TILE, UNITS};
use super::halves::{WEIGHTS, feature_of, split};
use super::weights::{Shared, Tiles};
use super::{Block, ResidentNetwork};

impl<const WARPS: usize> Block<WARPS> {
    /// Loads the weights of the block, and initialises what stays in shared memory.
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
        // SAFETY: the caller's contract; indices lie in the shapes.
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
                    // Columns without an owner stay zero.
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
        // SAFETY: the caller's contract; one thread of one block owns each weight.
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

    /// Returns the address of a second-layer weight of a unit of the block; for the constant unit 1, of the layer's bias.
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

    /// Returns the address of the weight of the first layer in an element of the warp's tile `t`.
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
