//! Copies of a tile of an operand to shared memory, 16 bytes per thread, with zeros outside the matrix.

use cuda_std::mem::{store_shared, u32x4};
use cuda_std::pipeline::memcpy_async_l2_zfill;

/// A part of a stored matrix, from its first element on.
#[derive(Clone, Copy)]
pub struct Part<T> {
    /// The first element. It is not read if there are no rows or columns.
    pub first: *const T,
    /// Elements from one row to the next.
    pub pitch: u64,
    /// Rows that lie in the matrix.
    pub rows: u32,
    /// Columns that lie in the matrix.
    pub cols: u32,
}

/// Returns the number of elements in 16 bytes.
pub const fn vector<T>() -> usize {
    16 / size_of::<T>()
}

/// Starts the copies of `ROWS` rows of `COLS` elements to `tile`, whose rows have `PITCH` elements. `THREADS` threads share
/// the work. With `is_aligned` the copies are asynchronous, and belong to the next group of `cuda_std::pipeline`.
///
/// # Safety
/// The part lies in its matrix, and with `is_aligned` all its rows start at multiples of 16 bytes. The tile is shared memory
/// of the block, which no thread reads before the copies are complete and a barrier has followed.
#[inline(always)]
pub unsafe fn copy_tile<
    T: Copy,
    const ROWS: usize,
    const COLS: usize,
    const PITCH: usize,
    const THREADS: usize,
>(
    tile: *mut T,
    part: Part<T>,
    is_aligned: bool,
    tid: usize,
) {
    let n = const { vector::<T>() };
    let across = COLS / n;
    const { assert!((ROWS * COLS / vector::<T>()).is_multiple_of(THREADS) && COLS.is_multiple_of(vector::<T>())) };
    for i in 0..ROWS * COLS / n / THREADS {
        let vector = tid + i * THREADS;
        let (row, col) = (vector / across, vector % across * n);
        let is_row = (row as u32) < part.rows;
        let count = if is_row { part.cols.saturating_sub(col as u32).min(n as u32) } else { 0 };
        let from =
            if count > 0 { part.first.wrapping_add(row * part.pitch as usize + col) } else { part.first };
        // SAFETY: row and column lie in the tile, and the first `count` elements lie in the matrix.
        unsafe {
            let to = tile.add(row * PITCH + col);
            if is_aligned {
                memcpy_async_l2_zfill::<u32x4>(to.cast(), from.cast(), count * size_of::<T>() as u32);
            } else {
                store_shared(to.cast(), gather(from, count));
            }
        }
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
    for i in 0..const { vector::<T>() } {
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
