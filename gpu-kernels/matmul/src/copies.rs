//! Tiles of the operands in shared memory: where their elements lie, and the copies that fill them.

use core::marker::PhantomData;

use cuda_std::mem::{load_global, u32x4};
use cuda_std::pipeline::{memcpy_async_l2_128_zfill, memcpy_async_zfill};
use cuda_std::shared::SharedPtr;

/// How a tile lies in shared memory: rows as they are stored, in chunks of 16 bytes, so that neither the copies nor the loads
/// of fragments have bank conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileLayout {
    /// Rows.
    rows: u32,
    /// Chunks of a row.
    chunks: u32,
    /// Bytes from one row to the next.
    row_bytes: u32,
    order: Order,
}

/// How the places of chunks depend on the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Two rows in 128 bytes. Eight rows of one chunk lie in eight places, because the row changes the order within its half.
    Halves,
    /// Eight rows of one chunk lie in eight places, because the row changes the order within 128 bytes.
    Rows,
    /// Eight words of four rows lie in different banks, because the rows are a multiple of 128 bytes and 32 apart.
    Apart,
}

impl TileLayout {
    /// The tile of `side` rows of A or columns of B, and `terms` terms, of elements of `bytes` bytes. With `along_k` the terms
    /// are neighbours.
    pub const fn new(along_k: bool, side: usize, terms: usize, bytes: usize) -> Self {
        let [rows, cols] = if along_k { [side, terms] } else { [terms, side] };
        let row_bytes = cols * bytes;
        assert!(row_bytes == 64 || row_bytes.is_multiple_of(128), "rows of 64 bytes, or of whole 128");
        let (order, row_bytes) = match (!along_k && bytes == 4, row_bytes) {
            (true, _) => (Order::Apart, row_bytes + 32),
            (false, 64) => (Order::Halves, 64),
            (false, _) => (Order::Rows, row_bytes),
        };
        Self { rows: rows as u32, chunks: (cols * bytes / 16) as u32, row_bytes: row_bytes as u32, order }
    }

    /// The size of the tile.
    pub const fn bytes(self) -> u32 {
        self.rows * self.row_bytes
    }

    /// Bytes from one row to the next.
    #[inline(always)]
    pub const fn row_bytes(self) -> u32 {
        self.row_bytes
    }

    /// Byte offset of a chunk of a row.
    #[inline(always)]
    pub const fn place(self, row: u32, chunk: u32) -> u32 {
        let moved = match self.order {
            Order::Halves => row / 2 % 4,
            Order::Rows => row % 8,
            Order::Apart => 0,
        };
        row * self.row_bytes + (chunk ^ moved) * 16
    }

    /// Byte offset of the chunk that is `chunks` to the right of the one at `place`, if no bit of the numbers overlaps.
    #[inline(always)]
    pub const fn right(self, place: u32, chunks: u32) -> u32 {
        let within = match self.order {
            Order::Halves => 4,
            Order::Rows => 8,
            Order::Apart => 1,
        };
        (place ^ (chunks % within * 16)) + chunks / within * within * 16
    }
}

/// Returns the number of elements in a chunk.
const fn per_chunk<T>() -> u32 {
    16 / size_of::<T>() as u32
}

/// A thread's share of the copies of an operand's tiles, one tile after the other along k.
#[derive(Clone, Copy)]
pub struct TileCopy<T, const ALONG_K: usize, const THREADS: usize> {
    layout: TileLayout,
    /// The thread's first chunk in the tile that is copied next.
    from: *const T,
    /// Elements between the thread's rows.
    row_step: u64,
    /// Elements from a tile to the next.
    tile_step: u64,
    /// Byte offset of the first chunk in the tile.
    to: u32,
    /// The first row and column of the thread.
    row: u32,
    col: u32,
    /// Rows of A or columns of B from the tile's first on.
    sides: u32,
    element: PhantomData<T>,
}

impl<T: Copy, const ALONG_K: usize, const THREADS: usize> TileCopy<T, ALONG_K, THREADS> {
    /// The copies of tiles of `layout` with `terms` terms, from row of A or column of B `side` of `sides`, and term `k` on.
    /// The stored matrix begins at `first`, with `pitch` elements from one row to the next.
    #[inline(always)]
    pub fn new(
        layout: TileLayout,
        terms: usize,
        (first, pitch): (*const T, u64),
        [side, sides]: [u32; 2],
        k: u32,
        tid: u32,
    ) -> Self {
        let across = layout.chunks;
        let (row, col) = (tid / across, tid % across);
        let [first_row, first_col] = if ALONG_K == 1 { [side, k] } else { [k, side] };
        let (to, col) = (layout.place(row, col), col * per_chunk::<T>());
        let at = u64::from(first_row + row) * pitch + u64::from(first_col + col);
        Self {
            layout,
            from: first.wrapping_add(at as usize),
            row_step: u64::from(THREADS as u32 / across) * pitch,
            tile_step: if ALONG_K == 1 { terms as u64 } else { terms as u64 * pitch },
            to,
            row,
            col,
            sides: sides - side,
            element: PhantomData,
        }
    }

