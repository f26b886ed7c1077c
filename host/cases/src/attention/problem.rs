//! Attention problems.

use ferrowarp::attention::{Attention, Causal};

use crate::scopes::{DEVICE, EMULATOR, LARGER, SMALL, SMALL_AND_EMULATOR, Scope, TINY, setters};

/// The values of Q and K. V has numbers between -1 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Logits of a few units.
    Ordinary,
    /// Logits of hundreds.
    Large,
    /// Logits of millions, with differences that are far from exact in `f32`.
    Huge,
    /// The last key's logit is far above all others.
    Dominant,
    /// All logits are 0.
    Equal,
}

/// The storage of the batch entries' keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// All have the same number of keys.
    Whole,
    /// The first entry has all keys, the second half of them, and the third none.
    Lengths,
    /// The same, in pages of this many positions, the last page first. One more page is unused.
    Pages(usize),
}

/// One problem, for every type.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    /// The scopes that run it.
    pub scopes: &'static [Scope],
    /// Queries and keys.
    pub lengths: [usize; 2],
    /// Entries of the batch.
    pub batch: usize,
    /// Heads of K and V, and the number of heads of Q that share each.
    pub heads: [usize; 2],
    /// Elements of a row.
    pub head_size: usize,
    /// The mask.
    pub causal: Option<Causal>,
    /// The maximum number of keys that a query sees under it.
    pub window: Option<usize>,
    /// The values of Q and K.
    pub values: Values,
    /// If set, all positions of a head are consecutive, with this number of elements between the rows. Otherwise all heads
    /// of a position are consecutive, without gaps.
    pub heads_first: Option<usize>,
    /// Whether the log-sum-exp is requested.
    pub has_log: bool,
    /// The storage of the keys.
    pub cache: Cache,
}

impl Problem {
    /// The number of keys of a batch entry.
    pub fn keys(&self, batch: usize) -> usize {
        let keys = self.lengths[1];
        if self.cache == Cache::Whole { keys } else { keys.saturating_sub(batch * keys.div_ceil(2)) }
    }

    /// The operation with the mask.
    pub fn attention(&self) -> Attention<'static> {
        let call = self.causal.into_iter().fold(Attention::new(), Attention::causal);
        self.window.into_iter().fold(call, Attention::sliding_window)
    }

    /// The keys of a batch entry that a query sees.
    pub fn seen(&self, batch: usize, query: usize) -> impl Iterator<Item = usize> + use<> {
        let ([queries, _], keys) = (self.lengths, self.keys(batch));
        let Self { causal, window, .. } = *self;
        (0..keys).filter(move |&key| {
            // The distance from the key to the query, in positions.
            let before = match causal {
                None => return true,
                Some(Causal::TopLeft) => query as i64 - key as i64,
                Some(Causal::BottomRight) => (query + keys) as i64 - (queries + key) as i64,
            };
            before >= 0 && window.is_none_or(|window| before < window as i64)
        })
    }
}

/// The defaults of most problems.
pub(crate) const PLAIN: Problem = Problem {
    scopes: &[],
    lengths: [1, 1],
    batch: 1,
    heads: [1, 1],
    head_size: 64,
    causal: None,
    window: None,
    values: Values::Ordinary,
    heads_first: None,
    has_log: true,
    cache: Cache::Whole,
};

/// A problem of these scopes, with these queries and keys.
pub(super) const fn at(scopes: &'static [Scope], queries: usize, keys: usize) -> Problem {
    Problem { scopes, lengths: [queries, keys], ..PLAIN }
}

setters! {
    Problem;
    batch(batch: usize): batch = batch;
    heads(heads: [usize; 2]): heads = heads;
    head_size(size: usize): head_size = size;
    top_left(): causal = Some(Causal::TopLeft);
    bottom_right(): causal = Some(Causal::BottomRight);
    window(keys: usize): window = Some(keys);
    values(values: Values): values = values;
    heads_first(gap: usize): heads_first = Some(gap);
    cache(cache: Cache): cache = cache;
    without_log(): has_log = false;
}

