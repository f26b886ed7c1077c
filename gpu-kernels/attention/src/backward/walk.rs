//! The order in which blocks add to dQ, for [`super::warpgroups`].
//!
//! The tiles of keys that a tile of queries sees add to its dQ one after the other. The order depends only on the shape and the
//! number of blocks. It is chosen so that blocks rarely wait:
//!
//! - With a mask, blocks take the first keys first, which most queries see, and start with the last queries. Earlier keys add
//!   first. So a block waits only for tiles that others have taken before its own.
//! - Without a mask, each block takes a tile of keys in each round. The blocks that share a head start at different tiles of
//!   queries, evenly spread, and continue at the other end. Blocks with later keys add first, except those that have continued
//!   at the other end. A block waits for tiles of the same round or of earlier ones. All blocks run, since the launch is
//!   cooperative.

use cuda_std::thread;

use super::args::{BackwardArgs, KeyTile};

/// A block's way through the tiles of queries that see its keys.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// The keys.
    pub tile: KeyTile,
    /// The current head.
    pub head: u32,
    /// The number of tiles of queries of a head.
    count: u32,
    /// The end of the tiles of queries, and how many of them lie after the current one.
    end: u32,
    at: u32,
    /// The first one.
    start: u32,
    /// Without a mask, the tiles of keys of the head that blocks have taken in earlier rounds; the number of those in this
    /// round, and the place of this one among them.
    before: u32,
    ranks: u32,
    rank: u32,
}

impl Walk {
    /// Returns the way for the tile of keys with this number; there are tiles of `keys` keys, and of `queries` queries.
    #[inline(always)]
    pub fn new<T>(args: &BackwardArgs<T>, number: u32, [keys, queries]: [u32; 2]) -> Option<Self> {
        let (tiles, heads) = (args.keys.div_ceil(keys), args.key_heads * args.batch);
        if number >= tiles * heads {
            return None;
        }
        // SAFETY: there is a tile, so there are tiles and heads. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(tiles != 0) };
        let of_queries = args.queries.div_ceil(queries);
        let at = |index: u32, head: u32| KeyTile::new(index * keys, head, args.key_heads);
        if args.hides_any() {
            let (index, head) = args.tile_in_order(number, tiles, heads, 1);
            let tile = at(index, head);
            let first = args.first_query(tile.first) / queries;
            let end = args.end_of_queries(args.keys.min(tile.first + keys) - 1).div_ceil(queries);
            let count = end.saturating_sub(first);
            let head = tile.head * args.group;
            return Some(Self { tile, head, count, end, at: 0, start: 0, before: 0, ranks: 1, rank: 0 });
        }
        let (head, place, blocks) = (number / tiles, number % tiles, thread::grid_dim_x());
        // SAFETY: a block calls this. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(blocks != 0) };
        let first = number / blocks * blocks;
        let before = first.saturating_sub(head * tiles);
        let (ranks, rank) = (tiles.min(first + blocks - head * tiles) - before, place - before);
        // SAFETY: the tile itself is one of them. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(ranks != 0) };
        let start = rank * of_queries / ranks;
        let tile = at(place, head);
        let (head, end) = (tile.head * args.group, of_queries);
        Some(Self { tile, head, count: of_queries, end, at: start, start, before, ranks, rank })
    }

    /// Returns the current tile of queries.
    #[inline(always)]
    pub fn query_tile(&self) -> u32 {
        self.end - 1 - self.at
    }

    /// Returns the number of tiles of queries, of all heads that share the keys.
    #[inline(always)]
    pub fn steps<T>(&self, args: &BackwardArgs<T>) -> u32 {
        self.count * args.group
    }

    /// Goes on to the next tile of queries, or after the last one to the next head. So the blocks that share a head find its
    /// queries in L2. With a mask, blocks with fewer tiles would wait for the others at the next head: they go on to the same
    /// queries of the next head, and after the last head to the next tile.
    #[inline(always)]
    pub fn advance<T>(&mut self, args: &BackwardArgs<T>) {
        let is_masked = args.hides_any();
        let mut is_last = self.head + 1 == (self.tile.head + 1) * args.group;
        if !is_masked || is_last {
            self.at = if self.at + 1 == self.count { 0 } else { self.at + 1 };
            is_last = is_masked;
        }
        if is_last {
            self.head = self.tile.head * args.group;
        } else if is_masked || self.at == self.start {
            self.head += 1;
        }
    }

    /// Returns how many tiles of keys add to the current tile of queries before this one.
    #[inline(always)]
    pub fn turn<T>(&self, args: &BackwardArgs<T>, [keys, queries]: [u32; 2]) -> u32 {
        if args.hides_any() {
            return self.tile.first / keys - args.all_keys().hidden(self.query_tile() * queries) / keys;
        }
        // SAFETY: there is a tile of queries. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(self.count != 0) };
        // The last one of the blocks that have started here or before comes first, and then those before it.
        let nearest = ((self.at + 1) * self.ranks).div_ceil(self.count).min(self.ranks) - 1;
        let after = nearest + self.ranks - self.rank;
        self.before + if after >= self.ranks { after - self.ranks } else { after }
    }
}
