//! The rows and keys of a block, and for [`super::key_splits`] their copies to shared memory and the keys that a row sees.

use cuda_std::mem::{store_shared, u32x4};
use cuda_std::mma::{FragmentC, ldmatrix};
use cuda_std::pipeline::{memcpy_async_l2_128_zfill, memcpy_async_l2_zfill};
use cuda_std::thread;

use super::super::args::{ALIGNED, AttentionArgs, Keys, Row, Strides};
use super::online::Total;
use common_kernels::element::Number;

/// Rows of a tile.
pub const ROWS: usize = 16;
/// Keys that are copied or multiplied at a time. They lie in one page.
pub const UNIT: usize = 16;
/// Keys of a warp's tile. Two units make two chains of multiplications that do not wait for each other.
pub const KEYS: usize = 2 * UNIT;
/// Elements of a vector.
pub const VECTOR: usize = 8;

/// Elements from one row in shared memory to the next. The rows of a fragment lie in different banks.
pub const fn pitch(size: usize) -> usize {
    size + VECTOR
}

/// Returns the bytes of Q, of the warps' buffers, and of their totals.
pub const fn shared_bytes(size: usize, warps: usize) -> usize {
    (ROWS + warps * 2 * KEYS) * 2 * pitch(size) + warps * ROWS * size_of::<Total>()
}

/// The rows and keys of a block.
#[derive(Clone, Copy)]
pub struct Part {
    /// The first row, of all heads' rows.
    pub row: u32,
    /// The first row, of the rows of its head of K and V.
    pub in_head: u32,
    /// The query, head and batch entry of the first row.
    pub at: Row,
    /// The number of rows.
    pub rows: u32,
    /// The keys of the batch entry.
    pub keys: Keys,
    /// The end of the keys that the last row sees; the others see none after it.
    pub visible: u32,
    /// The first tile of keys.
    pub first: u32,
    /// The tile after the last one.
    pub end: u32,
    /// The split.
    pub split: u32,
}

impl Part {
    /// Returns the calling block's part, one of `splits` of a tile of `ROWS` rows, in tiles of `KEYS` keys. The tiles of a head
    /// start with the last one, which sees the most keys.
    ///
    /// # Safety
    /// The arguments are a kernel's.
    #[inline(always)]
    pub unsafe fn new<T, const ROWS: usize, const KEYS: usize>(args: &AttentionArgs<T>, splits: u32) -> Self {
        let rows = args.rows();
        let tiles = rows.div_ceil(ROWS as u32);
        // SAFETY: there is a block, so there are splits, tiles and heads. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(splits != 0 && tiles != 0 && args.key_heads != 0) };
        let (tile, split) = (thread::block_idx_x() / splits, thread::block_idx_x() % splits);
        let (head, tile) = (tile / tiles, tiles - 1 - tile % tiles);
        let in_head = tile * ROWS as u32;
        let count = (rows - in_head).min(ROWS as u32);
        let (batch, key_head) = (head / args.key_heads, head % args.key_heads);
        // SAFETY: the batch entry is one of the arguments.
        let keys = unsafe { args.keys_of(batch) };
        let at = Row { query: 0, head: 0, batch, key_head };
        let part = Self {
            row: head * rows + in_head,
            in_head,
            at,
            rows: count,
            keys,
            visible: 0,
            first: 0,
            end: 0,
            split,
        };
        let at = part.row_at(args, 0);
        let visible = keys.visible(part.row_at(args, count - 1).query);
        let last = visible.div_ceil(KEYS as u32);
        let begin = (keys.hidden(at.query) / KEYS as u32).min(last);
        let each = (last - begin).div_ceil(splits);
        let first = (begin + split * each).min(last);
        let end = last.min(first + each);
        Self { at, visible, first, end, ..part }
    }

    /// Returns the query and the head of a row of the part.
    #[inline(always)]
    pub fn row_at<T>(&self, args: &AttentionArgs<T>, row: u32) -> Row {
        let row = self.in_head + row;
        // SAFETY: there is a row, so groups have heads. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(args.group != 0) };
        let (query, of_group) = if args.group == 1 { (row, 0) } else { (row / args.group, row % args.group) };
        Row { query, head: self.at.key_head * args.group + of_group, ..self.at }
    }

    /// Returns the starts of every `step`th row of the part in Q or in the result, from `row` on.
    #[inline(always)]
    pub fn walk<T>(&self, args: &AttentionArgs<T>, strides: &Strides, row: u32, step: u32) -> Walk {
        let Row { query, head, batch, .. } = self.row_at(args, row);
        let group = args.group;
        // SAFETY: there is a row, so groups have heads. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(group != 0) };
        let (queries, heads) = if group == 1 { (step, 0) } else { (step / group, step % group) };
        Walk {
            offset: strides.row(batch, query, head),
            head: head - self.at.key_head * group,
            group,
            heads,
            step: strides.row(0, queries, heads),
            wrap: (strides.length as usize).wrapping_sub(group as usize * strides.head as usize),
        }
    }
}

