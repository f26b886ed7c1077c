//! Tiles of the operands in shared memory: where their elements lie, and the copies that fill them.

use core::marker::PhantomData;

use cuda_std::mem::{store_shared, u32x4};
use cuda_std::pipeline::memcpy_async_l2_128_zfill;
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
        self.each(|row, col, from, to| {
            let bytes = if row < rows && col < cols { 16 } else { 0 };
            // SAFETY: the chunk lies in the tile, and in the matrix if it is read.
            unsafe {
                memcpy_async_l2_128_zfill::<u32x4>(stage.wrapping_byte_add(to).cast(), from.cast(), bytes)
            };
        });
    }

    /// As [`Self::start`], for rows that end anywhere, and start at multiples of 16 bytes only if `is_aligned`. Then the copies
    /// are asynchronous.
    ///
    /// # Safety
    /// Same as for [`Self::start`], but for what it says of rows.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn start_gathering(&mut self, stage: SharedPtr<u8>, terms: u32, is_aligned: bool) {
        let [rows, cols] = if ALONG_K == 1 { [self.sides, terms] } else { [terms, self.sides] };
        self.each(|row, col, from, to| {
            let count = if row < rows { cols.saturating_sub(col).min(per_chunk::<T>()) } else { 0 };
            let to = stage.wrapping_byte_add(to).cast();
            // SAFETY: the chunk lies in the tile, and its first `count` elements lie in the matrix.
            unsafe {
                if is_aligned {
                    memcpy_async_l2_128_zfill::<u32x4>(to, from.cast(), count * size_of::<T>() as u32);
                } else {
                    to.write(gather(from, count));
                }
            }
        });
    }

    /// Calls `copy` with row, column, source and byte offset of each of the thread's chunks in the next tile.
    #[inline(always)]
    fn each(&mut self, mut copy: impl FnMut(u32, u32, *const T, u32)) {
        let down = THREADS as u32 / self.layout.chunks;
        let mut from = self.from;
        for i in 0..self.layout.rows / down {
            copy(self.row + i * down, self.col, from, self.to + i * down * self.layout.row_bytes);
            from = from.wrapping_add(self.row_step as usize);
        }
        self.from = self.from.wrapping_add(self.tile_step as usize);
    }
}

/// Returns the first `count` elements from `from` on as 16 bytes, and zeros after them.
///
/// # Safety
/// `from` points to `count` elements.
#[inline(always)]
unsafe fn gather<T: Copy>(from: *const T, count: u32) -> u32x4 {
    let mut words = [0u32; 4];
    let in_word = 4 / size_of::<T>();
    for i in 0..const { per_chunk::<T>() as usize } {
        if (i as u32) < count {
            // SAFETY: the element is one of the caller's; it is 2 or 4 bytes of plain bits.
            let bits = unsafe {
                match size_of::<T>() {
                    2 => u32::from(*from.add(i).cast::<u16>()),
                    _ => *from.add(i).cast::<u32>(),
                }
            };
            words[i / in_word] |= bits << (i % in_word * 8 * size_of::<T>());
        }
    }
    u32x4::from(words)
}
