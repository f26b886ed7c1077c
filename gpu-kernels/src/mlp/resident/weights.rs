//! A block that owns hidden units of the first layer.

use cuda_std::GpuFloat as _;
use cuda_std::grid::Watchdog;
use cuda_std::half::f16;
use cuda_std::mem::{f32x4, u32x4};
use cuda_std::mma::{FragmentB, FragmentC, ldmatrix, ldmatrix_trans, mma_sync_tiles, movmatrix_trans};
use cuda_std::pipeline;

use super::batches::Copies;
use super::exchange::Mail;
use super::extents::{GRADIENT_PITCH, MAX_ROWS, PITCH, ROW_TILES, TILE, UNITS, UNITS_QUADS, pool_quads};
use super::halves::{GRADIENTS, WEIGHTS, fragments, join, pixels, split, unscale};
use super::{Block, ResidentNetwork, ResidentSteps};

/// Longer than the slowest device needs, and short of a watchdog of the operating system.
const GRADIENTS_OF_ROWS: Watchdog = Watchdog::new("the gradients of the batch's rows", 1_500_000_000);

/// Rows that a warp waits for at once: all of a warp's on a GPU.
const AT_ONCE: usize = 8;

/// Rows whose sums a warp computes at once.
const SENT_AT_ONCE: usize = 4;

/// The weights of a warp's tiles times [`WEIGHTS`], spread over its lanes as products are; their rows are in the order of
/// [`feature_of`](super::halves::feature_of).
pub(super) type Tiles<const TILES: usize> = [FragmentC; TILES];

/// What lies in shared memory after the batches.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    /// `[warps, ROW_TILES, 32]` sums, later `[MAX_ROWS, PITCH]` gradients at the second layer's sums.
    pub pool: *mut f32x4,
    /// `[ROW_TILES, 32]`: the sums of all warps, by lanes.
    pub sums: *mut f32x4,
    /// `[2, MAX_ROWS, UNITS]`: the units, those of even steps first.
    pub units: *mut f32,
    /// `[2, MAX_ROWS, GRADIENT_PITCH]`: the gradient at their sums, of which one part comes from half of the second layer.
    pub d_units: *mut f32,
    /// `[ROW_TILES, 32]`: its halves, as the lanes' registers of B.
    pub d_halves: *mut u32x4,
    /// `[2, UNITS, PITCH]`: the units' weights in the second layer, those of even steps first.
    pub above: *mut f32x4,
    /// `[ROW_TILES, MAX_ROWS / 8, 32]`: the inner products of the next batch's samples with those of this one, by lanes.
    pub gram: *mut f32x4,
}

impl Shared {
    /// The units at a step.
    #[inline(always)]
    pub fn units(&self, step: usize) -> *mut f32 {
        self.units.wrapping_add(step % 2 * MAX_ROWS * UNITS)
    }

    /// The units' weights in the second layer at a step.
    #[inline(always)]
    pub fn above(&self, step: usize) -> *mut f32x4 {
        self.above.wrapping_add(step % 2 * UNITS * PITCH)
    }
}

impl<const WARPS: usize> Block<WARPS> {
    /// Where everything lies in a block of weights.
    #[inline(always)]
    fn weights_shared(&self) -> Shared {
        let pool = self.shared.wrapping_add(self.extents.batches_bytes() / 16);
        let sums = pool.wrapping_add(pool_quads(WARPS));
        let units = sums.wrapping_add(UNITS_QUADS);
        let d_units = units.wrapping_add(2 * UNITS_QUADS);
        let d_halves = d_units.wrapping_add(2 * MAX_ROWS * GRADIENT_PITCH / 4);
        let above = d_halves.wrapping_add(ROW_TILES * 32);
        let gram = above.wrapping_add(2 * UNITS * PITCH);
        let (units, d_units, d_halves) = (units.cast(), d_units.cast(), d_halves.cast());
        Shared { pool, sums, units, d_units, d_halves, above, gram }
    }

