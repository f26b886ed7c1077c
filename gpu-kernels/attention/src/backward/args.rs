//! The arguments of the kernels.

use cuda_std::KernelArgs;
use cuda_std::tensor::TensorMap;

use super::super::args::{Keys, Strides, Tile};
use super::super::panels::ROWS;

/// The number of rows with statistics is a multiple of this: the largest number of queries of a block.
pub const PADDED: u32 = 2 * ROWS as u32;

/// `turns` has an element for this number of padded queries, and one more.
pub const LEAST_TURN: u32 = 16;

/// A bit of `flags`: `sums` has rows, at [`row_index`].
pub const ROWS_IN_ORDER: u32 = 2;

/// Returns the offset in `sums` of an element of a padded row of `size` elements. Eight neighbours lie at another multiple of
/// 8 in each of eight rows. So the lanes of a warp write fragments into different banks.
#[inline(always)]
pub const fn row_index(size: usize, row: usize, column: usize) -> usize {
    row * size + ((column / 8) ^ (row % 8)) * 8 + column % 8
}

/// Returns the offset in `sums` of a lane's four elements of a fragment: 16 padded rows of `size` elements from `row` on, and
/// eight columns from `column` on. Each element of the next lane follows, and the next element of the lane 32 later.
#[inline(always)]
pub const fn sum_index(size: usize, row: usize, column: usize, lane: usize) -> usize {
    row * size + column * 16 + lane
}

/// The gradients of an attention over these tensors, from the gradient `d_out` of its result.
///
/// Q, `out`, `d_out` and `dq` are `[batch, queries, heads, head size]`; K, V, `dk` and `dv` are
/// `[batch, keys, heads / group, head size]`. Query `i` sees key `j` if `i + diagonal - window < j <= i + diagonal`.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct BackwardArgs<T> {
    /// Q, for kernels with tensor copies; the others do not read it.
    pub q_map: TensorMap,
    /// K, like `q_map`.
    pub k_map: TensorMap,
    /// V, like `q_map`.
    pub v_map: TensorMap,
    /// The gradient of the result, like `q_map`.
    pub d_out_map: TensorMap,
    /// The gradient of Q, like `q_map`.
    pub dq_map: TensorMap,
    /// The gradient of K, like `q_map`.
    pub dk_map: TensorMap,
    /// The gradient of V, like `q_map`.
    pub dv_map: TensorMap,
    /// Written: the gradient of Q.
    pub dq: *mut T,
    /// Written: the gradient of K.
    pub dk: *mut T,
    /// Written: the gradient of V.
    pub dv: *mut T,
    /// The queries.
    pub q: *const T,
    /// The keys.
    pub k: *const T,
    /// The values.
    pub v: *const T,
    /// The result.
    pub out: *const T,
    /// The gradient of the result.
    pub d_out: *const T,
    /// The natural logarithm of the sum of `exp(logit)` over the keys that a query sees, dense `[batch, heads, queries]`;
    /// -inf for a query that sees none.
    pub log_sum_exp: *const f32,
    /// Written by the first kernel, read by the others: the statistics, at [`BackwardArgs::stat_index`].
    pub stats: *mut f32,
    /// For [`super::fused`] and [`super::warpgroups`], else null: dQ without the factor `scale`, at [`sum_index`].
    pub sums: *mut f32,
    /// Like `sums`: for each `turn_queries` padded queries the tiles of keys that have added to their
    /// sums, and at [`BackwardArgs::taken_index`] the tiles of keys that blocks have taken.
    pub turns: *mut u32,
    /// How `dq` is stored.
    pub dq_strides: Strides,
    /// How `dk` is stored.
    pub dk_strides: Strides,
    /// How `dv` is stored.
    pub dv_strides: Strides,
    /// How Q is stored.
    pub q_strides: Strides,
    /// How K is stored.
    pub k_strides: Strides,
    /// How V is stored.
    pub v_strides: Strides,
    /// How `out` is stored.
    pub out_strides: Strides,
    /// How `d_out` is stored.
    pub d_out_strides: Strides,
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
    /// Elements of a row.
    pub head_size: u32,
    /// Query `i` sees no key after `i + diagonal`, from -2^29 to 2^29. From `keys` on it sees all of them.
    pub diagonal: i32,
    /// The query sees the last `window` keys up to there, 1 to 2^30. [`NO_WINDOW`](super::super::args::NO_WINDOW) is more
    /// than any number of keys.
    pub window: i32,
    /// The factor of Q K^T, greater than 0.
    pub scale: f32,
    /// Elements of a row of `sums`.
    pub sum_size: u32,
    /// Queries with a common turn, a power of two from 16 to 128.
    pub turn_queries: u32,
    /// [`ALIGNED`](super::super::args::ALIGNED), if that holds for the rows of all tensors, and [`ROWS_IN_ORDER`].
    pub flags: u32,
    /// For [`super::separate`], and for [`super::warpgroups`] with a mask, the heads of K and V whose tiles blocks take at the
    /// same time. At least 1.
    pub heads_at_once: u32,
    /// For [`super::separate`], the parts of the sum of a tile of keys. At least 1.
    pub key_parts: u32,
    /// The same of a tile of queries.
    pub query_parts: u32,
}

