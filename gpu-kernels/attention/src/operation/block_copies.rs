//! Copies of tiles of rows to shared memory by all threads of a block, 16 bytes at a time.

use cuda_std::mem::{load_shared, store_global, u32x4};
use cuda_std::pipeline::{self, memcpy_async_l2_128_zfill, memcpy_async_l2_zfill};
use cuda_std::shared::SharedPtr;

use super::super::args::{AttentionArgs, Row, Strides};
use super::part::{Part, VECTOR, pitch};

/// A thread's vectors of tiles with rows of `SIZE` elements: some columns of every `DOWN`th row. K and V are in pages
/// if `PAGED`.
#[derive(Clone, Copy)]
pub struct BlockCopies<const SIZE: usize, const THREADS: usize, const PAGED: bool> {
    row: usize,
    col: usize,
}

impl<const SIZE: usize, const THREADS: usize, const PAGED: bool> BlockCopies<SIZE, THREADS, PAGED> {
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

    /// Returns the thread's first vector of the part's tiles of `KEYS` rows of K or V. With pages, it is that of the first page.
    #[inline(always)]
    pub fn source<T, const KEYS: usize>(&self, tensor: *const T, strides: &Strides, part: &Part) -> *const T {
        let Row { batch, key_head, .. } = part.at;
        let first = part.first * KEYS as u32 + self.row as u32;
        let row = if PAGED { 0 } else { strides.row(batch, first, key_head) };
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
        let mut at = part.walk(args, &args.q_strides, self.row as u32, Self::DOWN as u32);
        let mut i = 0;
        while i < ROWS / Self::DOWN {
            let is_row = ((self.row + i * Self::DOWN) as u32) < part.rows;
            let from = args.q.wrapping_add(at.offset.wrapping_add(self.col));
            let to = to.wrapping_byte_add((i * Self::DOWN * 2 * const { pitch(SIZE) }) as u32);
            // SAFETY: the row exists, or no byte is copied, and the shared memory has room for it.
            unsafe { self.row(args, to, from, is_row) };
            at.next();
            i += 1;
        }
    }

    /// Writes `rows` rows of results from shared memory, from the part's row `first` on.
    ///
    /// # Safety
    /// `THREADS` threads call this, and all results are visible to them. No other code uses these rows of `out`, which start at
    /// multiples of 16 bytes.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn results<T>(
        &self,
        args: &AttentionArgs<T>,
        part: &Part,
        from: *const T,
        first: usize,
        rows: usize,
    ) {
        let mut at = part.walk(args, &args.out_strides, (first + self.row) as u32, Self::DOWN as u32);
        let mut i = 0;
        while i < rows / Self::DOWN {
            let row = first + self.row + i * Self::DOWN;
            let mut j = 0;
            while j < SIZE / VECTOR / Self::ACROSS {
                let col = self.col + j * Self::ACROSS * VECTOR;
                if (row as u32) < part.rows && (col as u32) < args.head_size {
                    // SAFETY: the row of the part has the vector, which only this thread writes.
                    unsafe {
                        let vector: u32x4 = load_shared(from.add(row * const { pitch(SIZE) } + col).cast());
                        store_global(args.out.add(at.offset.wrapping_add(col)).cast(), vector);
                    }
                }
                j += 1;
            }
            at.next();
            i += 1;
        }
    }

    /// Starts the copies of the part's first tile of `KEYS` keys to the rows after the first `row` of shared memory, and with
    /// `VALUES` of its values after them. Returns where the next copies of K and of V start.
    ///
    /// # Safety
    /// Same as for [`Self::keys`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn start<T, const KEYS: usize, const VALUES: bool>(
        &self,
        args: &AttentionArgs<T>,
        part: &Part,
        to: SharedPtr<T>,
        row: usize,
    ) -> [*const T; 2] {
        let first = part.first * KEYS as u32;
        let mut k = self.source::<T, KEYS>(args.k, &args.k_strides, part);
        let mut v = self.source::<T, KEYS>(args.v, &args.v_strides, part);
        if part.first < part.end {
            let at = |row: usize| to.wrapping_byte_add((2 * row * const { pitch(SIZE) }) as u32);
            let is_seen = |row| first + row < part.visible;
            // SAFETY: as the caller promises.
            unsafe {
                k = self.keys::<T, KEYS>(args, part, at(row), k, &args.k_strides, first, is_seen);
                if VALUES {
                    v = self.keys::<T, KEYS>(args, part, at(row + KEYS), v, &args.v_strides, first, is_seen);
                }
            }
        }
        pipeline::commit();
        [k, v]
    }

    /// Starts the copy of `KEYS` rows of the part's head of K or V, from key `first` on. Rows of the tile for which
    /// `is_seen` is false become zeros. `source` is the thread's first vector of the tile, or with pages that of
    /// [`Self::source`]. Returns that of the next tile.
    ///
    /// # Safety
    /// All threads of the block call this, and no code uses the buffer before the copies are complete. The rows of the tensor
    /// start at multiples of 16 bytes. It has a key, and those that are seen.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[allow(clippy::too_many_arguments, reason = "a tile of a tensor")]
    pub unsafe fn keys<T, const KEYS: usize>(
        &self,
        args: &AttentionArgs<T>,
        part: &Part,
        to: SharedPtr<T>,
        source: *const T,
        strides: &Strides,
        first: u32,
        is_seen: impl Fn(u32) -> bool,
    ) -> *const T {
        let across = strides.length as usize;
        let mut from = source;
        let mut i = 0;
        while i < KEYS / Self::DOWN {
            let row = (self.row + i * Self::DOWN) as u32;
            let is_seen = is_seen(row);
            let to = to.wrapping_byte_add((i * Self::DOWN * 2 * const { pitch(SIZE) }) as u32);
            // SAFETY: a key that is seen exists, and the buffer has room for the row.
            unsafe {
                if PAGED {
                    let key = if is_seen { first + row } else { 0 };
                    from = source.wrapping_add(args.key_row(strides, part.at.batch, key, part.at.key_head));
                }
                // Without a branch: rows that are not seen are copies of no bytes.
                self.row(args, to, from, is_seen);
            }
            from = from.wrapping_add(Self::DOWN * across);
            i += 1;
        }
        if PAGED { source } else { from }
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
