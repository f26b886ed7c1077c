//! The arguments of the operation's kernels.

use cuda_std::KernelArgs;
use cuda_std::tensor::TensorMap;
use cuda_std::thread;

/// A bit of [`AttentionArgs::flags`]: every row of Q, K and V starts at a multiple of 16 bytes.
pub const ALIGNED: u32 = 1;
/// A bit of `flags`: the last query of a batch entry sees its last key, for any length of the entry.
pub const FROM_END: u32 = 2;

/// A window that hides no key.
pub const NO_WINDOW: i32 = 1 << 30;

/// How the rows of a tensor `[batch, length, heads, head size]` are stored. The elements of a row are contiguous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Strides {
    /// Elements from one batch entry to the next.
    pub batch: u64,
    /// Elements from one position to the next.
    pub length: u64,
    /// Elements from one head to the next.
    pub head: u64,
}

impl Strides {
    /// Returns the start of a row, in elements.
    #[inline(always)]
    pub fn row(&self, batch: u32, position: u32, head: u32) -> usize {
        (u64::from(batch) * self.batch + u64::from(position) * self.length + u64::from(head) * self.head)
            as usize
    }
}

/// `out = softmax(scale Q K^T + mask) V`, and the logarithms of the softmax's sums.
///
/// Q and `out` are `[batch, queries, heads, head size]`, K and V are `[batch, keys, heads / group, head size]`. Query `i`
/// sees key `j` if `i + diagonal - window < j <= i + diagonal`. A query that sees no key gets zeros, and the logarithm -inf.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct AttentionArgs<T> {
    /// Q, for kernels with tensor copies; the others do not read it.
    pub q_map: TensorMap,
    /// K, like `q_map`.
    pub k_map: TensorMap,
    /// V, like `q_map`.
    pub v_map: TensorMap,
    /// The result, like `q_map`.
    pub out_map: TensorMap,
    /// Written.
    pub out: *mut T,
    /// The queries.
    pub q: *const T,
    /// The keys.
    pub k: *const T,
    /// The values.
    pub v: *const T,
    /// Written, unless it is null: the natural logarithm of the sum of `exp(logit)` over the keys that a query sees, dense
    /// `[batch, heads, queries]`.
    pub log_sum_exp: *mut f32,
    /// With several splits of the keys: for each split and row the largest logit and the sum of exponentials, then for each
    /// split and row its `head_size` results. Otherwise null.
    pub sums: *mut f32,
    /// The pages of the batch entries' keys, dense `[batch, pages]`: K and V are `[page, position, head, element]`. Null if
    /// they are `[batch, position, head, element]`.
    pub page_table: *const u32,
    /// The number of keys of each batch entry; at most `keys` of them count. Null if all entries have `keys`.
    pub lengths: *const u32,
    /// How `out` is stored.
    pub out_strides: Strides,
    /// How Q is stored.
    pub q_strides: Strides,
    /// How K is stored.
    pub k_strides: Strides,
    /// How V is stored.
    pub v_strides: Strides,
    /// Entries of the batch.
    pub batch: u32,
    /// Number of queries, at most 2^29.
    pub queries: u32,
    /// Number of keys, at most 2^29.
    pub keys: u32,
    /// Heads of Q.
    pub heads: u32,
    /// Heads of K and V.
    pub key_heads: u32,
    /// Heads of Q that share a head of K and V. At least 1.
    pub group: u32,
    /// Elements of a row. Kernels with a fixed head size ignore it.
    pub head_size: u32,
    /// Query `i` sees no key after `i + diagonal`, from -2^29 to 2^29. From `keys` on it sees all of them.
    pub diagonal: i32,
    /// The query sees the last `window` keys up to there, 1 to 2^30. [`NO_WINDOW`] is more than any number of keys.
    pub window: i32,
    /// The factor of Q K^T, greater than 0.
    pub scale: f32,
    /// Positions of a page; with a page table, a multiple of 16.
    pub page_size: u32,
    /// The number of pages. A larger number in the page table means the last page.
    pub pages: u32,
    /// Parts into which the keys are split. At least 1.
    pub splits: u32,
    /// The bits above.
    pub flags: u32,
}

impl<T> AttentionArgs<T> {
    /// Returns the keys and the mask if all batch entries have the same number of keys.
    #[inline(always)]
    pub fn all_keys(&self) -> Keys {
        Keys { count: self.keys, diagonal: self.diagonal, window: self.window }
    }

