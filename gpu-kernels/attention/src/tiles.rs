//! Tiles of rows in shared memory for `mma.sync`: how all threads of a block fill them, and how a warp multiplies them.

use cuda_std::hint::opaque;
use cuda_std::mem::u32x4;
use cuda_std::mma::{Element, FragmentA, FragmentB, FragmentC, ldmatrix, ldmatrix_trans, mma_sync_tiles};
use cuda_std::pipeline::memcpy_async_l2_zfill;
use cuda_std::shared::SharedPtr;

use common_kernels::element::Number;

/// Elements of a vector of 16 bytes.
const VECTOR: usize = 8;

/// Elements from one row to the next. The rows of a fragment lie in different banks.
pub const fn pitch(size: usize) -> usize {
    size + VECTOR
}

/// Rows of one head in a tensor.
#[derive(Clone, Copy)]
pub struct Rows<T> {
    /// The first row.
    pub first: *const T,
    /// Elements from one row to the next.
    pub stride: u64,
    /// The number of rows that exist, from the first one on.
    pub count: u32,
    /// Elements of a row.
    pub size: u32,
    /// Whether every row starts at a multiple of 16 bytes.
    pub is_aligned: bool,
}

impl<T: Number> Rows<T> {
    /// Copies rows to a tile of `COUNT` rows of `SIZE` elements, with zeros after the last row and after the ends of rows:
    /// asynchronously if they are aligned.
    ///
    /// # Safety
    /// All threads of the block call this, and no code uses the tile before the copies are complete. The tensor has the
    /// rows.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn copy<const SIZE: usize, const COUNT: usize, const THREADS: usize>(
        &self,
        tile: *mut T,
        tid: usize,
    ) {
        let (across, count) = const { (SIZE / VECTOR, COUNT * SIZE / VECTOR / THREADS) };
        const { assert!((COUNT * SIZE).is_multiple_of(THREADS * VECTOR)) };
        // Computed again for each tile: the addresses would take registers between the copies.
        let tid = opaque(tid);
        let to = SharedPtr::from(tile);
        // The row of a vector, its first element, the number of elements that exist, and its place in the tile.
        let vector = |i: usize| {
            // If a row of threads copies whole rows, the column does not change.
            let (row, column) = if const { THREADS.is_multiple_of(SIZE / VECTOR) } {
                (tid / across + i * const { THREADS * VECTOR / SIZE }, tid % across * VECTOR)
            } else {
                ((tid + i * THREADS) / across, (tid + i * THREADS) % across * VECTOR)
            };
            let left = self.size.saturating_sub(column as u32).min(VECTOR as u32);
            let left = if (row as u32) < self.count { left } else { 0 };
            let to = to.wrapping_byte_add(((row * pitch(SIZE) + column) * size_of::<T>()) as u32);
            (self.first.wrapping_add(row * self.stride as usize + column), left, to)
        };
        let mut i = 0;
        while self.is_aligned && i < count {
            let (from, left, to) = vector(i);
            // SAFETY: the row has `left` elements from there on, aligned, and the tile has the vector.
            unsafe { memcpy_async_l2_zfill::<u32x4>(to.cast(), from.cast(), 2 * left) };
            i += 1;
        }
        while i < count {
            let (from, left, to) = vector(i);
            let mut words = [0u32; 4];
            let mut element = 0;
            while element < VECTOR {
                if (element as u32) < left {
                    // SAFETY: the row has `left` elements from there on.
                    let bits = unsafe { *from.add(element).cast::<u16>() };
                    words[element / 2] |= u32::from(bits) << (16 * (element % 2));
                }
                element += 1;
            }
            // SAFETY: the tile has the vector.
            unsafe { to.cast().write(u32x4::from(words)) };
            i = opaque(i + 1);
        }
    }
}

