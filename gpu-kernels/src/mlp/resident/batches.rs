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

    /// Finds the samples of a step's batch; rows that it does not have get that of its first one.
    ///
    /// # Safety
    /// As for the kernel; nobody reads the samples before a barrier.
    #[inline(always)]
    pub(super) unsafe fn choose(&self, batches: &Batches, steps: &ResidentSteps, step: usize) {
        let (first, rows) = steps.samples_of(step);
        // By the last warps, which have the fewest tiles.
        for row in (Self::THREADS - 1 - self.tid..self.extents.batch).step_by(Self::THREADS) {
            let row_or_first = if row < rows { row } else { 0 };
            let sample = permuted(first + row_or_first as u32, steps.samples, steps.seed, steps.epoch);
            // SAFETY: there are at most `MAX_ROWS`.
            unsafe { *batches.samples.add(step % STAGES * MAX_ROWS + row) = sample };
        }
    }

    /// The copies of the pixels of a step's batch, whose samples have been chosen.
    #[inline(always)]
    pub(super) fn copies(&self, batches: &Batches, steps: &ResidentSteps, step: usize) -> Copies<WARPS> {
        let (e, (warp, lane)) = (self.extents, self.place());
        let (first, chunks) = (step % STAGES * MAX_ROWS + warp, e.features / TILE);
        let is_aligned = e.features.is_multiple_of(TILE) && steps.images.addr().is_multiple_of(TILE);
        Copies {
            samples: batches.samples.wrapping_add(first),
            pixels: batches.pixels.wrapping_add(first * e.stride()),
            images: steps.images,
            features: e.features,
            stride: e.stride(),
            rows: e.batch.saturating_sub(warp).div_ceil(WARPS),
            // A sample is at most two copies of the warp's lanes.
            has: [is_aligned && lane < chunks, is_aligned && lane + 32 < chunks],
            is_aligned,
            lane,
        }
    }

    /// Begins to copy the pixels of a step's batch, whose samples have been chosen.
    ///
    /// # Safety
    /// As for the kernel; nobody reads them before a wait and a barrier.
    #[inline(always)]
    pub(super) unsafe fn fetch(&self, batches: &Batches, steps: &ResidentSteps, step: usize) {
        // SAFETY: the caller's.
        unsafe { self.copies(batches, steps, step).from(0) };
    }
}

/// A warp's part in copying a batch.
pub(super) struct Copies<const WARPS: usize> {
    /// The samples from the warp's first row on.
    samples: *const u32,
    /// Where that goes.
    pixels: *mut u8,
    images: *const u8,
    features: usize,
    stride: usize,
    /// Rows of the warp.
    rows: usize,
    /// Whether the lane has 16 bytes of a sample, and 16 more.
    has: [bool; 2],
    /// Whether all samples begin at a multiple of 16 bytes.
    is_aligned: bool,
    lane: usize,
}

impl<const WARPS: usize> Copies<WARPS> {
    /// Begins to copy the warp's row number `i`, if there is one and all samples begin at a multiple of 16 bytes.
    ///
    /// # Safety
    /// As for the kernel; nobody reads the row before a wait and a barrier.
    #[inline(always)]
    pub unsafe fn row(&self, i: usize) {
        if i >= self.rows {
            return;
        }
        // SAFETY: the row lies in the stage, its sample in the data set.
        unsafe {
            let from = self.images.add(*self.samples.add(i * WARPS) as usize * self.features);
            let to = self.pixels.add(i * WARPS * self.stride);
            let (from, to) = (from.cast::<u32x4>().add(self.lane), to.cast::<u32x4>().add(self.lane));
            if self.has[0] {
                pipeline::memcpy_async_l2(to, from);
            }
            if self.has[1] {
                pipeline::memcpy_async_l2(to.add(32), from.add(32));
            }
        }
    }

    /// Begins to copy all rows but the first `row` ones, which [`Self::row`] has been called for.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub unsafe fn from(&self, row: usize) {
        // SAFETY: the caller's; bytes lie in the row and in its sample.
        unsafe {
            for i in row..self.rows {
                self.row(i);
            }
            if self.is_aligned {
                return;
            }
            for i in 0..self.rows {
                let from = self.images.add(*self.samples.add(i * WARPS) as usize * self.features);
                for at in (self.lane..self.features).step_by(32) {
                    *self.pixels.add(i * WARPS * self.stride + at) = *from.add(at);
                }
            }
        }
    }
}