    /// The steps of the weights of block `number`.
    ///
    /// # Safety
    /// As for the kernel; the inner products of the batches are there.
    #[inline(always)]
    pub(super) unsafe fn train_weights<const TILES: usize, const HALVES: usize>(
        &self,
        network: &ResidentNetwork,
        steps: &ResidentSteps,
        number: usize,
    ) {
        let (e, count, ahead) = (self.extents, steps.steps as usize, steps.batches());
        // SAFETY: the kernel's contract for all of it; the parts of shared memory lie one after the other, and between
        // one thread's write and another's read there is a barrier, which all threads come to.
        unsafe {
            let (shared, batches) = (self.weights_shared(), self.batches());
            let mut weights = self.begin::<TILES>(&shared, network, number);
            for step in 0..ahead.min(2) {
                self.choose(&batches, steps, step);
            }
            self.sync();
            for step in 0..ahead.min(2) {
                self.fetch(&batches, steps, step);
            }
            pipeline::commit();
            pipeline::wait_prior::<0>();
            self.sync();
            if steps.is_begun == 0 {
                self.multiply::<TILES, HALVES>(&shared, self.batch(&batches, 0), &weights, None);
                self.sync();
                self.add_sums(&shared);
            } else {
                self.take_sums(&shared, steps, number);
            }
            self.sync();
            self.activate::<HALVES>(&shared, (0, number), None);
            self.sync();
            let rows: [usize; AT_ONCE] = core::array::from_fn(|i| self.gradients_at(i));
            for step in 0..count {
                let mail = Mail::of(steps.mail, &e, steps.round.wrapping_add(step as u32));
                let has_next = step + 1 < ahead;
                self.send_sums(&shared, &mail, step, number);
                // While the rows' blocks work: the last step's change of the weights, and the next batch's sums without
                // that of this one.
                if has_next {
                    self.fetch_gram(shared.gram, steps, step + 1);
                    pipeline::commit();
                    if step + 2 < ahead {
                        self.choose(&batches, steps, step + 2);
                    }
                }
                if step > 0 {
                    let batch = self.batch(&batches, step - 1);
                    self.update::<TILES, HALVES>(&shared, batch, &mut weights, steps.lr);
                }
                if has_next {
                    // In place of the batch before, which all warps are done with.
                    self.sync();
                    let fetched = (step + 2 < ahead).then(|| self.copies(&batches, steps, step + 2));
                    let batch = self.batch(&batches, step + 1);
                    self.multiply::<TILES, HALVES>(&shared, batch, &weights, fetched.as_ref());
                    pipeline::commit();
                    self.sync();
                    self.add_sums(&shared);
                    self.sync();
                    pipeline::wait_prior::<1>();
                }
                self.receive_gradients(&shared, &mail, &rows);
                self.sync();
                self.differentiate::<HALVES>(&shared, step, number);
                self.sync();
                if step + 1 < count {
                    self.activate::<HALVES>(&shared, (step + 1, number), Some(steps.lr));
                } else if has_next {
                    self.leave_sums::<HALVES>(&shared, steps, number);
                }
                self.halve::<HALVES>(&shared);
                self.update_above::<HALVES>(&shared, step, steps.lr);
                // The batch after the next is there as well.
                pipeline::wait_prior::<0>();
                self.sync();
            }
            self.update::<TILES, HALVES>(&shared, self.batch(&batches, count - 1), &mut weights, steps.lr);
            self.finish::<TILES>(&shared, network, number, count, &weights);
        }
    }

    /// The tile of features that is the warp's number `t`.
    #[inline(always)]
    pub(super) fn tile(&self, t: usize) -> usize {
        self.place().0 + t * WARPS
    }

    /// Calls `of_tile` with the numbers of the warp's tiles.
    ///
    /// Where all warps have all but the last one these come without a question between, so that the one's loads go on while the
    /// other is computed.
    #[inline(always)]
    fn each_tile<const TILES: usize>(&self, mut of_tile: impl FnMut(usize)) {
        let tiles = self.extents.tiles();
        if tiles >= (TILES - 1) * WARPS {
            for t in 0..TILES - 1 {
                of_tile(t);
            }
            if self.tile(TILES - 1) < tiles {
                of_tile(TILES - 1);
            }
        } else {
            for t in 0..TILES {
                if self.tile(t) < tiles {
                    of_tile(t);
                }
            }
        }
    }

