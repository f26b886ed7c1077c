//! Takes the first layer's multiplication off the path from one step to the next.
//!
//! A step changes the weights of the first layer by `-lr * X^T D`, where X is its batch and D the gradient of the layer's
//! sums. So the sums of the next batch Y are `Y W - lr * (Y X^T) D`, with W the weights before the step. The first term is
//! known before the step's gradient, and the second one is small. `Y X^T`, the inner products of the samples of the two
//! batches, depends on the data alone: it is computed for all steps of the launch before the first one.

use cuda_std::barrier::Barrier;
use cuda_std::mem::{f32x4, u32x4};
use cuda_std::mma::{FragmentC, ldmatrix, mma_sync_tiles};
use cuda_std::{bulk, pipeline, thread};

use super::batches::Batches;
use super::extents::{GRAM_QUADS, MAX_ROWS, ROW_TILES, TILE};
use super::halves::{pixel_columns, pixels, split};
use super::{Block, ResidentSteps};
use crate::batch::PIXEL_SCALE;

/// The factor of products of two pixels, which the tensor core sees as `pixel / 2^24`.
const UNSCALE: f32 = (1u64 << 48) as f32 * PIXEL_SCALE * PIXEL_SCALE;

/// Samples of the batch before that a warp multiplies with 16 samples of a batch.
const COLUMNS: usize = 32;

impl<const WARPS: usize> Block<WARPS> {
    /// Computes the block's share of the batches, and of the inner products of each with the one before.
    ///
    /// # Safety
    /// Same as for the kernel; all threads of the block call this.
    #[inline(always)]
    pub(super) unsafe fn multiply_batches<const HALVES: usize>(
        &self,
        batches: &Batches,
        steps: &ResidentSteps,
    ) {
        let (e, (warp, lane)) = (self.extents, self.place());
        let (block, blocks) = (thread::block_idx_x() as usize, thread::grid_dim_x() as usize);
        // SAFETY: the kernel's contract. A barrier, which all threads reach, lies between one thread's write and another's
        // read. All lanes of a warp have the same tiles.
        unsafe {
            for step in (block..steps.batches()).step_by(blocks) {
                if step > 0 {
                    self.gather(batches, steps, step - 1);
                }
                self.gather(batches, steps, step);
                pipeline::commit();
                pipeline::wait_prior::<0>();
                self.sync();
                self.publish(batches, steps, step);
                if step == 0 {
                    continue;
                }
                let [before, batch] = [step - 1, step].map(|step| self.batch(batches, step));
                for job in (warp..ROW_TILES * MAX_ROWS / COLUMNS).step_by(WARPS) {
                    let (tile, part) = (job % ROW_TILES, job / ROW_TILES);
                    let rows = batch.add((16 * tile + lane % 16) * e.stride());
                    let columns = before.add((part * COLUMNS + lane) * e.stride());
                    let mut sums = [[FragmentC::ZERO; COLUMNS / 8]];
                    for t in 0..e.tiles() {
                        let rows: [u32; 2] = ldmatrix(rows.add(t * TILE));
                        let columns: [u32; 4] = ldmatrix(columns.add(t * TILE));
                        mma_sync_tiles(&[pixels(rows, false)], &columns.map(pixel_columns), &mut sums);
                    }
                    for i in 0..COLUMNS / 16 {
                        let [a, b] = [2 * i, 2 * i + 1].map(|i| sums[0][i].0.map(|sum| sum * UNSCALE));
                        // In the layout of the lane's registers of A.
                        let pairs =
                            [[a[0], a[1]], [a[2], a[3]], [b[0], b[1]], [b[2], b[3]]].map(split::<HALVES>);
                        for half in 0..HALVES {
                            let at = gram_at(half, tile, part * COLUMNS / 16 + i) + lane;
                            *self.gram(steps, step).add(at).cast::<u32x4>() =
                                pairs.map(|pair| pair[half]).into();
                        }
                    }
                }
                self.sync();
            }
            // Bulk copies of all blocks read what was written, and this block's overwrite it.
            bulk::fence_global();
            bulk::fence_shared();
        }
    }

    /// Returns the inner products of a step's batch with the one before.
    #[inline(always)]
    fn gram(&self, steps: &ResidentSteps, step: usize) -> *mut f32x4 {
        steps.gram.cast::<f32x4>().wrapping_add(step * GRAM_QUADS)
    }

    /// Begins to copy the inner products of a step. Threads that wait for the barrier wait for the copy.
    ///
    /// # Safety
    /// Same as for the kernel; `to` holds them, no thread uses it before the copy arrives, and one thread calls this.
    #[inline(always)]
    pub(super) unsafe fn fetch_gram(
        &self,
        to: *mut f32x4,
        steps: &ResidentSteps,
        step: usize,
        arrived: *mut Barrier,
    ) {
        // SAFETY: the caller's contract; the inner products start at a multiple of 16 bytes.
        unsafe {
            Barrier::arrive_expect_tx(arrived, 16 * GRAM_QUADS as u32);
            bulk::global_to_shared(to, self.gram(steps, step), GRAM_QUADS as u32, arrived);
        }
    }
}

/// Returns the quad of lane 0 with the halves of the inner products of a tile's 16 samples and part `part`, 16 samples, of
/// the batch before.
#[inline(always)]
pub(super) const fn gram_at(half: usize, tile: usize, part: usize) -> usize {
    ((half * ROW_TILES + tile) * (MAX_ROWS / 16) + part) * 32
}