/// Lengths that are not multiples of the tiles. One query, one key, none.
pub const PROBLEMS: &[Problem] = &[
    at(TINY, 3, 5).head_size(8).top_left(),
    at(TINY, 5, 7).head_size(8).top_left().window(2),
    at(SMALL, 5, 130).heads([1, 2]),
    at(SMALL_AND_EMULATOR, 5, 130).heads([1, 2]).bottom_right().window(40),
    at(EMULATOR, 140, 261).head_size(128).bottom_right().window(70),
    at(SMALL, 9, 130).head_size(128).bottom_right(),
    at(SMALL, 19, 35).head_size(5).top_left(),
    at(SMALL, 2, 90).heads([1, 3]).head_size(192),
    at(TINY, 1, 4).batch(2).head_size(4).cache(Cache::Pages(16)),
    at(SMALL_AND_EMULATOR, 2, 70).batch(2).heads([1, 2]).bottom_right().cache(Cache::Pages(16)),
    at(EMULATOR, 70, 261).heads([1, 2]).bottom_right(),
    at(EMULATOR, 130, 131).head_size(128).top_left().values(Values::Huge).heads_first(8),
    at(EMULATOR, 66, 3).head_size(128).bottom_right().without_log(),
    at(EMULATOR, 2, 150).heads([1, 3]).head_size(192).bottom_right().values(Values::Dominant),
    at(SMALL_AND_EMULATOR, 3, 40).head_size(67),
    at(SMALL_AND_EMULATOR, 9, 70).head_size(80).top_left(),
    at(SMALL_AND_EMULATOR, 5, 66).head_size(96).bottom_right(),
    at(SMALL_AND_EMULATOR, 3, 35).head_size(104).heads_first(8),
    at(SMALL_AND_EMULATOR, 2, 35).heads([1, 2]).head_size(200),
    at(SMALL_AND_EMULATOR, 5, 66).batch(2).head_size(80).bottom_right().cache(Cache::Pages(16)),
    at(SMALL_AND_EMULATOR, 3, 70).batch(2).head_size(96).cache(Cache::Pages(32)),
    at(SMALL_AND_EMULATOR, 4, 66).batch(2).heads([1, 2]).head_size(128).top_left().cache(Cache::Pages(16)),
    at(SMALL_AND_EMULATOR, 2, 35).batch(2).head_size(192).cache(Cache::Pages(16)),
    at(SMALL_AND_EMULATOR, 3, 40).batch(2).head_size(256).bottom_right().cache(Cache::Pages(16)),
    // Sliding windows: of one key, of about a tile, longer than the keys, and after the last key.
    at(LARGER, 200, 200).top_left().window(1),
    at(LARGER, 300, 700).bottom_right().window(128),
    at(LARGER, 190, 515).batch(2).heads([2, 2]).head_size(128).bottom_right().window(300),
    at(LARGER, 260, 130).top_left().window(40),
    at(LARGER, 260, 130).head_size(128).bottom_right().window(1 << 40),
    at(LARGER, 5, 211).batch(3).heads([2, 2]).bottom_right().window(90).cache(Cache::Pages(48)),
    at(LARGER, 30, 500).heads([1, 3]).head_size(192).bottom_right().window(33),
    // Lengths and pages, with NaN after the keys of a batch entry.
    at(LARGER, 140, 300).batch(3).heads([1, 2]).head_size(128).bottom_right().cache(Cache::Lengths),
    at(LARGER, 66, 257).batch(2).head_size(80).heads_first(8).cache(Cache::Lengths),
    at(LARGER, 140, 300).batch(3).top_left().cache(Cache::Pages(256)),
    at(LARGER, 130, 290)
        .batch(2)
        .heads([2, 2])
        .head_size(128)
        .bottom_right()
        .window(99)
        .cache(Cache::Pages(32)),
    at(LARGER, 70, 261).batch(2).head_size(96).heads_first(8).bottom_right().cache(Cache::Pages(48)),
    at(LARGER, 70, 250).batch(2).head_size(200).cache(Cache::Pages(64)),
    at(LARGER, 70, 250).batch(2).head_size(192).bottom_right().cache(Cache::Lengths),
    // Few queries.
    at(LARGER, 1, 1030).heads([2, 8]).head_size(128),
    at(LARGER, 4, 333).heads([1, 5]).head_size(256).bottom_right(),
    at(LARGER, 2, 200).batch(2).heads([1, 20]).bottom_right().values(Values::Large).heads_first(8),
    at(LARGER, 16, 700).head_size(96).bottom_right().values(Values::Huge),
    at(LARGER, 1, 200).head_size(192).values(Values::Dominant),
    at(LARGER, 7, 100).heads([1, 3]).head_size(192).top_left(),
    at(LARGER, 1, 300).batch(3).heads([2, 4]).head_size(128).cache(Cache::Pages(64)),
    at(LARGER, 5, 211).batch(3).heads([2, 2]).bottom_right().heads_first(3).cache(Cache::Pages(48)),
    at(LARGER, 70, 211).batch(2).heads([1, 2]).head_size(80).top_left().cache(Cache::Pages(32)),
    at(LARGER, 40, 150).batch(3).head_size(96).bottom_right().cache(Cache::Pages(16)),
    at(LARGER, 130, 200).batch(2).head_size(128).bottom_right().cache(Cache::Pages(16)),
    at(LARGER, 20, 100).batch(3).heads([1, 2]).head_size(192).cache(Cache::Pages(48)),
    at(LARGER, 33, 130).batch(2).head_size(256).bottom_right().cache(Cache::Pages(16)),
    at(LARGER, 20, 77).batch(3).head_size(96).top_left().cache(Cache::Lengths),
    at(LARGER, 4, 100).batch(3).bottom_right().cache(Cache::Lengths),
    at(LARGER, 70, 300).batch(2).heads([2, 3]),
    at(LARGER, 200, 200).heads([2, 1]).top_left(),
    at(LARGER, 129, 257).batch(2).head_size(128).bottom_right(),
    at(LARGER, 257, 129).head_size(128).bottom_right(),
    at(LARGER, 257, 129).head_size(128).top_left(),
    at(LARGER, 1, 385).heads([2, 4]).head_size(128),
    at(LARGER, 1, 1),
    at(LARGER, 1, 1).head_size(128).without_log(),
    at(LARGER, 65, 0),
    at(LARGER, 3, 0).head_size(128).top_left(),
    at(LARGER, 64, 128).values(Values::Equal),
    at(LARGER, 66, 260).values(Values::Large),
    at(LARGER, 66, 260).head_size(128).values(Values::Huge),
    at(LARGER, 66, 260).top_left().values(Values::Huge),
    at(LARGER, 66, 260).head_size(128).values(Values::Dominant),
    at(LARGER, 66, 260).values(Values::Dominant),
    at(LARGER, 67, 133).batch(2).heads([2, 2]).head_size(128).top_left().heads_first(8),
    at(LARGER, 67, 133).heads([1, 2]).heads_first(64),
    // Other head sizes, and unaligned rows.
    at(LARGER, 37, 70).heads([2, 2]).heads_first(3),
    at(LARGER, 33, 65).head_size(256).top_left(),
    at(LARGER, 18, 33).head_size(1),
    at(LARGER, 20, 7).head_size(96).bottom_right(),
    at(LARGER, 129, 257).head_size(80).bottom_right(),
    // Rows that end inside a tensor copy's box, with NaN after them.
    at(LARGER, 130, 261).heads([2, 1]).head_size(40).heads_first(24).top_left(),
    at(LARGER, 67, 133).batch(2).head_size(72).heads_first(8),
    at(LARGER, 130, 150).head_size(88).heads_first(40).bottom_right().window(70),
    at(LARGER, 66, 260).heads([1, 2]).head_size(112).heads_first(16).top_left(),
    at(LARGER, 150, 230).heads([1, 2]).head_size(136).heads_first(8).top_left(),
    at(LARGER, 66, 170).batch(2).head_size(248).heads_first(8).bottom_right().window(90),
    at(LARGER, 20, 140).head_size(120).heads_first(8).values(Values::Dominant),
    at(DEVICE, 131, 515).batch(2).heads([2, 1]).head_size(128),
    at(DEVICE, 400, 400).top_left(),
];
