//! Batches in shared memory.

use cuda_std::barrier::Barrier;
use cuda_std::mem::{f32x4, u32x4};
use cuda_std::{bulk, pipeline};

use super::extents::{MAX_ROWS, STAGES, TILE};
use super::{Block, ResidentSteps};
use crate::batch::permuted;

/// The batches of [`STAGES`] consecutive steps.
#[derive(Clone, Copy)]
pub(super) struct Batches {
    /// `[STAGES, MAX_ROWS, stride]`: the pixels, then 255 for the constant feature 1, then zeros.
    pixels: *mut u8,
    /// `[MAX_ROWS]`: the numbers of the samples of the batch that is being gathered.
    samples: *mut u32,
}

impl<const WARPS: usize> Block<WARPS> {
    /// Returns the batches, which lie first in shared memory.
    #[inline(always)]
    pub(super) fn batches(&self) -> Batches {
        let pixels = self.shared.cast::<u8>();
        Batches { pixels, samples: pixels.wrapping_add(STAGES * MAX_ROWS * self.extents.stride()).cast() }
    }

    /// Clears the batches.
    ///
    /// # Safety
    /// All threads of the block call this, and no thread uses the batches before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn clear(&self, batches: &Batches) {
        let stride = self.extents.stride();
        // SAFETY: the rows of the batches, which are multiples of 16 bytes.
        unsafe {
            for i in self.each(STAGES * MAX_ROWS * stride / 16) {
                *batches.pixels.cast::<f32x4>().add(i) = f32x4::default();
            }
            self.sync();
            for row in self.each(STAGES * MAX_ROWS) {
                *batches.pixels.add(row * stride + self.extents.features) = 255;
            }
        }
    }

    /// Returns the pixels of a step's batch.
    #[inline(always)]
    pub(super) fn batch(&self, batches: &Batches, step: usize) -> *const u8 {
        batches.pixels.wrapping_add(step % STAGES * MAX_ROWS * self.extents.stride())
    }

    /// Gathers the samples of a step's batch, and also writes them to global memory, in the same layout. Rows that the batch
    /// does not have get its first sample.
    ///
    /// # Safety
    /// Same as for the kernel; all threads of the block call this, and no thread uses the stage. They may read it after a
    /// wait for their copies and a barrier.
    #[inline(always)]
    pub(super) unsafe fn gather(&self, batches: &Batches, steps: &ResidentSteps, step: usize) {
        let (e, (warp, lane)) = (self.extents, self.place());
        let (first, rows) = steps.samples_of(step);
        let (pixels, samples) = (self.batch(batches, step).cast_mut(), batches.samples);
        let is_aligned = e.features.is_multiple_of(TILE) && steps.images.addr().is_multiple_of(TILE);
        // SAFETY: the rows lie in the stage, and their samples in the data set.
        unsafe {
            for row in self.each(e.batch) {
                let row_or_first = if row < rows { row } else { 0 };
                let sample = permuted(first + row_or_first as u32, steps.samples, steps.seed, steps.epoch);
                *samples.add(row) = sample;
            }
            self.sync();
            for row in (warp..e.batch).step_by(WARPS) {
                let from = steps.images.add(*samples.add(row) as usize * e.features);
                let to = pixels.add(row * e.stride());
                if is_aligned {
                    for quad in (lane..e.features / TILE).step_by(32) {
                        let (to, from) = (to.cast::<u32x4>(), from.cast::<u32x4>());
                        pipeline::memcpy_async_l2(to.add(quad), from.add(quad));
                    }
                } else {
                    for at in (lane..e.features).step_by(32) {
                        *to.add(at) = *from.add(at);
                    }
                }
            }
            self.sync();
        }
    }

    /// Writes a step's batch to global memory for all blocks, in the same layout.
    ///
    /// # Safety
    /// Same as for the kernel; the batch is complete.
    #[inline(always)]
    pub(super) unsafe fn publish(&self, batches: &Batches, steps: &ResidentSteps, step: usize) {
        let quads = self.extents.stage_bytes() / 16;
        let from = self.batch(batches, step).cast::<u32x4>();
        let to = steps.batches.cast::<u32x4>().wrapping_add(step * quads);
        for i in self.each(quads) {
            // SAFETY: a quad of the stage.
            unsafe { *to.add(i) = *from.add(i) };
        }
    }

    /// Begins to copy the published batch of a step into a stage. A wait for the stage's barrier waits for the copy.
    ///
    /// # Safety
    /// Same as for the kernel; no thread uses the stage before the copy has arrived, and one thread calls this.
    #[inline(always)]
    pub(super) unsafe fn fetch(
        &self,
        stage: *const u8,
        steps: &ResidentSteps,
        step: usize,
        arrived: *mut Barrier,
    ) {
        let bytes = self.extents.stage_bytes();
        let from = steps.batches.cast::<u32x4>().wrapping_add(step * (bytes / 16));
        // SAFETY: the batch starts at a multiple of 16 bytes, and fills the stage.
        unsafe {
            Barrier::arrive_expect_tx(arrived, bytes as u32);
            bulk::global_to_shared(stage.cast_mut().cast::<u32x4>(), from, (bytes / 16) as u32, arrived);
        }
    }
}
