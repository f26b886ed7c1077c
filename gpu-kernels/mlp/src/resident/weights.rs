//! A block that owns hidden units of the first layer.

use cuda_std::barrier::Barrier;
use cuda_std::mem::{f32x4, u32x4};
use cuda_std::mma::{FragmentC, ldmatrix, ldmatrix_trans, mma_sync_tiles, movmatrix_trans};

use super::exchange::Mail;
use super::extents::{
    COLUMNS, GRAM_QUADS, HALF_PITCH, MAX_ROWS, ROW_TILES, STAGES, TILE, UNITS, UNITS_QUADS, pool_quads,
};
use super::halves::{GRADIENTS, WEIGHTS, fragments, join, pixels, split, unscale};
use super::{Block, ResidentNetwork, ResidentSteps};

/// The weights of a warp's tiles times [`WEIGHTS`], spread over its lanes like accumulators; their rows are in the order of
/// [`feature_of`](super::halves::feature_of).
pub(super) type Tiles<const TILES: usize> = [FragmentC; TILES];

/// The contents of shared memory after the batches.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    /// `[warps, ROW_TILES, 32]` sums; later halves of `[MAX_ROWS, HALF_PITCH]` times eight gradients of the second layer's
    /// sums, times [`GRADIENTS`].
    pub pool: *mut f32x4,
    /// `[ROW_TILES, 32]`: the sums of all warps, by lanes.
    pub sums: *mut f32x4,
    /// `[2, 2, MAX_ROWS]`: halves of the units times [`OUTPUTS`], 16 bytes per row, those of even steps first.
    units: *mut u32x4,
    /// `[2, MAX_ROWS]`: halves of the gradients of their sums times [`GRADIENTS`], 16 bytes per row.
    d_units: *mut u32x4,
    /// `[COLUMNS, UNITS]`: the units' weights in the second layer times [`WEIGHTS`], transposed.
    pub above: *mut f32,
    /// `[2, 2, COLUMNS]`: halves of those weights, 16 bytes per column, those of even steps first.
    above_halves: *mut u32x4,
    /// Halves of the inner products of the next batch's samples with those of this one, in the order of
    /// [`gram_at`](super::gram::gram_at).
    pub gram: *mut f32x4,
    /// The barrier at which a copy of a batch arrives.
    pub batch_is_there: *mut Barrier,
    /// The barrier at which the copy of `gram` arrives.
    pub gram_is_there: *mut Barrier,
}

impl Shared {
    /// Returns one half of the gradients of the second layer's sums.
    #[inline(always)]
    pub fn gradients(&self, half: usize) -> *mut f32x4 {
        self.pool.wrapping_add(half * MAX_ROWS * HALF_PITCH)
    }

    /// Returns one half of the units at a step.
    #[inline(always)]
    pub fn units(&self, step: usize, half: usize) -> *mut u32x4 {
        self.units.wrapping_add((step % 2 * 2 + half) * MAX_ROWS)
    }

    /// Returns one half of the gradients of their sums.
    #[inline(always)]
    pub fn d_units(&self, half: usize) -> *mut u32x4 {
        self.d_units.wrapping_add(half * MAX_ROWS)
    }

    /// Returns one half of the units' weights in the second layer at a step.
    #[inline(always)]
    pub fn above_halves(&self, step: usize, half: usize) -> *mut u32x4 {
        self.above_halves.wrapping_add((step % 2 * 2 + half) * COLUMNS)
    }
}

impl<const WARPS: usize> Block<WARPS> {
    /// Returns the layout of shared memory in a block of weights.
    #[inline(always)]
    fn weights_shared(&self) -> Shared {
        let pool = self.shared.wrapping_add(self.extents.batches_bytes() / 16);
        let sums = pool.wrapping_add(pool_quads(WARPS));
        let units = sums.wrapping_add(UNITS_QUADS);
        let d_units = units.wrapping_add(2 * 2 * MAX_ROWS);
        let above = d_units.wrapping_add(2 * MAX_ROWS);
        let above_halves = above.wrapping_add(COLUMNS * UNITS / 4);
        let gram = above_halves.wrapping_add(2 * 2 * COLUMNS);
        let barriers = gram.wrapping_add(GRAM_QUADS).cast::<Barrier>();
        Shared {
            pool,
            sums,
            units: units.cast(),
            d_units: d_units.cast(),
            above: above.cast(),
            above_halves: above_halves.cast(),
            gram,
            batch_is_there: barriers,
            gram_is_there: barriers.wrapping_add(1),
        }
    }