impl<T> BackwardArgs<T> {
    /// Returns the keys and the mask.
    #[inline(always)]
    pub fn all_keys(&self) -> Keys {
        Keys { count: self.keys, diagonal: self.diagonal, window: self.window }
    }

    /// Returns whether a query does not see all keys.
    #[inline(always)]
    pub fn hides_any(&self) -> bool {
        self.diagonal + 1 < self.keys as i32 || self.window < self.queries as i32 + self.diagonal
    }

    /// Returns the first query that sees a key; `queries` or more if none does.
    #[inline(always)]
    pub fn first_query(&self, key: u32) -> u32 {
        (key as i32 - self.diagonal).max(0) as u32
    }

    /// Returns the end of the queries that see a key.
    #[inline(always)]
    pub fn end_of_queries(&self, key: u32) -> u32 {
        (key as i32 - self.diagonal + self.window).min(self.queries as i32).max(0) as u32
    }

    /// Returns the rows of a head that have statistics: the queries, padded to a multiple of [`PADDED`].
    #[inline(always)]
    pub fn padded(&self) -> u32 {
        self.queries.next_multiple_of(PADDED)
    }

    /// Returns the offset of a query's statistics: the logarithm to base 2 of its sum of exponentials, and 64 elements later
    /// its delta. The numbers of 64 queries are contiguous. Without visible keys, and after the last query, the logarithm is
    /// inf, which makes every exponential 0.
    #[inline(always)]
    pub fn stat_index(&self, batch: u32, head: u32, query: u32) -> usize {
        let head = u64::from(batch) * u64::from(self.heads) + u64::from(head);
        let row = head * u64::from(self.padded()) + u64::from(query);
        let (tile, row) = (row / ROWS as u64, row % ROWS as u64);
        (tile * 2 * ROWS as u64 + row) as usize
    }

    /// Returns the number of a query among the padded queries of all heads.
    #[inline(always)]
    pub fn padded_row(&self, batch: u32, head: u32, query: u32) -> u32 {
        (batch * self.heads + head) * self.padded() + query
    }

    /// Returns the number of padded queries of all heads, at most 2^31.
    #[inline(always)]
    pub fn padded_rows(&self) -> u32 {
        self.batch * self.heads * self.padded()
    }

    /// Returns the offset in `turns` of the tiles of keys that blocks have taken.
    #[inline(always)]
    pub fn taken_index(&self) -> usize {
        (self.padded_rows() / LEAST_TURN) as usize
    }

    /// Returns the offset of a query's logarithm.
    #[inline(always)]
    pub fn log_index(&self, batch: u32, head: u32, query: u32) -> usize {
        ((u64::from(batch) * u64::from(self.heads) + u64::from(head)) * u64::from(self.queries)
            + u64::from(query)) as usize
    }

    /// Returns the tile of the calling block, of tiles with `rows` keys. The tiles of a head are consecutive; the first
    /// tiles, which most queries see, come first.
    #[inline(always)]
    pub fn key_tile(&self, block: u32, rows: u32) -> KeyTile {
        let tiles = self.keys.div_ceil(rows);
        // SAFETY: there is a block, so there are tiles and heads. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(tiles != 0) };
        KeyTile::new(block % tiles * rows, block / tiles, self.key_heads)
    }

    /// Returns the index of a tile in its head, and the head's number, of the tiles of `heads` heads. The first tiles of
    /// `heads_at_once` times `group` heads come first, then their second ones, and so on.
    #[inline(always)]
    pub fn tile_in_order(&self, number: u32, tiles: u32, heads: u32, group: u32) -> (u32, u32) {
        let most = self.heads_at_once * group;
        // SAFETY: there is a tile, so there are heads. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(tiles != 0 && most != 0) };
        let first = number / (tiles * most) * most;
        let (number, at_once) = (number % (tiles * most), most.min(heads - first));
        // SAFETY: as above.
        unsafe { core::hint::assert_unchecked(at_once != 0) };
        (number / at_once, first + number % at_once)
    }

    /// Returns [`Tile::new`] of these arguments.
    #[inline(always)]
    pub fn query_tile(&self, block: u32, rows: u32) -> Tile {
        Tile::new(|_| self.all_keys(), self.queries, [self.heads, self.group], block, rows)
    }
}

/// Keys or queries of one head, whose gradients a block computes.
#[derive(Clone, Copy, Debug)]
pub struct KeyTile {
    /// The first one.
    pub first: u32,
    /// Their head.
    pub head: u32,
    /// The batch entry.
    pub batch: u32,
}

impl KeyTile {
    /// Returns the tile of a head among those of all batch entries, with `heads` each.
    #[inline(always)]
    pub fn new(first: u32, head: u32, heads: u32) -> Self {
        // SAFETY: there is a head. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(heads != 0) };
        Self { first, head: head % heads, batch: head / heads }
    }
}
