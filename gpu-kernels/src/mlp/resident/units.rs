//! From the gradients of a step to the units of the next one: what all other blocks wait for.

use cuda_std::GpuFloat as _;
use cuda_std::half::f16;
use cuda_std::mem::{f32x2, f32x4};
use cuda_std::mma::{FragmentB, FragmentC};

use super::extents::{GRADIENT_PITCH, MAX_ROWS, PITCH, QUADS, ROW_TILES, UNITS, UNITS_QUADS};
use super::halves::{GRADIENTS, split};
use super::products::{Products, columns, group_of};
use super::weights::Shared;
use super::{Block, ResidentSteps};

/// Quads of the second layer's rows of which a warp has half of the products.
const COLUMN_QUADS: usize = 8;

impl<const WARPS: usize> Block<WARPS> {
    /// The units of block `number` at a step, from the sums with the weights of before the last step, and with its learning rate
    /// from what that step changed.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    pub(super) unsafe fn activate<const HALVES: usize>(
        &self,
        shared: &Shared,
        (step, number): (usize, usize),
        changed_by: Option<f32>,
    ) {
        let (warp, lane) = self.place();
        for tile in (warp..ROW_TILES).step_by(WARPS) {
            // SAFETY: the sums of the tile, and the units that the lane's four elements are. All lanes of the warp have the
            // same tiles.
            unsafe {
                let sums = match changed_by {
                    Some(lr) => self.changed_sums::<HALVES>(shared, tile, lr),
                    None => (*shared.sums.add(tile * 32 + lane)).to_array(),
                };
                for j in 0..FragmentC::ELEMENTS {
                    let ((row, col), sum) = (FragmentC::position(lane as u32, j), sums[j]);
                    let (row, is_bias) = (tile * 16 + row, number * UNITS + col == self.extents.hidden1);
                    // NaN stays: of weights too large for their halves the loss is none.
                    let unit = if sum <= 0.0 { 0.0 } else { sum };
                    let unit = if is_bias { 1.0 } else { unit };
                    *shared.units(step).add(row * UNITS + col) =
                        if row < self.extents.batch { unit } else { 0.0 };
                }
            }
        }
    }

    /// The lane's sums of a tile of rows, with what the last step changed.
    ///
    /// # Safety
    /// As for the kernel; all lanes of the warp come here.
    #[inline(always)]
    unsafe fn changed_sums<const HALVES: usize>(&self, shared: &Shared, tile: usize, lr: f32) -> [f32; 4] {
        let (_, lane) = self.place();
        let (group, place) = group_of(lane);
        // SAFETY: the sums, the products and the gradients of the tile.
        unsafe {
            let sums = (*shared.sums.add(tile * 32 + lane)).to_array();
            let gradient = |row: usize| {
                let parts = shared.d_units.add(row * GRADIENT_PITCH + group);
                *parts + *parts.add(MAX_ROWS * GRADIENT_PITCH)
            };
            let factors: [_; MAX_ROWS / 8] = core::array::from_fn(|part| {
                let gram = *shared.gram.add((tile * MAX_ROWS / 8 + part) * 32 + lane);
                let row = 8 * part + 2 * place;
                (gram.to_array(), [gradient(row), gradient(row + 1)])
            });
            let mut products = Products::<HALVES>::ZERO;
            for part in 0..MAX_ROWS / 8 {
                products.add(factors[part].0, factors[part].1);
            }
            let change = products.sums();
            core::array::from_fn(|j| (-lr).mul_add(change[j], sums[j]))
        }
    }

    /// Takes the sums of block `number` for the first step from the launch before.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    pub(super) unsafe fn take_sums(&self, shared: &Shared, steps: &ResidentSteps, number: usize) {
        let ahead = steps.ahead.cast::<f32x4>().wrapping_add(number * UNITS_QUADS);
        for i in self.each(UNITS_QUADS) {
            // SAFETY: the block's quads.
            unsafe { *shared.sums.add(i) = *ahead.add(i) };
        }
    }

    /// Leaves the sums of block `number` to the launch after this one.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    pub(super) unsafe fn leave_sums<const HALVES: usize>(
        &self,
        shared: &Shared,
        steps: &ResidentSteps,
        number: usize,
    ) {
        let (warp, lane) = self.place();
        let ahead = steps.ahead.cast::<f32x4>().wrapping_add(number * UNITS_QUADS + lane);
        for tile in (warp..ROW_TILES).step_by(WARPS) {
            // SAFETY: the lane's quad of the tile. All lanes of the warp have the same tiles.
            unsafe { *ahead.add(tile * 32) = self.changed_sums::<HALVES>(shared, tile, steps.lr).into() };
        }
    }

    /// The gradient at the units' sums, in two parts, by the block's first warps.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    pub(super) unsafe fn differentiate<const HALVES: usize>(
        &self,
        shared: &Shared,
        step: usize,
        number: usize,
    ) {
        let (warp, lane) = self.place();
        let (group, place) = group_of(lane);
        for job in (warp..2 * ROW_TILES).step_by(WARPS) {
            let (tile, half) = (job % ROW_TILES, job / ROW_TILES);
            // SAFETY: the gradients of the tile's rows and the units' weights, and the elements of the lane. All lanes of the
            // warp have the same jobs.
            unsafe {
                // Of eight quads the first, second, fifth and sixth, and then the others: with rows so far apart these lie in
                // different banks.
                let first = half * QUADS / 2 + place % 2 + place / 2 * 4;
                let factors: [_; QUADS / 8] = core::array::from_fn(|part| {
                    let quad = first + part / 2 * 8 + part % 2 * 2;
                    let gradients =
                        |row: usize| (*shared.pool.add((tile * 16 + row) * PITCH + quad)).to_array();
                    let above = *shared.above(step).add(group * PITCH + quad);
                    (gradients(group), gradients(group + 8), above.to_array())
                });
                let mut products = Products::<HALVES>::ZERO;
                for part in 0..QUADS / 8 {
                    let (a, b, above) = factors[part];
                    products.add([a[0], b[0], a[1], b[1]], [above[0], above[1]]);
                    products.add([a[2], b[2], a[3], b[3]], [above[2], above[3]]);
                }
                let (sums, parts) = (products.sums(), shared.d_units.add(half * MAX_ROWS * GRADIENT_PITCH));
                for j in 0..FragmentC::ELEMENTS {
                    let (row, col) = FragmentC::position(lane as u32, j);
                    let row = tile * 16 + row;
                    let is_unit = number * UNITS + col < self.extents.hidden1;
                    let is_active = is_unit && *shared.units(step).add(row * UNITS + col) > 0.0;
                    *parts.add(row * GRADIENT_PITCH + col) = if is_active { sums[j] } else { 0.0 };
                }
            }
        }
    }

    /// Halves of the gradient at the units' sums, for the products with the pixels.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    pub(super) unsafe fn halve<const HALVES: usize>(&self, shared: &Shared) {
        let (warp, lane) = self.place();
        for tile in (warp..ROW_TILES).step_by(WARPS) {
            // SAFETY: the elements of the lane.
            unsafe {
                let [a, b, c, d] = core::array::from_fn(|j| {
                    let (row, col) = FragmentB::<f16>::position(lane as u32, j);
                    let parts = shared.d_units.add((tile * 16 + row) * GRADIENT_PITCH + col);
                    (*parts + *parts.add(MAX_ROWS * GRADIENT_PITCH)) * GRADIENTS
                });
                let (upper, lower) = (split::<HALVES>([a, b]), split::<HALVES>([c, d]));
                let last = HALVES - 1;
                *shared.d_halves.add(tile * 32 + lane) =
                    [upper[0], lower[0], upper[last], lower[last]].into();
            }
        }
    }

    /// The step of the second layer's rows, by the block's last warps.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    pub(super) unsafe fn update_above<const HALVES: usize>(&self, shared: &Shared, step: usize, lr: f32) {
        let (warp, lane) = self.place();
        let (group, place) = group_of(lane);
        let (old, new) = (shared.above(step), shared.above(step + 1));
        // The first warps are at the units of the next step.
        let busy = if WARPS > ROW_TILES { ROW_TILES } else { 0 };
        if warp < busy {
            return;
        }
        for job in (warp - busy..2 * QUADS / COLUMN_QUADS).step_by(WARPS - busy) {
            let (quad, pair) = (job / 2 * COLUMN_QUADS, job % 2);
            // SAFETY: the gradients of all rows and their units, and the lane's pair of two units. All lanes of the warp have the
            // same jobs.
            unsafe {
                let unit = |row: usize| *shared.units(step).add(row * UNITS + group);
                let gradients = columns::<HALVES>(lane, shared.pool, (quad, pair), unit);
                for i in 0..gradients.len() {
                    let at = 2 * ((2 * place + i) * PITCH + quad + group) + pair;
                    let weights = (*old.cast::<f32x2>().add(at)).to_array();
                    *new.cast::<f32x2>().add(at) =
                        core::array::from_fn(|j| weights[j] - lr * gradients[i][j]).into();
                }
            }
        }
    }
}
