//! Copies of tiles of rows to shared memory by all threads of a block, 16 bytes at a time.

use cuda_std::hint::opaque;
use cuda_std::mem::u32x4;
use cuda_std::pipeline::{memcpy_async_l2_128_zfill, memcpy_async_l2_zfill};
use cuda_std::shared::SharedPtr;

use super::super::args::{AttentionArgs, Row, Strides};
use super::part::{Part, VECTOR, pitch};

/// A thread's vectors of tiles with rows of `SIZE` elements: some columns of every `DOWN`th row.
#[derive(Clone, Copy)]
pub struct BlockCopies<const SIZE: usize, const THREADS: usize> {
    row: usize,
    col: usize,
}

impl<const SIZE: usize, const THREADS: usize> BlockCopies<SIZE, THREADS> {
    /// Neighbouring vectors of a row that are copied at once: a power of two.
    const ACROSS: usize = 1 << (SIZE / VECTOR).trailing_zeros();
    /// Rows that are copied at once.
    const DOWN: usize = THREADS / Self::ACROSS;

    /// Returns the copies of a thread.
    #[inline(always)]
    pub fn new(tid: usize) -> Self {
        Self { row: tid / Self::ACROSS, col: tid % Self::ACROSS * VECTOR }
    }

    /// Returns the thread's first vector of a tile in shared memory.
    #[inline(always)]
    pub fn target<T>(&self, tile: *mut T) -> SharedPtr<T> {
        tile.wrapping_add(self.row * const { pitch(SIZE) } + self.col).into()
    }

    /// Returns the thread's first vector of the part's head of K or V. With pages, it is that of the first page.
    #[inline(always)]
    pub fn source<T>(
        &self,
        args: &AttentionArgs<T>,
        tensor: *const T,
        strides: &Strides,
        part: &Part,
    ) -> *const T {
        let Row { batch, key_head, .. } = part.at;
        let row = if args.page_table.is_null() { strides.row(batch, self.row as u32, key_head) } else { 0 };
        tensor.wrapping_add(row + self.col)
    }

    /// Starts the copy of the part's queries, with zeros after them.
    ///
    /// # Safety
    /// All threads of the block call this, and no code uses the memory before the copies are complete. The rows of Q start at
    /// multiples of 16 bytes.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn queries<T, const ROWS: usize>(
        &self,
        args: &AttentionArgs<T>,
        part: &Part,
        to: SharedPtr<T>,
    ) {
        let mut i = 0;
        while i < ROWS / Self::DOWN {
            let row = (self.row + i * Self::DOWN) as u32;
            let is_row = row < part.rows;
            let at = part.row_offset(args, &args.q_strides, if is_row { row } else { 0 });
            let from = args.q.wrapping_add(at + self.col);
            let to = to.wrapping_byte_add((i * Self::DOWN * 2 * const { pitch(SIZE) }) as u32);
            // SAFETY: the row exists, and the shared memory has room for it.
            unsafe { self.row(args, to, from, is_row) };
            i += 1;
        }
    }

    /// Starts the copy of `KEYS` rows of the part's head of K or V, with zeros after the keys that the part sees.
    ///
    /// # Safety
    /// All threads of the block call this, and no code uses the buffer before the copies are complete. The rows of the tensor
    /// start at multiples of 16 bytes.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn keys<T, const KEYS: usize>(
        &self,
        args: &AttentionArgs<T>,
        part: &Part,
        to: SharedPtr<T>,
        source: *const T,
        strides: &Strides,
        first: u32,
    ) {
        let across = strides.length as usize;
        let down = (Self::DOWN * 2 * const { pitch(SIZE) }) as u32;
        if first + KEYS as u32 <= part.visible && args.page_table.is_null() {
            // Nearly all tiles.
            let mut from = source.wrapping_add(first as usize * across);
            let mut i = 0;
            while i < KEYS / Self::DOWN {
                // SAFETY: the tile has the row, and the buffer has room for it.
                unsafe { self.row(args, to.wrapping_byte_add(i as u32 * down), from, true) };
                from = from.wrapping_add(Self::DOWN * across);
                i += 1;
            }
            return;
        }
        let Row { batch, key_head, .. } = part.at;
        let mut i = 0;
        while i < KEYS / Self::DOWN {
            let key = first + (self.row + i * Self::DOWN) as u32;
            let is_seen = key < part.visible;
            let key = if is_seen { key } else { 0 };
            // SAFETY: the key exists, and the buffer has room for the row.
            unsafe {
                let row = if args.page_table.is_null() {
                    (key as usize).wrapping_sub(self.row).wrapping_mul(across)
                } else {
                    args.key_row(strides, batch, key, key_head)
                };
                let to = to.wrapping_byte_add(i as u32 * down);
                self.row(args, to, source.wrapping_add(row), is_seen);
            }
            i = opaque(i as u32 + 1) as usize;
        }
    }

    /// Starts the copy of the thread's vectors of a row, from the thread's first vector on; zeros without a row and after the
    /// head's elements.
    ///
    /// # Safety
    /// The row has the head's elements, and shared memory has room for `SIZE`; see [`pipeline`](cuda_std::pipeline).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn row<T>(&self, args: &AttentionArgs<T>, to: SharedPtr<T>, from: *const T, is_row: bool) {
        let mut i = 0;
        while i < SIZE / VECTOR / Self::ACROSS {
            let across = i * Self::ACROSS * VECTOR;
            let is_there = is_row && ((self.col + across) as u32) < args.head_size;
            let bytes = if is_there { 16 } else { 0 };
            // SAFETY: the row has the vector, and the buffer has room for it.
            unsafe {
                let to = to.wrapping_byte_add(2 * across as u32).cast::<u32x4>();
                let from = from.wrapping_add(across).cast();
                if SIZE.is_multiple_of(64) {
                    memcpy_async_l2_128_zfill(to, from, bytes);
                } else {
                    memcpy_async_l2_zfill(to, from, bytes);
                }
            }
            i += 1;
        }
    }
}