    /// Returns the keys and the mask of a batch entry.
    ///
    /// # Safety
    /// The batch entry exists, and `lengths` has an element for it or is null.
    #[inline(always)]
    pub unsafe fn keys_of(&self, batch: u32) -> Keys {
        if self.lengths.is_null() {
            return self.all_keys();
        }
        // SAFETY: the batch entry has a length.
        let count = unsafe { *self.lengths.add(batch as usize) }.min(self.keys);
        let diagonal = if self.has(FROM_END) { count as i32 - self.queries as i32 } else { self.diagonal };
        Keys { count, diagonal, window: self.window }
    }

    /// Returns the page of a key, and its position there.
    ///
    /// # Safety
    /// The key exists, and the page table has its page.
    #[inline(always)]
    pub unsafe fn page(&self, batch: u32, position: u32) -> [u32; 2] {
        // SAFETY: there is a key, so pages have positions. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(self.page_size != 0) };
        let in_entry = self.keys / self.page_size;
        let at = u64::from(batch) * u64::from(in_entry) + u64::from(position / self.page_size);
        // SAFETY: the key exists, so the table has its page.
        let page = unsafe { *self.page_table.add(at as usize) }.min(self.pages - 1);
        [page, position % self.page_size]
    }

    /// Returns the start of a key's row, in elements. With pages, the next positions up to a multiple of 16 follow at the
    /// stride of a position.
    ///
    /// # Safety
    /// The key exists, and the page table has its page or is null.
    #[inline(always)]
    pub unsafe fn key_row(&self, strides: &Strides, batch: u32, position: u32, key_head: u32) -> usize {
        if self.page_table.is_null() {
            return strides.row(batch, position, key_head);
        }
        // SAFETY: the key exists, and the table has its page.
        let [page, position] = unsafe { self.page(batch, position) };
        strides.row(page, position, key_head)
    }

    /// Returns the offset of a query's logarithm.
    #[inline(always)]
    pub fn log_index(&self, batch: u32, head: u32, query: u32) -> usize {
        ((u64::from(batch) * u64::from(self.heads) + u64::from(head)) * u64::from(self.queries)
            + u64::from(query)) as usize
    }

    /// Writes the logarithms of a thread's two queries, unless `log_sum_exp` is null.
    ///
    /// # Safety
    /// The thread computes this query and the eighth after it, of this tile.
    #[inline(always)]
    pub unsafe fn store_logs(&self, tile: &Tile, query: u32, logs: [f32; 2]) {
        if self.log_sum_exp.is_null() || !thread::thread_idx_x().is_multiple_of(4) {
            return;
        }
        for (i, log) in logs.into_iter().enumerate() {
            let query = query + 8 * i as u32;
            if query < self.queries {
                // SAFETY: the query has an element, and only this thread writes it.
                unsafe { *self.log_sum_exp.add(self.log_index(tile.batch, tile.head, query)) = log };
            }
        }
    }

    /// Returns whether a bit of `flags` is set.
    #[inline(always)]
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Returns the rows of a head of K and V: the queries of all heads that share it. Row `r` is query `r / group` of their
    /// head `r % group`. Rows of all heads are counted by batch entry, then by head of K and V, and are at most 2^31.
    #[inline(always)]
    pub fn rows(&self) -> u32 {
        self.queries * self.group
    }

    /// Returns a row, numbered among the rows of all heads.
    #[inline(always)]
    pub fn row(&self, row: u32) -> Row {
        let rows = self.rows();
        // SAFETY: there is a row, so there are queries and heads. It keeps a panic out of the kernel.
        unsafe {
            core::hint::assert_unchecked(self.group != 0);
            core::hint::assert_unchecked(self.key_heads != 0);
            core::hint::assert_unchecked(rows != 0);
        }
        let (head, row) = (row / rows, row % rows);
        let (batch, key_head) = (head / self.key_heads, head % self.key_heads);
        Row { query: row / self.group, head: key_head * self.group + row % self.group, batch, key_head }
    }

    /// Returns the offset in `sums` of the largest logit and the sum of a row, among all heads' rows, for `split`.
    #[inline(always)]
    pub fn total_index(&self, split: u32, row: u32) -> usize {
        (2 * (self.all_rows() * u64::from(split) + u64::from(row))) as usize
    }

    /// Returns the offset in `sums` of the results of a row, numbered among the rows of all heads, for `split`.
    #[inline(always)]
    pub fn results_index(&self, split: u32, row: u32) -> usize {
        let totals = 2 * self.all_rows() * u64::from(self.splits);
        let row = self.all_rows() * u64::from(split) + u64::from(row);
        (totals + row * u64::from(self.head_size)) as usize
    }

