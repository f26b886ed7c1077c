//! A block that owns hidden units of the first layer.

use cuda_std::GpuFloat as _;
use cuda_std::grid::Watchdog;
use cuda_std::half::f16;
use cuda_std::mem::{f32x4, u32x4};
use cuda_std::mma::{FragmentB, FragmentC, ldmatrix, ldmatrix_trans, mma_sync_tiles, movmatrix_trans};
use cuda_std::pipeline;

use super::exchange::Mail;
use super::extents::{MAX_ROWS, PITCH, QUADS, TILE, UNITS, pool_quads};
use super::halves::{GRADIENTS, WEIGHTS, fragments, join, pixels, split, unscale};
use super::{Block, ResidentNetwork, ResidentSteps};
use crate::mlp::batch::permuted;

/// Longer than the slowest device needs, and short of a watchdog of the operating system.
const GRADIENTS_OF_ROWS: Watchdog = Watchdog::new("the gradients of the batch's rows", 1_500_000_000);

/// Rows that a warp waits for at once.
const AT_ONCE: usize = 8;

/// Tiles of 16 rows in a batch.
const ROW_TILES: usize = MAX_ROWS / 16;

/// The weights of a warp's tiles, spread over its lanes as products are; their rows are in the order of [`feature_of`](super::halves::feature_of).
pub(super) type Tiles<const TILES: usize> = [FragmentC; TILES];

/// What lies in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    /// `[warps, ROW_TILES, 32]` sums, later `[MAX_ROWS, PITCH]` gradients.
    pool: *mut f32x4,
    /// `[MAX_ROWS, UNITS]`: the units.
    pub(super) units: *mut f32,
    /// `[MAX_ROWS, UNITS]`: the gradient at their sums.
    pub(super) d_units: *mut f32,
    /// `[UNITS + 1, PITCH]`: the units' weights in the second layer, and its biases in the first block.
    pub(super) above: *mut f32x4,
    /// `[MAX_ROWS]`: the samples of the next batch.
    samples: *mut u32,
    /// `[stages, MAX_ROWS, stride]`: the pixels, then 255 for the feature that is always 1, then zeros.
    pub(super) pixels: *mut u8,
}

