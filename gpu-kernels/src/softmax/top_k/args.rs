//! The arguments of the kernels, and their bodies.

#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::RawBuffer;
use cuda_std::mem::{f32x2, u32x4};
use cuda_std::{GpuFloat as _, KernelArgs, cluster, thread};

use super::elements::{Elements, Summary};
use super::key::{column, value};
use super::select::{Scratch, select};
use super::team::Team;
use super::{LOG, NO_COLUMN, ZERO_MASKED};
use crate::element::{Element, Number};
use crate::softmax::row::{Part, Row, exchange, merge, prefetch_rows, row_or_empty};

/// What the kernels are launched with. Strides are in elements.
///
/// Rows and columns stand between fields of 8 bytes: loaded together with another field, they cost registers.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct TopKArgs<T> {
    /// `[rows, k]`, written.
    pub probabilities: *mut f32,
    /// `[rows, k]`, written.
    pub indices: *mut u32,
    /// `[rows, cols]`.
    pub logits: *const T,
    /// Rows.
    pub rows: u32,
    /// From a row of `probabilities` to the next.
    pub probabilities_stride: u64,
    /// From a row of `indices` to the next.
    pub indices_stride: u64,
    /// From a row of `logits` to the next.
    pub stride: u64,
    /// Columns of the logits.
    pub cols: u32,
    /// Columns of what is written, from 1 to [`MOST`](super::MOST).
    pub k: u32,
    /// Factor of the logits: positive and finite.
    pub scale: f32,
    /// [`LOG`], [`ZERO_MASKED`].
    pub flags: u32,
    /// Blocks, or clusters, from one to that whose rows it prefetches into L2; 0 for no prefetch.
    pub prefetch_blocks: u32,
}

/// [`TopKArgs`] in the buffers of the host.
#[cfg(not(target_arch = "nvptx64"))]
pub type TopKLaunch<T> = TopKArgsHost<RawBuffer<f32>, RawBuffer<u32>, RawBuffer<T>>;

impl<T: Number> TopKArgs<T> {
    /// The block's part of a row; after the last one it is empty.
    ///
    /// # Safety
    /// As for the kernels.
    #[inline(always)]
    unsafe fn row<const N: usize, const BLOCK: usize>(&self, index: usize, part: Part) -> Row<T, T, BLOCK>
    where
        T: Element<N>,
    {
        let [row, cols] = row_or_empty(index, [self.rows, self.cols]);
        // SAFETY: the kernel's contract; nothing is written through the row.
        unsafe {
            let logits = self.logits.add(row * self.stride as usize);
            Row::new::<N>(logits.cast_mut(), logits, cols, part)
        }
    }

    /// Prefetches the block's part of a later row than number `row` into L2.
    ///
    /// # Safety
    /// As for the kernels.
    #[inline(always)]
    unsafe fn prefetch(&self, row: usize, part: Part) {
        if self.prefetch_blocks > 0 {
            let later = row + self.prefetch_blocks as usize;
            // SAFETY: the kernel's contract.
            unsafe { prefetch_rows(self.logits, self.stride, [self.rows, self.cols], [later, 1], part) };
        }
    }

    /// Writes place `place` of a row with this (max, sum), in which the element of this key stands, none if it is 0.
    ///
    /// # Safety
    /// The row is one of the matrices and the place less than `k`; no other thread writes it.
    #[inline(always)]
    pub(super) unsafe fn write(&self, row: usize, place: usize, key: u64, f32x2 { x: max, y: sum }: f32x2) {
        let is_log = self.flags & LOG != 0;
        let exponent = (value(key) - max) * self.scale;
        let (probability, col) = if place >= self.cols as usize {
            (if is_log { f32::NEG_INFINITY } else { 0.0 }, NO_COLUMN)
        } else if sum > 0.0 {
            (if is_log { exponent - sum.ln() } else { exponent.exp() * (1.0 / sum) }, column(key))
        } else if sum == 0.0 && self.flags & ZERO_MASKED != 0 {
            (if is_log { f32::NEG_INFINITY } else { 0.0 }, place as u32)
        } else {
            (f32::NAN, place as u32)
        };
        // SAFETY: the caller's place.
        unsafe {
            *self.probabilities.add(row * self.probabilities_stride as usize + place) = probability;
            *self.indices.add(row * self.indices_stride as usize + place) = col;
        }
    }

    /// Writes a row of which the block has sorted the largest keys.
    ///
    /// # Safety
    /// All threads of one block come here after [`select`].
    #[inline(always)]
    unsafe fn write_row<const BLOCK: usize>(&self, row: usize, scratch: Scratch, pair: f32x2) {
        for place in (thread::thread_idx_x() as usize..self.k as usize).step_by(BLOCK) {
            // SAFETY: a place for each thread, and its key.
            unsafe { self.write(row, place, *scratch.sorted.add(place), pair) };
        }
    }
}

/// A row of any width for each block.
///
/// # Safety
/// As for the kernels; `shared` has an element of the block's own for each warp, and the scratch is its own.
#[inline(always)]
pub(super) unsafe fn wide<T, const N: usize, const BLOCK: usize, const VECTORS: usize>(
    shared: *mut f32x2,
    scratch: Scratch,
    args: TopKArgs<T>,
) where
    T: Element<N>,
{
    let index = thread::block_idx_x() as usize;
    // SAFETY: the kernel's contract. All threads of the block come here and to all that follows.
    unsafe {
        let row = args.row::<N, BLOCK>(index, Part::ALL);
        let elements = Elements::<T, N, BLOCK, VECTORS>::new(row, core::ptr::null());
        args.prefetch(index, Part::ALL);
        let mut mine = Summary::NONE;
        elements.for_each(|place, x, len| mine.add(place, x, len, args.scale));
        let pair = exchange::<BLOCK>(shared, merge::<32>(mine.pair, args.scale), args.scale);
        select::<BLOCK>(scratch, &elements, mine.best, elements.len(), args.k as usize);
        args.write_row::<BLOCK>(index, scratch, pair);
    }
}

/// A row for each block or cluster, in shared memory.
///
/// # Safety
/// As for the kernels; `dynamic` has what the launch must bring, `shared` an element for each warp.
#[inline(always)]
pub(super) unsafe fn in_shared<T, const N: usize, const BLOCK: usize>(
    dynamic: *mut u32x4,
    shared: *mut f32x2,
    args: TopKArgs<T>,
) where
    T: Element<N>,
{
    let index = (thread::block_idx_x() / cluster::num_blocks()) as usize;
    let scratch = Scratch::new::<BLOCK>(dynamic.cast());
    let dynamic = dynamic.wrapping_add(Scratch::bytes_of_cluster::<BLOCK>() as usize / 16);
    // SAFETY: the kernel's contract. All threads of the cluster come here and to all that follows.
    unsafe {
        let team = Team::fetch(dynamic, shared, args.scale, |part| {
            args.prefetch(index, part);
            args.row::<N, BLOCK>(index, part)
        });
        if team.select(scratch, args.k as usize) {
            args.write_row::<BLOCK>(index, scratch, team.pair);
        }
    }
}