/// A lane's view of a tile of rows with `SIZE` elements: the address of its row of the first matrices that it loads.
///
/// Its functions are for all lanes of a warp together, when the tile is complete. `row` is the first of 16 rows, and `column`
/// the first of 16 columns; both are multiples of 8.
pub struct Lanes<T, const SIZE: usize>(SharedPtr<T>);

impl<T, const SIZE: usize> Clone for Lanes<T, SIZE> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const SIZE: usize> Copy for Lanes<T, SIZE> {}

impl<T, const SIZE: usize> Lanes<T, SIZE> {
    /// The view for [`a`](Self::a) and [`b_trans`](Self::b_trans).
    #[inline(always)]
    pub fn down(tile: *mut T, lane: usize) -> Self {
        Self(tile.wrapping_add(lane % 16 * pitch(SIZE) + lane / 16 * VECTOR).into())
    }

    /// The view for [`b`](Self::b) and [`a_trans`](Self::a_trans).
    #[inline(always)]
    pub fn across(tile: *mut T, lane: usize) -> Self {
        let row = lane / 16 * 8 + lane % 8;
        Self(tile.wrapping_add(row * pitch(SIZE) + lane / 8 % 2 * VECTOR).into())
    }

    /// The same view of the tile that starts `elements` later.
    #[inline(always)]
    pub fn after(self, elements: usize) -> Self {
        Self(self.0.wrapping_byte_add((elements * size_of::<T>()) as u32))
    }

    #[inline(always)]
    fn at(self, row: usize, column: usize) -> SharedPtr<T> {
        self.after(row * pitch(SIZE) + column).0
    }

    /// Loads a first operand whose rows are rows of the tile.
    ///
    /// # Safety
    /// See [the type](Self).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn a(self, row: usize, column: usize) -> FragmentA<T>
    where
        T: Element,
    {
        // SAFETY: all lanes execute this, and the tile is complete.
        FragmentA::from_registers(unsafe { ldmatrix(self.at(row, column)) })
    }

    /// Loads a first operand whose rows are columns of the tile.
    ///
    /// # Safety
    /// See [the type](Self).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn a_trans(self, row: usize, column: usize) -> FragmentA<T>
    where
        T: Element,
    {
        // SAFETY: all lanes execute this, and the tile is complete.
        FragmentA::from_registers(unsafe { ldmatrix_trans(self.at(row, column)) })
    }

    /// Loads two second operands whose columns are rows of the tile.
    ///
    /// # Safety
    /// See [the type](Self).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn b(self, row: usize, column: usize) -> [FragmentB<T>; 2]
    where
        T: Element,
    {
        // SAFETY: all lanes execute this, and the tile is complete.
        let [a, b, c, d] = unsafe { ldmatrix(self.at(row, column)) };
        [[a, b], [c, d]].map(FragmentB::from_registers)
    }

    /// Loads two second operands whose columns are columns of the tile.
    ///
    /// # Safety
    /// See [the type](Self).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn b_trans(self, row: usize, column: usize) -> [FragmentB<T>; 2]
    where
        T: Element,
    {
        // SAFETY: all lanes execute this, and the tile is complete.
        let [a, b, c, d] = unsafe { ldmatrix_trans(self.at(row, column)) };
        [[a, b], [c, d]].map(FragmentB::from_registers)
    }
}

/// Adds the products of `M` first operands and two second ones to the fragments `n` and `n + 1` of the sums.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn add<T: Element, const M: usize, const N: usize>(
    sums: &mut [[FragmentC; N]; M],
    a: &[FragmentA<T>; M],
    b: &[FragmentB<T>; 2],
    n: usize,
) {
    let mut pairs = [[FragmentC::ZERO; 2]; M];
    let mut m = 0;
    while m < M {
        pairs[m] = [sums[m][n], sums[m][n + 1]];
        m += 1;
    }
    // SAFETY: all lanes execute this.
    unsafe { mma_sync_tiles(a, b, &mut pairs) };
    let mut m = 0;
    while m < M {
        [sums[m][n], sums[m][n + 1]] = pairs[m];
        m += 1;
    }
}