    /// Returns the number of rows of all heads.
    #[inline(always)]
    fn all_rows(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.heads) * u64::from(self.queries)
    }

    /// Returns the block's share of all tiles with `rows` queries.
    #[inline(always)]
    pub fn tiles(&self, rows: u32) -> Tiles {
        Tiles { rows, all: self.queries.div_ceil(rows) * self.heads * self.batch, round: 0 }
    }

    /// Returns [`Tile::new`] of these arguments.
    #[inline(always)]
    pub fn tile(&self, keys: impl FnOnce(u32) -> Keys, tile: u32, rows: u32) -> Tile {
        Tile::new(keys, self.queries, [self.heads, self.group], tile, rows)
    }
}

/// Returns the neighbouring positions of a page that are copied at once, in tiles of `keys` keys.
pub const fn page_rows(page_size: u32, keys: u32) -> u32 {
    1 << if page_size.trailing_zeros() < keys.trailing_zeros() { page_size } else { keys }.trailing_zeros()
}

/// The keys of a batch entry, and the mask.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// The number of keys.
    pub count: u32,
    /// Query `i` sees no key after `i + diagonal`.
    pub diagonal: i32,
    /// The query sees the last `window` keys up to there.
    pub window: i32,
}

impl Keys {
    /// Returns the end of the keys that a query sees.
    #[inline(always)]
    pub fn visible(self, query: u32) -> u32 {
        (query as i32 + self.diagonal + 1).min(self.count as i32).max(0) as u32
    }

    /// Returns the first key that a query sees; [`Self::visible`] or more if it sees none.
    #[inline(always)]
    pub fn hidden(self, query: u32) -> u32 {
        (query as i32 + self.diagonal + 1 - self.window).max(0) as u32
    }
}

/// A query of one head.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The query.
    pub query: u32,
    /// The head of Q and of the result.
    pub head: u32,
    /// The batch entry.
    pub batch: u32,
    /// The head of K and V.
    pub key_head: u32,
}

/// The tiles of a block: one of every `grid_dim_x`. In every second round the blocks take them in reverse order, because
/// tiles with many visible keys alternate with tiles with few.
#[derive(Clone, Copy, Debug)]
pub struct Tiles {
    rows: u32,
    all: u32,
    round: u32,
}

impl Tiles {
    /// Returns the next tile. `keys` returns those of a batch entry.
    #[inline(always)]
    pub fn next<T>(&mut self, args: &AttentionArgs<T>, keys: impl FnOnce(u32) -> Keys) -> Option<Tile> {
        let (block, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
        let first = self.round * blocks;
        let is_backwards = self.round % 2 == 1 && first + blocks <= self.all;
        let tile = first + if is_backwards { blocks - 1 - block } else { block };
        self.round += 1;
        (tile < self.all).then(|| args.tile(keys, tile, self.rows))
    }
}

/// Queries of one head that a block computes.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// The first query.
    pub row: u32,
    /// The head of Q and of the result.
    pub head: u32,
    /// The head of K and V.
    pub key_head: u32,
    /// The batch entry.
    pub batch: u32,
    /// The first key that the first query sees; the others see none before it.
    pub hidden: u32,
    /// The end of the keys that the last query sees; the others see none after it.
    pub visible: u32,
}

impl Tile {
    /// Returns tile number `tile` of tiles with `rows` queries. The tiles of a head are consecutive, then come those of the
    /// next head. The tiles of a head start with the last one, which sees the most keys. `keys` returns those of a batch entry.
    #[inline(always)]
    pub fn new(
        keys: impl FnOnce(u32) -> Keys,
        queries: u32,
        [heads, group]: [u32; 2],
        tile: u32,
        rows: u32,
    ) -> Self {
        let tiles = queries.div_ceil(rows);
        // SAFETY: there is a tile, so there are tiles and heads, and groups have heads. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(tiles != 0 && heads != 0 && group != 0) };
        let (place, head) = (tile % tiles, tile / tiles);
        let (head, batch) = (head % heads, head / heads);
        let row = (tiles - 1 - place) * rows;
        let (last, keys) = (queries.min(row + rows) - 1, keys(batch));
        let (hidden, visible) = (keys.hidden(row), keys.visible(last));
        Self { row, head, key_head: head / group, batch, hidden, visible }
    }
}