    /// The warp's share of the units' sums of a batch, by tensor cores. Meanwhile another batch is copied, a row a tile: all at
    /// once they would wait for each other.
    ///
    /// # Safety
    /// As for the kernel, and for the copies.
    #[inline(always)]
    unsafe fn multiply<const TILES: usize, const HALVES: usize>(
        &self,
        shared: &Shared,
        batch: *const u8,
        weights: &Tiles<TILES>,
        fetched: Option<&Copies<WARPS>>,
    ) {
        let (warp, lane) = self.place();
        let mut sums = [[FragmentC::ZERO; HALVES]; ROW_TILES];
        let tiles = self.extents.tiles().saturating_sub(warp).div_ceil(WARPS);
        // SAFETY: all lanes have the same tiles, which lie in the batch; each thread writes sums of its own.
        unsafe {
            self.each_tile::<TILES>(|t| {
                if let Some(copies) = fetched {
                    copies.row(t);
                }
                let row = batch.add(lane * self.extents.stride() + self.tile(t) * TILE);
                let [a, b, c, d]: [u32; 4] = ldmatrix(row);
                let [e, f, g, h]: [u32; 4] = ldmatrix(row.add(32 * self.extents.stride()));
                let rows = [[a, b], [c, d], [e, f], [g, h]].map(|rows| pixels(rows, false));
                let [w, x, y, z] = weights[t].0;
                let upper = split::<HALVES>([w, x]).map(|pair| movmatrix_trans(pair));
                let lower = split::<HALVES>([y, z]).map(|pair| movmatrix_trans(pair));
                mma_sync_tiles(&rows, &fragments(upper, lower), &mut sums);
            });
            if let Some(copies) = fetched {
                copies.from(tiles);
            }
            for i in 0..ROW_TILES {
                *shared.pool.add((warp * ROW_TILES + i) * 32 + lane) = join(&sums[i]).into();
            }
        }
    }