impl<const WARPS: usize> Block<WARPS> {
    /// The steps of the weights of block `number`.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    pub(super) unsafe fn train_weights<const TILES: usize, const HALVES: usize>(
        &self,
        network: &ResidentNetwork,
        steps: &ResidentSteps,
        number: usize,
    ) {
        let e = self.extents;
        // SAFETY: the kernel's contract for all of it; the parts of shared memory lie one after the other, and between
        // one thread's write and another's read there is a barrier, which all threads come to.
        unsafe {
            let pool = self.shared;
            let units = pool.add(pool_quads(WARPS));
            let d_units = units.add(MAX_ROWS * UNITS / 4);
            let above = d_units.add(MAX_ROWS * UNITS / 4);
            let samples = above.add((UNITS + 1) * PITCH);
            let pixels = samples.add(MAX_ROWS / 4).cast();
            let (units, d_units, samples) = (units.cast(), d_units.cast(), samples.cast());
            let shared = Shared { pool, units, d_units, above, samples, pixels };
            let mut weights = self.begin::<TILES>(&shared, network, steps, number);
            self.choose(&shared, steps, 0);
            self.sync();
            self.fetch(&shared, steps, 0);
            pipeline::wait_prior::<0>();
            self.sync();
            for step in 0..steps.steps as usize {
                let mail = Mail::of(steps.mail, &e, steps.round.wrapping_add(step as u32));
                let stage = step % steps.stages as usize;
                let batch = shared.pixels.add(stage * MAX_ROWS * e.stride());
                self.multiply::<TILES, HALVES>(&shared, batch, &weights);
                self.sync();
                self.activate(&shared);
                let has_next = step + 1 < steps.steps as usize;
                if has_next {
                    self.choose(&shared, steps, step + 1);
                }
                self.sync();
                self.send_sums(&shared, &mail, number);
                if has_next && steps.stages == 2 {
                    self.fetch(&shared, steps, step + 1);
                }
                self.receive_gradients(&shared, &mail);
                self.sync();
                self.differentiate(&shared);
                self.sync();
                self.move_above(&shared, number == 0, steps.lr);
                self.move_tiles::<TILES, HALVES>(&shared, batch, &mut weights, steps.lr);
                if has_next && steps.stages == 1 {
                    self.sync();
                    self.fetch(&shared, steps, step + 1);
                }
                pipeline::wait_prior::<0>();
                self.sync();
            }
            self.finish::<TILES>(&shared, network, number, &weights);
        }
    }

    /// The tile of features that is the warp's number `t`.
    #[inline(always)]
    pub(super) fn tile(&self, t: usize) -> usize {
        self.place().0 + t * WARPS
    }

    /// Finds the samples of a step's batch.
    ///
    /// # Safety
    /// As for the kernel; nobody reads the samples before a barrier.
    #[inline(always)]
    unsafe fn choose(&self, shared: &Shared, steps: &ResidentSteps, step: usize) {
        let (first, rows) = steps.samples_of(step);
        for row in self.each(rows) {
            let sample = permuted(first + row as u32, steps.samples, steps.seed, steps.epoch);
            // SAFETY: there are at most `MAX_ROWS`.
            unsafe { *shared.samples.add(row) = sample };
        }
    }

    /// Begins to copy the pixels of a step's batch, whose samples have been chosen. Rows that it does not have keep those of
    /// another one: their gradients are zeros.
    ///
    /// # Safety
    /// As for the kernel; nobody reads them before a wait and a barrier.
    #[inline(always)]
    unsafe fn fetch(&self, shared: &Shared, steps: &ResidentSteps, step: usize) {
        let (e, (_, rows)) = (self.extents, steps.samples_of(step));
        let stage = step % steps.stages as usize * MAX_ROWS;
        // SAFETY: rows lie in the stage, samples in the data set; 16 bytes are copied where all rows begin at a multiple.
        unsafe {
            let source = |row: usize| steps.images.add(*shared.samples.add(row) as usize * e.features);
            let target = |row: usize| shared.pixels.add((stage + row) * e.stride());
            if e.features.is_multiple_of(TILE) && steps.images.addr().is_multiple_of(TILE) {
                let chunks = e.features / TILE;
                for i in self.each(rows * chunks) {
                    let (row, at) = (i / chunks, i % chunks * TILE);
                    let (to, from) = (target(row).add(at), source(row).add(at));
                    pipeline::memcpy_async(to.cast::<u32x4>(), from.cast::<u32x4>());
                }
            } else {
                for i in self.each(rows * e.features) {
                    let (row, at) = (i / e.features, i % e.features);
                    *target(row).add(at) = *source(row).add(at);
                }
            }
            pipeline::commit();
        }
    }

    /// The warp's share of the units' sums, by tensor cores.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn multiply<const TILES: usize, const HALVES: usize>(
        &self,
        shared: &Shared,
        batch: *const u8,
        weights: &Tiles<TILES>,
    ) {
        let (warp, lane) = self.place();
        let mut sums = [[FragmentC::ZERO; HALVES]; ROW_TILES];
        // SAFETY: all lanes have the same tiles, which lie in the batch; each thread writes sums of its own.
        unsafe {
            for t in 0..TILES {
                if self.tile(t) < self.extents.tiles() {
                    let row = batch.add(lane * self.extents.stride() + self.tile(t) * TILE);
                    let [a, b, c, d]: [u32; 4] = ldmatrix(row);
                    let [e, f, g, h]: [u32; 4] = ldmatrix(row.add(32 * self.extents.stride()));
                    let rows = [[a, b], [c, d], [e, f], [g, h]].map(|rows| pixels(rows, false));
                    let [w, x, y, z] = weights[t].0.map(|weight| weight * WEIGHTS);
                    let upper = split::<HALVES>([w, x]).map(|pair| movmatrix_trans(pair));
                    let lower = split::<HALVES>([y, z]).map(|pair| movmatrix_trans(pair));
                    mma_sync_tiles(&rows, &fragments(upper, lower), &mut sums);
                }
            }
            for i in 0..ROW_TILES {
                *shared.pool.add((warp * ROW_TILES + i) * 32 + lane) = join(&sums[i]).into();
            }
        }
    }

    /// The units, from the sums of all warps.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn activate(&self, shared: &Shared) {
        for i in self.each(ROW_TILES * 32) {
            // SAFETY: the sums of each warp, and the units that a lane's four elements are.
            unsafe {
                let mut sums = [0.0; 4];
                for warp in 0..WARPS {
                    let of_warp = (*shared.pool.add(warp * ROW_TILES * 32 + i)).to_array();
                    sums = core::array::from_fn(|j| sums[j] + of_warp[j]);
                }
                for (j, sum) in sums.into_iter().enumerate() {
                    let (row, col) = FragmentC::position(i as u32 % 32, j);
                    let sum = sum * unscale(WEIGHTS);
                    // NaN stays: of weights too large for their halves the loss is none.
                    *shared.units.add((i / 32 * 16 + row) * UNITS + col) = if sum <= 0.0 { 0.0 } else { sum };
                }
            }
        }
    }

    /// Sends each row its share of the second layer's sums.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn send_sums(&self, shared: &Shared, mail: &Mail, number: usize) {
        let (e, (warp, lane)) = (self.extents, self.place());
        if lane >= e.quads() {
            return;
        }
        // SAFETY: the lane's quad of each unit, and of each row.
        unsafe {
            let above: [[f32; 4]; UNITS] =
                core::array::from_fn(|unit| (*shared.above.add(unit * PITCH + lane)).to_array());
            let biases = (*shared.above.add(UNITS * PITCH + lane)).to_array();
            for row in (warp..e.batch).step_by(WARPS) {
                let units = shared.units.add(row * UNITS);
                let sums = (0..UNITS).fold(biases, |sums, unit| {
                    let x = *units.add(unit);
                    core::array::from_fn(|j| x.mul_add(above[unit][j], sums[j]))
                });
                mail.send(mail.sums.add((row * e.weight_blocks() + number) * e.quads() + lane), sums);
            }
        }
    }

    /// Waits for the gradients of all rows.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn receive_gradients(&self, shared: &Shared, mail: &Mail) {
        let (e, (warp, lane)) = (self.extents, self.place());
        for first in (warp..MAX_ROWS).step_by(WARPS * AT_ONCE) {
            let rows: [usize; AT_ONCE] = core::array::from_fn(|i| first + i * WARPS);
            // SAFETY: the lane's quad of rows that there are.
            unsafe {
                let mut gradients = [f32x4::default(); AT_ONCE];
                if lane < e.quads() {
                    let from = rows
                        .map(|row| mail.gradients.add(row.min(e.batch - 1) * e.quads() + lane).cast_const());
                    gradients = mail.receive(GRADIENTS_OF_ROWS, from);
                }
                for i in 0..AT_ONCE {
                    let gradient = if rows[i] < e.batch { gradients[i] } else { f32x4::default() };
                    *shared.pool.add(rows[i] * PITCH + lane) = gradient;
                }
            }
        }
    }

    /// The gradient at the units' sums.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn differentiate(&self, shared: &Shared) {
        for i in self.each(self.extents.batch * UNITS) {
            // SAFETY: a row and a unit.
            unsafe {
                let (gradients, above) =
                    (shared.pool.add(i / UNITS * PITCH), shared.above.add(i % UNITS * PITCH));
                let mut sums = [0.0f32; 4];
                for quad in 0..self.extents.quads() {
                    let (gradient, weight) =
                        ((*gradients.add(quad)).to_array(), (*above.add(quad)).to_array());
                    sums = core::array::from_fn(|j| gradient[j].mul_add(weight[j], sums[j]));
                }
                let sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
                *shared.d_units.add(i) = if *shared.units.add(i) > 0.0 { sum } else { 0.0 };
            }
        }
    }

    /// The step of the second layer's rows, and where they are this block's of its biases.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn move_above(&self, shared: &Shared, has_biases: bool, lr: f32) {
        for i in self.each((UNITS + usize::from(has_biases)) * QUADS) {
            let (unit, lane) = (i / QUADS, i % QUADS);
            // SAFETY: a quad of a unit, or of the biases.
            unsafe {
                let mut gradients = [0.0f32; 4];
                for row in 0..self.extents.batch {
                    let x = if unit < UNITS { *shared.units.add(row * UNITS + unit) } else { 1.0 };
                    let gradient = (*shared.pool.add(row * PITCH + lane)).to_array();
                    gradients = core::array::from_fn(|j| x.mul_add(gradient[j], gradients[j]));
                }
                let above = shared.above.add(unit * PITCH + lane);
                let old = (*above).to_array();
                *above = core::array::from_fn(|j| old[j] - lr * gradients[j]).into();
            }
        }
    }

    /// The step of the first layer, by tensor cores.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    unsafe fn move_tiles<const TILES: usize, const HALVES: usize>(
        &self,
        shared: &Shared,
        batch: *const u8,
        weights: &mut Tiles<TILES>,
        lr: f32,
    ) {
        let (_, lane) = self.place();
        let factor = lr * unscale(GRADIENTS);
        // SAFETY: all lanes have the same tiles, which lie in the batch; a lane reads its elements of the gradients.
        unsafe {
            let of_rows: [[FragmentB<f16>; HALVES]; ROW_TILES] = core::array::from_fn(|i| {
                let gradient = |j: usize| {
                    let (row, col) = FragmentB::<f16>::position(lane as u32, j);
                    *shared.d_units.add((i * 16 + row) * UNITS + col) * GRADIENTS
                };
                let (upper, lower) = ([gradient(0), gradient(1)], [gradient(2), gradient(3)]);
                fragments(split(upper), split(lower))
            });
            for t in 0..TILES {
                if self.tile(t) < self.extents.tiles() {
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
                }
            }
        }
    }
}
