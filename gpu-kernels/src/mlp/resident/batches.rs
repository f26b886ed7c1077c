//! Batches in shared memory.

use cuda_std::mem::{f32x4, u32x4};
use cuda_std::pipeline;

use super::extents::{MAX_ROWS, STAGES, TILE};
use super::{Block, ResidentSteps};
use crate::mlp::batch::permuted;

/// The batches of [`STAGES`] steps one after the other.
#[derive(Clone, Copy)]
pub(super) struct Batches {
    /// `[STAGES, MAX_ROWS, stride]`: the pixels, then 255 for the feature that is always 1, then zeros.
    pixels: *mut u8,
    /// `[STAGES, MAX_ROWS]`: the numbers of the samples.
    samples: *mut u32,
}

impl<const WARPS: usize> Block<WARPS> {
    /// Where they lie: first in shared memory.
    #[inline(always)]
    pub(super) fn batches(&self) -> Batches {
        let pixels = self.shared.cast::<u8>();
        Batches { pixels, samples: pixels.wrapping_add(STAGES * MAX_ROWS * self.extents.stride()).cast() }
    }

    /// Batches without a sample.
    ///
    /// # Safety
    /// All threads of the block come here, and nobody uses the batches before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn clear(&self, batches: &Batches) {
        let stride = self.extents.stride();
        // SAFETY: the rows of the batches, of multiples of 16 bytes.
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

    /// The pixels of a step's batch.
    #[inline(always)]
    pub(super) fn batch(&self, batches: &Batches, step: usize) -> *const u8 {
        batches.pixels.wrapping_add(step % STAGES * MAX_ROWS * self.extents.stride())
    }

    /// Finds the samples of a step's batch.
    ///
    /// # Safety
    /// As for the kernel; nobody reads the samples before a barrier.
    #[inline(always)]
    pub(super) unsafe fn choose(&self, batches: &Batches, steps: &ResidentSteps, step: usize) {
        let (first, rows) = steps.samples_of(step);
        // By the last warps, which have the fewest tiles.
        for row in (Self::THREADS - 1 - self.tid..rows).step_by(Self::THREADS) {
            let sample = permuted(first + row as u32, steps.samples, steps.seed, steps.epoch);
            // SAFETY: there are at most `MAX_ROWS`.
            unsafe { *batches.samples.add(step % STAGES * MAX_ROWS + row) = sample };
        }
    }

    /// Begins to copy the pixels of a step's batch, whose samples have been chosen. Rows that it does not have keep those of
    /// another one: their gradients are zeros.
    ///
    /// # Safety
    /// As for the kernel; nobody reads them before a wait and a barrier.
    #[inline(always)]
    pub(super) unsafe fn fetch(&self, batches: &Batches, steps: &ResidentSteps, step: usize) {
        let (e, (_, rows), (warp, lane)) = (self.extents, steps.samples_of(step), self.place());
        let (first, features) = (step % STAGES * MAX_ROWS, e.features);
        let samples = batches.samples.wrapping_add(first + warp);
        // SAFETY: the rows lie in the stage, their samples in the data set; 16 bytes are copied where all samples begin at a
        // multiple of them.
        unsafe {
            if features.is_multiple_of(TILE) && steps.images.addr().is_multiple_of(TILE) {
                // A sample is at most two copies of the warp's lanes.
                let has = [lane < features / TILE, lane + 32 < features / TILE];
                let images = steps.images.cast::<u32x4>().wrapping_add(lane);
                let to = batches
                    .pixels
                    .wrapping_add((first + warp) * e.stride())
                    .cast::<u32x4>()
                    .wrapping_add(lane);
                for i in 0..MAX_ROWS / WARPS {
                    if i * WARPS + warp < rows {
                        let from = images.wrapping_add(*samples.add(i * WARPS) as usize * (features / TILE));
                        let to = to.wrapping_add(i * WARPS * (e.stride() / TILE));
                        if has[0] {
                            pipeline::memcpy_async_l2(to, from);
                        }
                        if has[1] {
                            pipeline::memcpy_async_l2(to.add(32), from.add(32));
                        }
                    }
                }
            } else {
                for row in (warp..rows).step_by(WARPS) {
                    let from = steps.images.add(*samples.add(row - warp) as usize * features);
                    for i in (lane..features).step_by(32) {
                        *batches.pixels.add((first + row) * e.stride() + i) = *from.add(i);
                    }
                }
            }
        }
    }
}