/// The starts of rows in a tensor, without a division for each of them.
#[derive(Clone, Copy)]
pub struct Walk {
    /// The start of the row, in elements. After the last row it means nothing.
    pub offset: usize,
    /// The head of the row, among those that share a head of K and V.
    head: u32,
    group: u32,
    /// What a step adds to the head and to the offset, and what the offset gets if the head is the next query's.
    heads: u32,
    step: usize,
    wrap: usize,
}

impl Walk {
    /// Goes to the next row.
    #[inline(always)]
    pub fn next(&mut self) {
        self.head += self.heads;
        self.offset = self.offset.wrapping_add(self.step);
        if self.head >= self.group {
            self.head -= self.group;
            self.offset = self.offset.wrapping_add(self.wrap);
        }
    }
}

/// A lane's copies of tiles of K and V: one vector of some of the rows.
#[derive(Clone, Copy)]
pub struct Copies<T, const SIZE: usize> {
    zeros: *const T,
    /// The row, among those that the warp copies at once.
    row: usize,
    /// The first element.
    col: usize,
    /// Elements of the row from there on, at most a vector.
    count: u32,
    is_aligned: bool,
}

/// The address of a lane's part of K or V.
#[derive(Clone, Copy)]
pub struct Source<T> {
    /// The lane's column of the tensor's first row; without pages, of the part's first key.
    first: *const T,
    strides: Strides,
}

impl<T: Number, const SIZE: usize> Copies<T, SIZE> {
    /// Vectors of a row.
    const ACROSS: usize = SIZE / VECTOR;
    /// Rows that a warp copies at once.
    const DOWN: usize = 32 / Self::ACROSS;

    #[inline(always)]
    pub fn new(args: &AttentionArgs<T>, lane: usize) -> Self {
        let col = lane % Self::ACROSS * VECTOR;
        let has_row = lane < Self::ACROSS * Self::DOWN;
        let count = if has_row { args.head_size.saturating_sub(col as u32).min(VECTOR as u32) } else { 0 };
        Self { zeros: args.k, row: lane / Self::ACROSS, col, count, is_aligned: args.has(ALIGNED) }
    }

    /// Returns the lane's source in the part's head of K or V.
    #[inline(always)]
    pub fn source(
        &self,
        args: &AttentionArgs<T>,
        tensor: *const T,
        strides: &Strides,
        part: &Part,
    ) -> Source<T> {
        let Row { batch, key_head, .. } = part.at;
        let row = if args.page_table.is_null() { strides.row(batch, self.row as u32, key_head) } else { 0 };
        Source { first: tensor.wrapping_add(row + self.col), strides: *strides }
    }

    /// Starts the copy of a unit of keys of the part's head of K or V, with zeros after the keys that the part sees.
    ///
    /// # Safety
    /// All lanes of the warp call this, and no code uses the buffer before the copies are complete. The tensor has what the part sees.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn copy(
        &self,
        args: &AttentionArgs<T>,
        buffer: *mut T,
        source: &Source<T>,
        part: &Part,
        first: u32,
    ) {
        if self.count == 0 {
            return;
        }
        let Row { batch, key_head, .. } = part.at;
        let across = source.strides.length as usize;
        let offset = if args.page_table.is_null() {
            first as usize * across
        } else {
            // SAFETY: the key exists.
            let row = unsafe { args.key_row(&source.strides, batch, first.min(part.visible - 1), key_head) };
            row + self.row * across
        };
        let from = source.first.wrapping_add(offset);
        // SAFETY: the address lies in the caller's buffer.
        let to = unsafe { buffer.add(self.row * const { pitch(SIZE) } + self.col) };
        let mut i = 0;
        if self.is_aligned && first + UNIT as u32 <= part.visible {
            // Nearly all tiles: no branch inside the loop.
            while i < UNIT / Self::DOWN {
                // SAFETY: the tile has these rows, and the buffer has room for them.
                unsafe {
                    let to = to.add(i * Self::DOWN * const { pitch(SIZE) });
                    let from = from.wrapping_add(i * Self::DOWN * across);
                    let bytes = 2 * self.count;
                    if SIZE.is_multiple_of(64) {
                        memcpy_async_l2_128_zfill::<u32x4>(to.cast(), from.cast(), bytes);
                    } else {
                        memcpy_async_l2_zfill::<u32x4>(to.cast(), from.cast(), bytes);
                    }
                }
                i += 1;
            }
            return;
        }
        while i < UNIT / Self::DOWN {
            let row = i * Self::DOWN;
            let (from, count) = if first + ((self.row + row) as u32) < part.visible {
                (from.wrapping_add(row * across), self.count)
            } else {
                (self.zeros, 0)
            };
            // SAFETY: the row has `count` elements, and the buffer has room for it.
            unsafe { copy_vector(to.add(row * const { pitch(SIZE) }), from, count, self.is_aligned) };
            i += 1;
        }
    }

    /// Fills the parts of the warp's buffers that the copies do not write with zeros.
    ///
    /// # Safety
    /// The buffers are the warp's.
    #[inline(always)]
    pub unsafe fn clear_rest(&self, buffers: *mut T) {
        if self.count > 0 || self.row >= Self::DOWN {
            return;
        }
        let mut row = self.row;
        while row < 2 * KEYS {
            // SAFETY: the row lies in the warp's buffers.
            unsafe {
                let to = buffers.add(row * const { pitch(SIZE) } + self.col);
                store_shared(to.cast(), u32x4::default());
            }
            row += Self::DOWN;
        }
    }
}