    /// Computes the steps of the weights of block `number`.
    ///
    /// # Safety
    /// Same as for the kernel; the inner products of the batches are complete.
    #[inline(always)]
    pub(super) unsafe fn train_weights<const TILES: usize, const HALVES: usize>(
        &self,
        network: &ResidentNetwork,
        steps: &ResidentSteps,
        number: usize,
    ) {
        let (e, count, ahead) = (self.extents, steps.steps as usize, steps.batches());
        // The thread that begins the copies: in one of the warps with the fewest tiles.
        let copies = self.tid == Self::THREADS - 32;
        // SAFETY: the parts of shared memory lie one after the other. A barrier, which all threads reach, lies between one
        // thread's write and another's read. Each phase of the copies' barriers has one thread's arrival, and is waited for
        // before the next.
        let (shared, mut weights, mut stages) = unsafe {
            let (shared, batches) = (self.weights_shared(), self.batches());
            let weights = self.begin::<TILES, HALVES>(&shared, network, number);
            // The batches of the step before, of this step, and of the next one.
            let stages: [*const u8; STAGES] =
                core::array::from_fn(|i| self.batch(&batches, (i + STAGES - 1) % STAGES));
            if copies {
                Barrier::init(shared.batch_is_there, 1);
                Barrier::init(shared.gram_is_there, 1);
                Barrier::fence_init();
                self.fetch(stages[1], steps, 0, shared.batch_is_there);
            }
            self.sync();
            Barrier::wait_parity(shared.batch_is_there, 0);
            if steps.is_begun == 0 {
                self.multiply::<TILES, HALVES>(&shared, stages[1], &weights);
                self.sync();
                self.add_sums(&shared);
            } else {
                self.take_sums(&shared, steps, number);
            }
            self.sync();
            // All threads have seen the first phase: a thread that is two phases late would take one for the other.
            if copies && ahead > 1 {
                self.fetch(stages[2], steps, 1, shared.batch_is_there);
            }
            self.activate::<HALVES>(&shared, (0, number), None);
            self.sync();
            (shared, weights, stages)
        };
        let (rates, mut lr) = (steps.rates(), 0.0);
        for step in 0..count {
            // Long before it is needed.
            // SAFETY: there is a rate for each step.
            let last = core::mem::replace(&mut lr, unsafe { *rates.add(step) });
            let parity = step as u32 & 1;
            // SAFETY: each step's mail has room for the words of these extents.
            let mail = unsafe { Mail::of(steps.mail, &e, steps.round.wrapping_add(step as u32)) };
            let has_next = step + 1 < ahead;
            // SAFETY: a barrier, which all threads reach, lies between one thread's write and another's read. A batch is replaced
            // after all threads are done with it.
            unsafe {
                self.send_sums::<HALVES>(&shared, &mail, step, number);
                // While the rows' blocks work: the last step's update, and the next batch's sums without this step's update.
                if copies && has_next {
                    self.fetch_gram(shared.gram, steps, step + 1, shared.gram_is_there);
                }
                if step > 0 {
                    self.update::<TILES, HALVES>(&shared, stages[0], &mut weights, last);
                }
                if has_next {
                    Barrier::wait_parity(shared.batch_is_there, parity ^ 1);
                    self.multiply::<TILES, HALVES>(&shared, stages[2], &weights);
                    self.sync();
                    // This replaces the batch before, which all warps are done with.
                    if copies && step + 2 < ahead {
                        self.fetch(stages[0], steps, step + 2, shared.batch_is_there);
                    }
                    self.add_sums(&shared);
                    self.sync();
                }
                // Before the gradients arrive.
                let above = self.rows_as_b(|half| shared.above_halves(step, half));
                let units = self.rows_as_b(|half| shared.units(step, half));
                self.receive_gradients::<HALVES>(&shared, &mail);
                self.sync();
                self.differentiate::<HALVES>(&shared, &above, step, number);
                self.update_above::<HALVES>(&shared, &units, step, lr);
                if has_next {
                    Barrier::wait_parity(shared.gram_is_there, parity);
                }
                self.sync_rows();
                if step + 1 < count {
                    self.activate::<HALVES>(&shared, (step + 1, number), Some(lr));
                } else if has_next {
                    self.leave_sums::<HALVES>(&shared, steps, number, lr);
                }
                self.sync();
            }
            stages = [stages[1], stages[2], stages[0]];
        }
        // SAFETY: the gradients are those of the last step's batch, and all threads have reached the last barrier.
        unsafe {
            self.update::<TILES, HALVES>(&shared, stages[0], &mut weights, lr);
            self.finish::<TILES>(&shared, network, number, &weights);
        }
    }

    /// Returns the tile of features that is the warp's number `t`.
    #[inline(always)]
    pub(super) fn tile(&self, t: usize) -> usize {
        self.place().0 + t * WARPS
    }

    /// Calls `of_tile` with the numbers of the warp's tiles.
    ///
    /// If all warps have all tiles but the last, these come without a branch in between, so that the loads of one tile
    /// overlap with the computation of another.
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

    /// Computes the warp's share of the units' sums of a batch, by tensor cores.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    unsafe fn multiply<const TILES: usize, const HALVES: usize>(
        &self,
        shared: &Shared,
        batch: *const u8,
        weights: &Tiles<TILES>,
    ) {
        let (warp, lane) = self.place();
        let mut sums = [[FragmentC::ZERO; HALVES]; ROW_TILES];
        // SAFETY: all lanes have the same tiles, which lie in the batch; each thread writes its own sums.
        unsafe {
            self.each_tile::<TILES>(|t| {
                let row = batch.add(lane * self.extents.stride() + self.tile(t) * TILE);
                let [a, b, c, d]: [u32; 4] = ldmatrix(row);
                let [e, f, g, h]: [u32; 4] = ldmatrix(row.add(32 * self.extents.stride()));
                let rows = [[a, b], [c, d], [e, f], [g, h]].map(|rows| pixels(rows, false));
                let [w, x, y, z] = weights[t].0;
                let upper = split::<HALVES>([w, x]).map(|pair| movmatrix_trans(pair));
                let lower = split::<HALVES>([y, z]).map(|pair| movmatrix_trans(pair));
                mma_sync_tiles(&rows, &fragments(upper, lower), &mut sums);
            });
            for i in 0..ROW_TILES {
                *shared.pool.add((warp * ROW_TILES + i) * 32 + lane) = join(&sums[i]).into();
            }
        }
    }

    /// Adds up the units' sums of all warps.
    ///
    /// # Safety
    /// Same as for the kernel.
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

    /// Computes the step of the first layer, by tensor cores.
    ///
    /// # Safety
    /// Same as for the kernel; the gradients are those of `batch`.
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
            let of_rows = self.rows_as_b::<ROW_TILES, HALVES>(|half| shared.d_units(half));
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
