//! What takes the first layer's product off the path from one step to the next.
//!
//! A step changes the weights of the first layer by `-lr * X^T D`, where X is its batch and D the gradient at the layer's sums. So
//! the sums of the next batch Y are `Y W - lr * (Y X^T) D`, with the weights W of before the step: all of the first term is
//! known before the step's gradient is, and the second one is small. `Y X^T`, the inner products of the samples of the one
//! batch with those of the other, follow from the data alone: they are computed before the first step, of all steps of the
//! launch.

use cuda_std::mem::f32x4;
use cuda_std::mma::{FragmentC, ldmatrix, mma_sync_tiles};
use cuda_std::{pipeline, thread};

use super::batches::Batches;
use super::extents::{GRAM_QUADS, MAX_ROWS, ROW_TILES, TILE};
use super::halves::{pixel_columns, pixels};
use super::{Block, ResidentSteps};
use crate::mlp::batch::PIXEL_SCALE;

/// What products of two pixels, which are `pixel / 2^24` to the tensor core, are multiplied by.
const UNSCALE: f32 = (1u64 << 48) as f32 * PIXEL_SCALE * PIXEL_SCALE;

/// Samples of the batch before, of which a warp has the products with 16 of a batch.
const COLUMNS: usize = 32;

impl<const WARPS: usize> Block<WARPS> {
    /// The block's share of the inner products of each batch with the one before.
    ///
    /// # Safety
    /// As for the kernel; all threads of the block come here.
    #[inline(always)]
    pub(super) unsafe fn multiply_batches(&self, batches: &Batches, steps: &ResidentSteps) {
        let (e, (warp, lane)) = (self.extents, self.place());
        let (block, blocks) = (thread::block_idx_x() as usize, thread::grid_dim_x() as usize);
        // SAFETY: the kernel's contract; between one thread's write and another's read there is a barrier, which all threads
        // come to. All lanes of a warp have the same tiles.
        unsafe {
            for step in (1 + block..steps.batches()).step_by(blocks) {
                self.choose(batches, steps, step - 1);
                self.choose(batches, steps, step);
                self.sync();
                self.fetch(batches, steps, step - 1);
                self.fetch(batches, steps, step);
                pipeline::commit();
                pipeline::wait_prior::<0>();
                self.sync();
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
                    for i in 0..COLUMNS / 8 {
                        let [a, b, c, d] = sums[0][i].0.map(|sum| sum * UNSCALE);
                        let at = (tile * MAX_ROWS / 8 + part * COLUMNS / 8 + i) * 32 + lane;
                        // As the lane's elements of A, whose first four columns are those that are even here.
                        *self.gram(steps, step).add(at) = [a, c, b, d].into();
                    }
                }
                self.sync();
            }
        }
    }

    /// The inner products of a step's batch with the one before.
    #[inline(always)]
    fn gram(&self, steps: &ResidentSteps, step: usize) -> *mut f32x4 {
        steps.gram.cast::<f32x4>().wrapping_add(step * GRAM_QUADS)
    }

    /// Begins to copy those of a step.
    ///
    /// # Safety
    /// As for the kernel; `to` holds them, and nobody reads them before a wait and a barrier.
    #[inline(always)]
    pub(super) unsafe fn fetch_gram(&self, to: *mut f32x4, steps: &ResidentSteps, step: usize) {
        for i in self.each(GRAM_QUADS) {
            // SAFETY: the caller's.
            unsafe { pipeline::memcpy_async_l2(to.add(i), self.gram(steps, step).add(i)) };
        }
    }
}