    /// Starts the copy of the next tile to `stage`, with zeros outside the matrix and behind the first `terms` terms.
    ///
    /// # Safety
    /// The matrix has the rows, columns and terms. All its rows start at multiples of 16 bytes and have whole chunks. The tile
    /// is shared memory of the block, which no thread reads before the copies are complete and a barrier has followed.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn start(&mut self, stage: SharedPtr<u8>, terms: u32) {
        let [rows, cols] = if ALONG_K == 1 { [self.sides, terms] } else { [terms, self.sides] };
        self.each(|_, row, col, from, to| {
            let bytes = if row < rows && col < cols { 16 } else { 0 };
            // SAFETY: the chunk lies in the tile, and in the matrix if it is read.
            unsafe {
                memcpy_async_l2_128_zfill::<u32x4>(stage.wrapping_byte_add(to).cast(), from.cast(), bytes)
            };
        });
    }

    /// As [`Self::start`], for rows that end anywhere, and start at multiples of 16 bytes only if `is_aligned`. Copies of 16-bit
    /// elements are asynchronous only then; otherwise the thread reads them, and nothing waits for them before
    /// [`finish`](Self::finish) with what this returns.
    ///
    /// # Safety
    /// Same as for [`Self::start`], but for what it says of rows.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn gather(&mut self, stage: SharedPtr<u8>, terms: u32, is_aligned: bool) -> Gathered {
        let [rows, cols] = if ALONG_K == 1 { [self.sides, terms] } else { [terms, self.sides] };
        let (mut gathered, is_odd) = ([[0; 5]; MOST], self.is_odd());
        self.each(|i, row, col, from, to| {
            let count = if row < rows { cols.saturating_sub(col).min(per_chunk::<T>()) } else { 0 };
            let to = stage.wrapping_byte_add(to).cast::<u32x4>();
            // SAFETY: the chunk lies in the tile, and its first `count` elements lie in the matrix.
            unsafe {
                if is_aligned {
                    memcpy_async_l2_128_zfill(to, from.cast(), count * size_of::<T>() as u32);
                } else if size_of::<T>() == 4 {
                    for j in 0..4 {
                        let bytes = if j < count { 4 } else { 0 };
                        let from = from.cast::<u32>().wrapping_add(j as usize);
                        memcpy_async_zfill(to.cast::<u32>().wrapping_byte_add(4 * j), from, bytes);
                    }
                } else {
                    gathered[i % MOST] = gather(from.cast(), count, is_odd);
                }
            }
        });
        gathered
    }

    /// Writes what [`gather`](Self::gather) has read for a tile.
    ///
    /// # Safety
    /// Same as for `gather`, with the same stage.
    #[inline(always)]
    pub unsafe fn finish(mut self, stage: SharedPtr<u8>, gathered: Gathered, is_aligned: bool) {
        if size_of::<T>() == 4 || is_aligned {
            return;
        }
        let is_odd = self.is_odd();
        self.each(|i, _, _, _, to| {
            let [first, a, b, c, last] = gathered[i % MOST];
            let words = match is_odd {
                true => [first | a << 16, a >> 16 | b << 16, b >> 16 | c << 16, c >> 16 | last << 16],
                false => [first | last << 16, a, b, c],
            };
            // SAFETY: the chunk lies in the tile.
            unsafe { stage.wrapping_byte_add(to).cast().write(u32x4::from(words)) };
        });
    }

    /// Whether the thread's rows start between multiples of 4 bytes: all do, because it takes each second, or none.
    #[inline(always)]
    fn is_odd(&self) -> bool {
        !self.from.addr().is_multiple_of(4)
    }

    /// Calls `copy` with number, row, column, source and byte offset of each of the thread's chunks in the next tile.
    #[inline(always)]
    fn each(&mut self, mut copy: impl FnMut(usize, u32, u32, *const T, u32)) {
        let down = THREADS as u32 / self.layout.chunks;
        let mut from = self.from;
        for i in 0..self.layout.rows / down {
            copy(i as usize, self.row + i * down, self.col, from, self.to + i * down * self.layout.row_bytes);
            from = from.wrapping_add(self.row_step as usize);
        }
        self.from = self.from.wrapping_add(self.tile_step as usize);
    }
}

/// The most chunks of a tile that a thread gathers.
const MOST: usize = 4;

/// A thread's chunks of a tile of 16-bit elements as [`TileCopy::gather`] reads them.
pub type Gathered = [[u32; 5]; MOST];

/// Reads the first `count` of eight elements, with zeros after them: the first, then the pairs that start at multiples of 4 bytes,
/// then the last, or the second if there is a pair after it.
///
/// # Safety
/// `from` points to `count` elements. It is a multiple of 4 bytes unless `is_odd`.
#[inline(always)]
unsafe fn gather(from: *const u16, count: u32, is_odd: bool) -> [u32; 5] {
    let [second, last] = if is_odd { [1, 7] } else { [2, 1] };
    // SAFETY: only the caller's elements are read.
    let one = |i: u32| if i < count { unsafe { u32::from(*from.add(i as usize)) } } else { 0 };
    // SAFETY: both elements are there, at a multiple of 4 bytes.
    let both = |i: u32| unsafe { load_global::<u32>(from.add(i as usize).cast()) };
    if count == 8 {
        // SAFETY: all elements are there.
        let one = |i: u32| unsafe { u32::from(*from.add(i as usize)) };
        return [one(0), both(second), both(second + 2), both(second + 4), one(last)];
    }
    if count == 0 {
        return [0; 5];
    }
    let two = |i: u32| if i + 1 < count { both(i) } else { one(i) };
    [one(0), two(second), two(second + 2), two(second + 4), one(last)]
}