/// Copies the first `count` elements from `from` on to a vector, and zeros after them: asynchronously if aligned.
///
/// # Safety
/// The source has the elements, and with `is_aligned` starts at a multiple of 16 bytes. The vector is as for
/// [`pipeline`](cuda_std::pipeline#safety-of-the-copies).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn copy_vector<T: Number>(to: *mut T, from: *const T, count: u32, is_aligned: bool) {
    // SAFETY: the source has `count` elements, aligned if `is_aligned`, and the vector is in shared memory.
    unsafe {
        if is_aligned {
            memcpy_async_l2_zfill::<u32x4>(to.cast(), from.cast(), 2 * count);
        } else {
            let mut words = [0u32; 4];
            let mut i = 0;
            while i < VECTOR {
                if (i as u32) < count {
                    words[i / 2] |= u32::from(*from.add(i).cast::<u16>()) << (16 * (i % 2));
                }
                i += 1;
            }
            store_shared(to.cast(), u32x4::from(words));
        }
    }
}

/// Starts the copies of the part's queries, with zeros after them and after the ends of rows.
///
/// # Safety
/// All threads of the block call this, and no code uses the memory before the copies are complete.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn copy_queries<T: Number, const SIZE: usize, const THREADS: usize>(
    args: &AttentionArgs<T>,
    part: &Part,
    to: *mut T,
    tid: usize,
) {
    let mut i = tid;
    while i < ROWS * SIZE / VECTOR {
        let (row, col) = (i / (SIZE / VECTOR), i % (SIZE / VECTOR) * VECTOR);
        let left = args.head_size.saturating_sub(col as u32).min(VECTOR as u32);
        let (from, count) = if (row as u32) < part.rows && left > 0 {
            let Row { query, head, batch, .. } = args.row(part.row + row as u32);
            (args.q.wrapping_add(args.q_strides.row(batch, query, head) + col), left)
        } else {
            (args.q, 0)
        };
        // SAFETY: the row of Q has `count` elements, and the shared memory has room for it.
        unsafe { copy_vector(to.add(row * const { pitch(SIZE) } + col), from, count, args.has(ALIGNED)) };
        i += THREADS;
    }
}

/// Loads 16 columns of the queries as an operand.
///
/// # Safety
/// All lanes of the warp call this. The queries have arrived.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load_queries<T, const SIZE: usize>(queries: *const T, step: usize, lane: usize) -> [u32; 4] {
    let at = lane % 16 * const { pitch(SIZE) } + 16 * step + lane / 16 * 8;
    // SAFETY: all lanes execute this, and the queries have arrived.
    unsafe { ldmatrix(queries.add(at)) }
}

/// The keys that the rows of a lane see.
#[derive(Clone, Copy)]
pub struct Mask {
    /// The first key that each of its two rows sees.
    hidden: [u32; 2],
    /// The ends of the keys that they see.
    visible: [u32; 2],
    /// The first key and the end of the keys that all rows see.
    common: [u32; 2],
    /// The lane's first column of a fragment.
    col: u32,
}

impl Mask {
    #[inline(always)]
    pub fn new<T>(args: &AttentionArgs<T>, part: &Part, lane: usize) -> Self {
        let (row, col) = FragmentC::position(lane as u32, 0);
        let query = |row: u32| args.row(part.row + row.min(part.rows - 1)).query;
        let queries = [query(row as u32), query(row as u32 + 8)];
        Self {
            hidden: queries.map(|query| part.keys.hidden(query)),
            visible: queries.map(|query| part.keys.visible(query)),
            common: [part.keys.hidden(query(ROWS as u32)), part.keys.visible(part.at.query)],
            col: col as u32,
        }
    }

    /// Replaces the logits of keys that a row does not see by -inf, in the tile that begins at `first`.
    #[inline(always)]
    pub fn apply<const S: usize>(self, x: &mut [f32; S], first: u32) {
        let [from, to] = self.common;
        if first >= from && first + KEYS as u32 <= to {
            return;
        }
        let mut i = 0;
        while i < x.len() {
            let key = first + self.col + (i / 4 * 8 + i % 2) as u32;
            let row = i / 2 % 2;
            if key < self.hidden[row] || key >= self.visible[row] {
                x[i] = f32::NEG_INFINITY;
            }
            i += 1;
        }
    }
}
