//! What a block of weights sends to the blocks of rows, and receives from them.

use cuda_std::half::{f16, f32_to_f16x2};
use cuda_std::mem::{u32x2, u32x4};
use cuda_std::mma::{FragmentA, FragmentB, FragmentC, ldmatrix, mma_sync_tiles};

use super::Block;
use super::exchange::{Mail, shares_at};
use super::extents::{COLUMNS, HALF_PITCH, MAX_ROWS, ROW_TILES};
use super::halves::{OUTPUTS, WEIGHTS, upper_and_lower};
use super::weights::Shared;

/// Quads of gradients, as whole numbers, that a lane waits for at once: all of a lane's on a GPU.
const AT_ONCE: usize = 8;

/// Quads of gradients, as halves, that a lane waits for at once.
const AT_ONCE_HALVES: usize = 4;

/// Tiles of eight columns whose sums a warp computes: half of the second layer.
const TILES: usize = COLUMNS / 16;

impl<const WARPS: usize> Block<WARPS> {
    /// Sends each row its share of the second layer's sums.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn send_sums<const HALVES: usize>(
        &self,
        shared: &Shared,
        mail: &Mail,
        step: usize,
        number: usize,
    ) {
        let (e, (warp, lane)) = (self.extents, self.place());
        let share = e.share_quads(HALVES);
        for job in (warp..2 * ROW_TILES).step_by(WARPS) {
            let (tile, half) = (job % ROW_TILES, job / ROW_TILES);
            // SAFETY: the units of the tile's rows, their weights, and the quads of the lane's two rows. All lanes of the
            // warp have the same jobs.
            unsafe {
                let sums = self.sums_above::<HALVES>(shared, step, tile, half);
                // The lane's quads from the first tile of the job on: of two tiles each, or of four.
                let first = half * (TILES * HALVES / 4);
                let rows = [tile * 16, tile * 16 + 8];
                let to = rows.map(|row| {
                    mail.sums.wrapping_add(shares_at(&e, HALVES, row, number) + first * 32 + lane)
                });
                for i in 0..TILES * HALVES / 4 {
                    if 4 * (first + i) >= share {
                        continue;
                    }
                    for j in 0..2 {
                        if rows[j] >= e.batch {
                            continue;
                        }
                        let to = to[j].wrapping_add(32 * i);
                        let pair = |tile: usize| [sums[tile].0[2 * j], sums[tile].0[2 * j + 1]];
                        if HALVES == 2 {
                            let ([a, b], [c, d]) = (pair(2 * i), pair(2 * i + 1));
                            mail.send_words(to, [a, b, c, d].map(f32::to_bits));
                        } else {
                            let pairs = [pair(4 * i), pair(4 * i + 1), pair(4 * i + 2), pair(4 * i + 3)];
                            mail.send_words(to, pairs.map(f32_to_f16x2));
                        }
                    }
                }
            }
        }
    }

    /// Returns the block's share of the sums of a tile of rows with half of the second layer.
    ///
    /// # Safety
    /// Same as for the kernel; all lanes of the warp call this.
    #[inline(always)]
    unsafe fn sums_above<const HALVES: usize>(
        &self,
        shared: &Shared,
        step: usize,
        tile: usize,
        half: usize,
    ) -> [FragmentC; TILES] {
        let lane = self.place().1;
        // SAFETY: the units of the tile's rows and their weights.
        unsafe {
            let units: [[u32; 2]; HALVES] =
                core::array::from_fn(|i| ldmatrix(shared.units(step, i).add(tile * 16 + lane % 16)));
            let ([a, b], [c, d]) = (units[0], units[HALVES - 1]);
            // Both halves are multiplied with the weights' upper halves, side by side, as there are only eight units.
            let [c, d] = if HALVES == 2 { [c, d] } else { [0; 2] };
            let (both, upper) = ([a, b, c, d], [a, b, 0, 0]);
            let [both, upper] = [both, upper].map(FragmentA::<f16>::from_registers);
            let mut weights = [[0; TILES]; HALVES];
            for i in 0..HALVES {
                for part in 0..TILES / 4 {
                    let columns = shared.above_halves(step, i).add((half * TILES + part * 4) * 8 + lane);
                    let registers: [u32; 4] = ldmatrix(columns);
                    for tile in 0..4 {
                        weights[i][part * 4 + tile] = registers[tile];
                    }
                }
            }
            let mut sums = [[FragmentC::ZERO; TILES]];
            mma_sync_tiles(
                &[both],
                &weights[0].map(|columns| FragmentB::from_registers([columns; 2])),
                &mut sums,
            );
            if HALVES == 2 {
                let lower = weights[HALVES - 1].map(|columns| FragmentB::from_registers([columns, 0]));
                mma_sync_tiles(&[upper], &lower, &mut sums);
            }
            let unscale = if HALVES == 2 { 1.0 } else { 1.0 / (WEIGHTS * OUTPUTS) };
            sums[0].map(|sums| FragmentC(sums.0.map(|sum| sum * unscale)))
        }
    }

    /// Waits for the gradients of all rows. Rows that do not exist get those of another row: their units are zeros.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn receive_gradients<const HALVES: usize>(&self, shared: &Shared, mail: &Mail) {
        // SAFETY: the caller's contract.
        unsafe {
            if HALVES == 2 {
                self.receive_numbers(shared, mail);
            } else {
                self.receive_halves(shared, mail);
            }
        }
    }

    /// Does the same for gradients that are sent as numbers.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    unsafe fn receive_numbers(&self, shared: &Shared, mail: &Mail) {
        let (e, (warp, lane)) = (self.extents, self.place());
        let (last, quads) = (e.batch as u32 - 1, e.gradient_quads(2) as u32);
        for first in (0..MAX_ROWS / WARPS).step_by(AT_ONCE) {
            let rows: [usize; AT_ONCE] = core::array::from_fn(|i| warp + (first + i) * WARPS);
            // SAFETY: the lane's quad of existing rows.
            unsafe {
                let mut gradients = [[0; 4]; AT_ONCE];
                if (lane as u32) < quads {
                    let from = rows.map(|row| {
                        let quad = (row as u32).min(last) * quads + lane as u32;
                        mail.gradients.wrapping_add(quad as usize).cast_const()
                    });
                    gradients = mail.receive_words("the gradients of the batch's rows", from);
                }
                for i in 0..AT_ONCE {
                    let halves = upper_and_lower(gradients[i]);
                    for half in 0..2 {
                        let row = shared.gradients(half).add(rows[i] * HALF_PITCH);
                        *row.cast::<u32x2>().add(lane) = halves[half].into();
                    }
                }
            }
        }
    }

    /// Does the same for gradients that are sent as halves. A half-warp receives a row.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    unsafe fn receive_halves(&self, shared: &Shared, mail: &Mail) {
        let (e, (warp, lane)) = (self.extents, self.place());
        let (last, quads, quad) = (e.batch as u32 - 1, e.gradient_quads(1) as u32, lane % 16);
        for first in (0..MAX_ROWS / (2 * WARPS)).step_by(AT_ONCE_HALVES) {
            let rows: [usize; AT_ONCE_HALVES] =
                core::array::from_fn(|i| 2 * (warp + (first + i) * WARPS) + lane / 16);
            // SAFETY: the lane's quad of existing rows.
            unsafe {
                let mut gradients = [[0; 4]; AT_ONCE_HALVES];
                if (quad as u32) < quads {
                    let from = rows.map(|row| {
                        let quad = (row as u32).min(last) * quads + quad as u32;
                        mail.gradients.wrapping_add(quad as usize).cast_const()
                    });
                    gradients = mail.receive_words("the gradients of the batch's rows", from);
                }
                for i in 0..AT_ONCE_HALVES {
                    let row = shared.gradients(0).add(rows[i] * HALF_PITCH);
                    *row.cast::<u32x4>().add(quad) = gradients[i].into();
                }
            }
        }
    }
}