    /// The units' sums of all warps.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn add_sums(&self, shared: &Shared) {
        let (pool, sums) = (shared.pool.cast::<f32>(), shared.sums.cast::<f32>());
        for i in self.each(4 * UNITS_QUADS) {
            // SAFETY: an element of each warp's sums.
            unsafe {
                let of_warps: [f32; WARPS] =
                    core::array::from_fn(|warp| *pool.add(warp * 4 * UNITS_QUADS + i));
                *sums.add(i) =
                    of_warps.into_iter().fold(0.0, |sum, of_warp| sum + of_warp) * unscale(WEIGHTS);
            }
        }
    }

    /// Sends each row its share of the second layer's sums.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn send_sums(&self, shared: &Shared, mail: &Mail, step: usize, number: usize) {
        let (e, (warp, lane)) = (self.extents, self.place());
        if lane >= e.quads() {
            return;
        }
        // SAFETY: the lane's quad of each unit, and of each row.
        unsafe {
            let above: [[f32; 4]; UNITS] =
                core::array::from_fn(|unit| (*shared.above(step).add(unit * PITCH + lane)).to_array());
            let units = shared.units(step).cast::<f32x4>().add(warp * (UNITS / 4));
            let to = mail.sums.wrapping_add((warp * e.weight_blocks() + number) * e.quads() + lane);
            for first in (0..MAX_ROWS / WARPS).step_by(SENT_AT_ONCE) {
                let sums = |i: usize| -> [f32; 4] {
                    let units = units.add((first + i) * WARPS * (UNITS / 4));
                    let ([a, b, c, d], [e, f, g, h]) = ((*units).to_array(), (*units.add(1)).to_array());
                    let units = [a, b, c, d, e, f, g, h];
                    core::array::from_fn(|j| {
                        let first = units[0] * above[0][j];
                        (1..UNITS).fold(first, |sum, unit| units[unit].mul_add(above[unit][j], sum))
                    })
                };
                let send = |i: usize, sums: [f32; 4]| {
                    let rows = (first + i) * WARPS;
                    if rows + warp < e.batch {
                        mail.send(to.wrapping_add(rows * e.weight_blocks() * e.quads()), sums);
                    }
                };
                // All at once, also of rows that are not there, so that no sum waits for another one. Loops over them would be
                // left as such, with the sums in local memory.
                let sums: [[f32; 4]; SENT_AT_ONCE] = [sums(0), sums(1), sums(2), sums(3)];
                send(0, sums[0]);
                send(1, sums[1]);
                send(2, sums[2]);
                send(3, sums[3]);
            }
        }
    }

    /// Where the lane's quad of the gradients of the warp's row number `i` lies in the mail. Those of rows that are not there are
    /// another one's: their units are zeros.
    #[inline(always)]
    fn gradients_at(&self, i: usize) -> usize {
        let (warp, lane) = self.place();
        (warp + i * WARPS).min(self.extents.batch - 1) * self.extents.quads() + lane
    }

    /// Waits for the gradients of all rows, of which the warp's first ones lie `at`.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn receive_gradients(&self, shared: &Shared, mail: &Mail, at: &[usize; AT_ONCE]) {
        let (warp, lane) = self.place();
        for first in (0..MAX_ROWS / WARPS).step_by(AT_ONCE) {
            // SAFETY: the lane's quad of rows that there are.
            unsafe {
                let mut gradients = [f32x4::default(); AT_ONCE];
                if lane < self.extents.quads() {
                    let at = match first {
                        0 => *at,
                        _ => core::array::from_fn(|i| self.gradients_at(first + i)),
                    };
                    gradients =
                        mail.receive(GRADIENTS_OF_ROWS, at.map(|at| mail.gradients.add(at).cast_const()));
                }
                for i in 0..AT_ONCE {
                    *shared.pool.add((warp + (first + i) * WARPS) * PITCH + lane) = gradients[i];
                }
            }
        }
    }

    /// The step of the first layer, by tensor cores.
    ///
    /// # Safety
    /// As for the kernel; `batch` is that of the gradients.
    #[inline(always)]
    unsafe fn update<const TILES: usize, const HALVES: usize>(
        &self,
        shared: &Shared,
        batch: *const u8,
        weights: &mut Tiles<TILES>,
        lr: f32,
    ) {
        let (_, lane) = self.place();
        let factor = lr * unscale(GRADIENTS) * WEIGHTS;
        // SAFETY: all lanes have the same tiles, which lie in the batch; a lane reads its elements of the gradients.
        unsafe {
            let of_rows: [[FragmentB<f16>; HALVES]; ROW_TILES] = core::array::from_fn(|i| {
                let [a, b, c, d] = (*shared.d_halves.add(i * 32 + lane)).to_array();
                let halves = [[a, b], [c, d]];
                core::array::from_fn(|half| FragmentB::from_registers(halves[half]))
            });
            self.each_tile::<TILES>(|t| {
                let row = batch.add(lane * self.extents.stride() + self.tile(t) * TILE);
                let [a, b, c, d]: [u32; 4] = ldmatrix_trans(row);
                let [e, f, g, h]: [u32; 4] = ldmatrix_trans(row.add(32 * self.extents.stride()));
                let samples = [[a, b], [c, d], [e, f], [g, h]].map(|samples| pixels(samples, true));
                let mut sums = [[FragmentC::ZERO; HALVES]];
                for i in 0..ROW_TILES {
                    mma_sync_tiles(&[samples[i]], &of_rows[i], &mut sums);
                }
                let gradients = join(&sums[0]);
                let old = weights[t].0;
                weights[t] = FragmentC(core::array::from_fn(|j| old[j] - factor * gradients[j]));
            });
        }
    }
}
