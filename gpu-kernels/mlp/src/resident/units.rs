//! From the gradients of a step to the units of the next one, for which all other blocks wait.

use cuda_std::GpuFloat as _;
use cuda_std::half::{f16, f16x2_to_f32};
use cuda_std::mem::{f32x2, f32x4, u32x4};
use cuda_std::mma::{FragmentA, FragmentB, FragmentC, ldmatrix, ldmatrix_trans};
use cuda_std::thread;

use super::extents::{COLUMNS, HALF_PITCH, MAX_ROWS, ROW_TILES, UNITS, UNITS_QUADS};
use super::gram::gram_at;
use super::halves::{GRADIENTS, HalfProducts, OUTPUTS, WEIGHTS, group_of, split};
use super::weights::Shared;
use super::{Block, ResidentSteps};

/// Parts of 16 rows of a batch, or of 16 columns of the second layer.
pub(super) const ROW_PARTS: usize = MAX_ROWS / 16;
pub(super) const COLUMN_PARTS: usize = COLUMNS / 16;

impl<const WARPS: usize> Block<WARPS> {
    /// Computes the units of block `number` at a step, from the sums with the weights before the last step. If the last
    /// step's learning rate is given, adds what that step changed.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn activate<const HALVES: usize>(
        &self,
        shared: &Shared,
        (step, number): (usize, usize),
        changed_by: Option<f32>,
    ) {
        let (warp, lane) = self.place();
        for tile in (warp..ROW_TILES).step_by(WARPS) {
            // SAFETY: the sums of the tile, and the units of the lane's four elements. All lanes of the warp have the same
            // tiles.
            unsafe {
                let sums = match changed_by {
                    Some(lr) => self.changed_sums::<HALVES>(shared, tile, lr),
                    None => (*shared.sums.add(tile * 32 + lane)).to_array(),
                };
                let units: [f32; FragmentC::ELEMENTS] = core::array::from_fn(|j| {
                    let ((row, col), sum) = (FragmentC::position(lane as u32, j), sums[j]);
                    let (row, is_bias) = (tile * 16 + row, number * UNITS + col == self.extents.hidden1);
                    // NaN stays NaN: weights too large for their halves must give a NaN loss.
                    let unit = if sum <= 0.0 { 0.0 } else { sum };
                    let unit = if is_bias { 1.0 } else { unit };
                    if row < self.extents.batch { unit * OUTPUTS } else { 0.0 }
                });
                self.put_halves::<HALVES>(|half| shared.units(step, half), tile, units);
            }
        }
    }

    /// Writes the halves of the lane's elements of a tile of rows; each row of halves is 16 bytes.
    ///
    /// # Safety
    /// `of_half` returns rows in shared memory, and no other code uses those of the tile.
    #[inline(always)]
    unsafe fn put_halves<const HALVES: usize>(
        &self,
        of_half: impl Fn(usize) -> *mut u32x4,
        tile: usize,
        [a, b, c, d]: [f32; 4],
    ) {
        let (group, place) = group_of(self.place().1);
        let (upper, lower) = (split::<HALVES>([a, b]), split::<HALVES>([c, d]));
        for half in 0..HALVES {
            // SAFETY: the caller's contract.
            unsafe {
                let row = of_half(half).add(tile * 16 + group);
                *row.cast::<u32>().add(place) = upper[half];
                *row.add(8).cast::<u32>().add(place) = lower[half];
            }
        }
    }

    /// Returns the lane's sums of a tile of rows, including what the last step changed.
    ///
    /// # Safety
    /// Same as for the kernel; all lanes of the warp call this.
    #[inline(always)]
    unsafe fn changed_sums<const HALVES: usize>(&self, shared: &Shared, tile: usize, lr: f32) -> [f32; 4] {
        let (_, lane) = self.place();
        // SAFETY: the sums, the inner products and the gradients of the tile.
        unsafe {
            let sums = (*shared.sums.add(tile * 32 + lane)).to_array();
            let gram: [[_; HALVES]; ROW_PARTS] = core::array::from_fn(|part| {
                core::array::from_fn(|half| {
                    let quad = *shared.gram.add(gram_at(half, tile, part) + lane).cast::<u32x4>();
                    FragmentA::<f16>::from_registers(quad.to_array())
                })
            });
            let gradients = self.rows_as_b::<ROW_PARTS, HALVES>(|half| shared.d_units(half));
            let mut products = HalfProducts::<HALVES>::ZERO;
            for part in 0..ROW_PARTS {
                products.add(part, gram[part], gradients[part]);
            }
            let change = products.sums();
            core::array::from_fn(|j| (-lr / GRADIENTS).mul_add(change[j], sums[j]))
        }
    }

    /// Returns the fragments of B of rows of 16 bytes each, 16 rows per part.
    ///
    /// # Safety
    /// `of_half` returns `16 * PARTS` rows in shared memory. All lanes of the warp call this.
    #[inline(always)]
    pub(super) unsafe fn rows_as_b<const PARTS: usize, const HALVES: usize>(
        &self,
        of_half: impl Fn(usize) -> *mut u32x4,
    ) -> [[FragmentB<f16>; HALVES]; PARTS] {
        let (_, lane) = self.place();
        let mut registers = [[[0; 2]; HALVES]; PARTS];
        for pair in 0..PARTS / 2 {
            for half in 0..HALVES {
                // SAFETY: the caller's contract.
                let [a, b, c, d]: [u32; 4] = unsafe { ldmatrix_trans(of_half(half).add(32 * pair + lane)) };
                registers[2 * pair][half] = [a, b];
                registers[2 * pair + 1][half] = [c, d];
            }
        }
        registers.map(|part| part.map(FragmentB::from_registers))
    }

    /// Reads the sums of block `number` for the first step from the launch before.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn take_sums(&self, shared: &Shared, steps: &ResidentSteps, number: usize) {
        let ahead = steps.ahead.cast::<f32x4>().wrapping_add(number * UNITS_QUADS);
        for i in self.each(UNITS_QUADS) {
            // SAFETY: the block's quads.
            unsafe { *shared.sums.add(i) = *ahead.add(i) };
        }
    }

    /// Writes the sums of block `number` for the launch after this one, with the last step's learning rate.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn leave_sums<const HALVES: usize>(
        &self,
        shared: &Shared,
        steps: &ResidentSteps,
        number: usize,
        lr: f32,
    ) {
        let (warp, lane) = self.place();
        let ahead = steps.ahead.cast::<f32x4>().wrapping_add(number * UNITS_QUADS + lane);
        for tile in (warp..ROW_TILES).step_by(WARPS) {
            // SAFETY: the lane's quad of the tile. All lanes of the warp have the same tiles.
            unsafe { *ahead.add(tile * 32) = self.changed_sums::<HALVES>(shared, tile, lr).into() };
        }
    }

    /// Computes the gradient of the units' sums, in the block's first warps. `above` are the units' weights.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn differentiate<const HALVES: usize>(
        &self,
        shared: &Shared,
        above: &[[FragmentB<f16>; HALVES]; COLUMN_PARTS],
        step: usize,
        number: usize,
    ) {
        let (warp, lane) = self.place();
        let (group, place) = group_of(lane);
        for tile in (warp..ROW_TILES).step_by(WARPS) {
            // SAFETY: the gradients of the tile's rows, the units' weights, and the lane's elements. All lanes of the warp
            // have the same tiles.
            unsafe {
                let units = shared.units(step, 0).add(tile * 16 + group);
                let units = [units, units.add(8)].map(|row| *row.cast::<u32>().add(place));
                // Two sums, so that one does not wait for the other.
                let mut products = [HalfProducts::<HALVES>::ZERO; 2];
                for part in 0..COLUMN_PARTS {
                    let gradients = core::array::from_fn(|half| {
                        let row = shared.gradients(half).add((tile * 16 + lane % 16) * HALF_PITCH);
                        FragmentA::from_registers(ldmatrix(row.add(2 * part + lane / 16)))
                    });
                    products[part % 2].add(part / 2, gradients, above[part]);
                }
                let ([a, b], [c, d]) = (f16x2_to_f32(units[0]), f16x2_to_f32(units[1]));
                let (units, [even, odd]) = ([a, b, c, d], products.map(|products| products.sums()));
                let gradients = core::array::from_fn(|j| {
                    let (_, col) = FragmentC::position(lane as u32, j);
                    let is_active = units[j] > 0.0 && number * UNITS + col < self.extents.hidden1;
                    if is_active { (even[j] + odd[j]) * (1.0 / WEIGHTS) } else { 0.0 }
                });
                self.put_halves::<HALVES>(|half| shared.d_units(half), tile, gradients);
            }
        }
    }

    /// Waits for the warps that compute the gradient of the units' sums, in those alone.
    ///
    /// # Safety
    /// All threads of the block call this.
    #[inline(always)]
    pub(super) unsafe fn sync_rows(&self) {
        // SAFETY: all threads of these warps execute this.
        unsafe {
            if WARPS <= ROW_TILES {
                self.sync();
            } else if self.place().0 < ROW_TILES {
                thread::sync_named_aligned(1, 32 * ROW_TILES as u32);
            }
        }
    }

    /// Computes the step of the second layer's rows, in the block's last warps. `units` are those of the step.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn update_above<const HALVES: usize>(
        &self,
        shared: &Shared,
        units: &[[FragmentB<f16>; HALVES]; ROW_PARTS],
        step: usize,
        lr: f32,
    ) {
        let (warp, lane) = self.place();
        let (group, place) = group_of(lane);
        let factor = lr * (WEIGHTS / (GRADIENTS * OUTPUTS));
        // The first warps compute the gradient of the units' sums.
        let busy = if WARPS > ROW_TILES { ROW_TILES } else { 0 };
        if warp < busy {
            return;
        }
        // SAFETY: the gradients of all rows and their units, and the lane's pair of units of two columns of each part. All
        // lanes of the warp have the same parts.
        unsafe {
            for column in (warp - busy..COLUMN_PARTS).step_by(WARPS - busy) {
                let mut products = HalfProducts::<HALVES>::ZERO;
                for part in 0..ROW_PARTS {
                    let gradients = core::array::from_fn(|half| {
                        let row = 16 * part + lane / 16 * 8 + lane % 8;
                        let quad = 2 * column + lane / 8 % 2;
                        let row = shared.gradients(half).add(row * HALF_PITCH + quad);
                        FragmentA::from_registers(ldmatrix_trans(row))
                    });
                    products.add(part, gradients, units[part]);
                }
                let sums = products.sums();
                for i in 0..2 {
                    let at = 16 * column + group + 8 * i;
                    let weights = shared.above.cast::<f32x2>().add(at * UNITS / 2 + place);
                    let old = (*weights).to_array();
                    let new = core::array::from_fn(|j| old[j] - factor * sums[2 * i + j]);
                    *weights = new.into();
                    let halves = split::<HALVES>(new);
                    for half in 0..HALVES {
                        let row = shared.above_halves(step + 1, half).add(at);
                        *row.cast::<u32>().add(place) = halves[half];
                    }
                }
            }
        }
    }
}
