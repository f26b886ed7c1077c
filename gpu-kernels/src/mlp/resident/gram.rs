//! What takes the first layer's product off the path from one step to the next.
//!
//! A step changes the weights of the first layer by `-lr * X^T D`, where X is its batch and D the gradient at the layer's sums. So
//! the sums of the next batch Y are `Y W - lr * (Y X^T) D`, with the weights W of before the step: all of the first term is
//! known before the step's gradient is, and the second one is small. `Y X^T`, the inner products of the samples of the one
//! batch with those of the other, follow from the data alone: they are computed before the first step, of all steps of the
//! launch.

use cuda_std::barrier::Barrier;
use cuda_std::mem::{f32x4, u32x4};
use cuda_std::mma::{FragmentC, ldmatrix, mma_sync_tiles};
use cuda_std::{bulk, pipeline, thread};

use super::batches::Batches;
use super::extents::{GRAM_QUADS, MAX_ROWS, ROW_TILES, TILE};
use super::halves::{pixel_columns, pixels, split};
use super::{Block, ResidentSteps};
use crate::mlp::batch::PIXEL_SCALE;

/// What products of two pixels, which are `pixel / 2^24` to the tensor core, are multiplied by.
const UNSCALE: f32 = (1u64 << 48) as f32 * PIXEL_SCALE * PIXEL_SCALE;

/// Samples of the batch before, of which a warp has the products with 16 of a batch.
const COLUMNS: usize = 32;

impl<const WARPS: usize> Block<WARPS> {
    /// The block's share of the batches, and of the inner products of each with the one before.
    ///
    /// # Safety
    /// Same as for the kernel; all threads of the block come here.
    #[inline(always)]
    pub(super) unsafe fn multiply_batches<const HALVES: usize>(
        &self,
        batches: &Batches,
        steps: &ResidentSteps,
    ) {
        let (e, (warp, lane)) = (self.extents, self.place());
        let (block, blocks) = (thread::block_idx_x() as usize, thread::grid_dim_x() as usize);
        // SAFETY: the kernel's contract; between one thread's write and another's read there is a barrier, which all threads
        // come to. All lanes of a warp have the same tiles.
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
                        // As the lane's registers of A.
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
            // Bulk copies of all blocks read what was written, and those of this one write over it.
            bulk::fence_global();
            bulk::fence_shared();
        }
    }

    /// The inner products of a step's batch with the one before.
    #[inline(always)]
    fn gram(&self, steps: &ResidentSteps, step: usize) -> *mut f32x4 {
        steps.gram.cast::<f32x4>().wrapping_add(step * GRAM_QUADS)
    }

    /// Begins to copy those of a step. Those of the barrier wait for it.
    ///
    /// # Safety
    /// Same as for the kernel; no thread uses `to`, which holds them, before that, and one thread comes here.
    #[inline(always)]
    pub(super) unsafe fn fetch_gram(
        &self,
        to: *mut f32x4,
        steps: &ResidentSteps,
        step: usize,
        arrived: *mut Barrier,
    ) {
        // SAFETY: the caller's; they begin at a multiple of 16 bytes.
        unsafe {
            Barrier::arrive_expect_tx(arrived, 16 * GRAM_QUADS as u32);
            bulk::global_to_shared(to, self.gram(steps, step), GRAM_QUADS as u32, arrived);
        }
    }
}

/// Where the halves of the products of a tile's 16 samples with number `part` of 16 samples of the batch before lie, those of lane 0.
#[inline(always)]
pub(super) const fn gram_at(half: usize, tile: usize, part: usize) -> usize {
    ((half * ROW_TILES + tile) * (MAX_ROWS / 16) + part) * 32
}
