//! Attention problems.

use ferrowarp::attention::{Attention, Causal};

use crate::Scope;

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

/// The masks.
pub(super) const TOP_LEFT: Option<Causal> = Some(Causal::TopLeft);
pub(super) const BOTTOM_RIGHT: Option<Causal> = Some(Causal::BottomRight);
/// On the executor and on a device.
pub(super) const LARGER: &[Scope] = &[Scope::Executor, Scope::Device];

/// Lengths that are not multiples of the tiles. One query, one key, none.
pub const PROBLEMS: &[Problem] = &[
    Problem { scopes: &[Scope::Tiny], lengths: [3, 5], head_size: 8, causal: TOP_LEFT, ..PLAIN },
    Problem {
        scopes: &[Scope::Tiny],
        lengths: [5, 7],
        head_size: 8,
        causal: TOP_LEFT,
        window: Some(2),
        ..PLAIN
    },
    Problem { scopes: &[Scope::Small], lengths: [5, 130], heads: [1, 2], ..PLAIN },
    Problem {
        scopes: &[Scope::Small, Scope::NewEmulator],
        lengths: [5, 130],
        heads: [1, 2],
        causal: BOTTOM_RIGHT,
        window: Some(40),
        ..PLAIN
    },
    Problem {
        scopes: &[Scope::NewEmulator],
        lengths: [140, 261],
        head_size: 128,
        causal: BOTTOM_RIGHT,
        window: Some(70),
        ..PLAIN
    },
    Problem { scopes: &[Scope::Small], lengths: [9, 130], head_size: 128, causal: BOTTOM_RIGHT, ..PLAIN },
    Problem { scopes: &[Scope::Small], lengths: [19, 35], head_size: 5, causal: TOP_LEFT, ..PLAIN },
    Problem { scopes: &[Scope::Small], lengths: [2, 90], heads: [1, 3], head_size: 192, ..PLAIN },
    Problem {
        scopes: &[Scope::Tiny],
        batch: 2,
        lengths: [1, 4],
        head_size: 4,
        cache: Cache::Pages(16),
        ..PLAIN
    },
    Problem {
        scopes: &[Scope::Small, Scope::NewEmulator],
        batch: 2,
        lengths: [2, 70],
        heads: [1, 2],
        causal: BOTTOM_RIGHT,
        cache: Cache::Pages(16),
        ..PLAIN
    },
    Problem {
        scopes: &[Scope::NewEmulator],
        lengths: [70, 261],
        heads: [1, 2],
        causal: BOTTOM_RIGHT,
        ..PLAIN
    },
    Problem {
        scopes: &[Scope::NewEmulator],
        lengths: [130, 131],
        head_size: 128,
        heads_first: Some(8),
        causal: TOP_LEFT,
        values: Values::Huge,
        ..PLAIN
    },
    Problem {
        scopes: &[Scope::NewEmulator],
        lengths: [66, 3],
        head_size: 128,
        causal: BOTTOM_RIGHT,
        has_log: false,
        ..PLAIN
    },
    Problem {
        scopes: &[Scope::NewEmulator],
        lengths: [2, 150],
        heads: [1, 3],
        head_size: 192,
        causal: BOTTOM_RIGHT,
        values: Values::Dominant,
        ..PLAIN
    },
    Problem { scopes: &[Scope::Small, Scope::NewEmulator], lengths: [3, 40], head_size: 67, ..PLAIN },
    Problem {
        scopes: &[Scope::Small, Scope::NewEmulator],
        lengths: [2, 35],
        heads: [1, 2],
        head_size: 200,
        ..PLAIN
    },
    // Sliding windows: of one key, of about a tile, longer than the keys, and after the last key.
    Problem { scopes: LARGER, lengths: [200, 200], causal: TOP_LEFT, window: Some(1), ..PLAIN },
    Problem { scopes: LARGER, lengths: [300, 700], causal: BOTTOM_RIGHT, window: Some(128), ..PLAIN },
    Problem {
        scopes: LARGER,
        batch: 2,
        heads: [2, 2],
        lengths: [190, 515],
        head_size: 128,
        causal: BOTTOM_RIGHT,
        window: Some(300),
        ..PLAIN
    },
    Problem { scopes: LARGER, lengths: [260, 130], causal: TOP_LEFT, window: Some(40), ..PLAIN },
    Problem {
        scopes: LARGER,
        lengths: [260, 130],
        head_size: 128,
        causal: BOTTOM_RIGHT,
        window: Some(1 << 40),
        ..PLAIN
    },
    Problem {
        scopes: LARGER,
        batch: 3,
        lengths: [5, 211],
        heads: [2, 2],
        causal: BOTTOM_RIGHT,
        window: Some(90),
        cache: Cache::Pages(48),
        ..PLAIN
    },
    Problem {
        scopes: LARGER,
        lengths: [30, 500],
        heads: [1, 3],
        head_size: 192,
        causal: BOTTOM_RIGHT,
        window: Some(33),
        ..PLAIN
    },
    // Few queries.
    Problem { scopes: LARGER, lengths: [1, 1030], heads: [2, 8], head_size: 128, ..PLAIN },
    Problem {
        scopes: LARGER,
        lengths: [4, 333],
        heads: [1, 5],
        head_size: 256,
        causal: BOTTOM_RIGHT,
        ..PLAIN
    },
    Problem {
        scopes: LARGER,
        batch: 2,
        lengths: [2, 200],
        heads: [1, 20],
        heads_first: Some(8),
        causal: BOTTOM_RIGHT,
        values: Values::Large,
        ..PLAIN
    },
    Problem {
        scopes: LARGER,
        lengths: [16, 700],
        head_size: 96,
        values: Values::Huge,
        causal: BOTTOM_RIGHT,
        ..PLAIN
    },
    Problem { scopes: LARGER, lengths: [1, 200], head_size: 192, values: Values::Dominant, ..PLAIN },
    Problem { scopes: LARGER, lengths: [7, 100], heads: [1, 3], head_size: 192, causal: TOP_LEFT, ..PLAIN },
    Problem {
        scopes: LARGER,
        batch: 3,
        lengths: [1, 300],
        heads: [2, 4],
        head_size: 128,
        cache: Cache::Pages(64),
        ..PLAIN
    },
    Problem {
        scopes: LARGER,
        batch: 3,
        lengths: [5, 211],
        heads: [2, 2],
        heads_first: Some(3),
        causal: BOTTOM_RIGHT,
        cache: Cache::Pages(48),
        ..PLAIN
    },
    Problem {
        scopes: LARGER,
        batch: 3,
        lengths: [20, 77],
        head_size: 96,
        causal: TOP_LEFT,
        cache: Cache::Lengths,
        ..PLAIN
    },
    Problem {
        scopes: LARGER,
        batch: 3,
        lengths: [4, 100],
        causal: BOTTOM_RIGHT,
        cache: Cache::Lengths,
        ..PLAIN
    },
    Problem { scopes: LARGER, batch: 2, heads: [2, 3], lengths: [70, 300], ..PLAIN },
    Problem { scopes: LARGER, heads: [2, 1], lengths: [200, 200], causal: TOP_LEFT, ..PLAIN },
    Problem { scopes: LARGER, batch: 2, lengths: [129, 257], head_size: 128, causal: BOTTOM_RIGHT, ..PLAIN },
    Problem { scopes: LARGER, lengths: [257, 129], head_size: 128, causal: BOTTOM_RIGHT, ..PLAIN },
    Problem { scopes: LARGER, lengths: [257, 129], head_size: 128, causal: TOP_LEFT, ..PLAIN },
    Problem { scopes: LARGER, lengths: [1, 385], head_size: 128, heads: [2, 4], ..PLAIN },
    Problem { scopes: LARGER, lengths: [1, 1], ..PLAIN },
    Problem { scopes: LARGER, lengths: [1, 1], head_size: 128, has_log: false, ..PLAIN },
    Problem { scopes: LARGER, lengths: [65, 0], ..PLAIN },
    Problem { scopes: LARGER, lengths: [3, 0], head_size: 128, causal: TOP_LEFT, ..PLAIN },
    Problem { scopes: LARGER, lengths: [64, 128], values: Values::Equal, ..PLAIN },
    Problem { scopes: LARGER, lengths: [66, 260], values: Values::Large, ..PLAIN },
    Problem { scopes: LARGER, lengths: [66, 260], head_size: 128, values: Values::Huge, ..PLAIN },
    Problem { scopes: LARGER, lengths: [66, 260], values: Values::Huge, causal: TOP_LEFT, ..PLAIN },
    Problem { scopes: LARGER, lengths: [66, 260], head_size: 128, values: Values::Dominant, ..PLAIN },
    Problem { scopes: LARGER, lengths: [66, 260], values: Values::Dominant, ..PLAIN },
    Problem {
        scopes: LARGER,
        batch: 2,
        heads: [2, 2],
        lengths: [67, 133],
        heads_first: Some(8),
        head_size: 128,
        causal: TOP_LEFT,
        ..PLAIN
    },
    Problem { scopes: LARGER, heads: [1, 2], lengths: [67, 133], heads_first: Some(64), ..PLAIN },
    // Other head sizes, and unaligned rows.
    Problem { scopes: LARGER, heads: [2, 2], lengths: [37, 70], heads_first: Some(3), ..PLAIN },
    Problem { scopes: LARGER, lengths: [33, 65], head_size: 256, causal: TOP_LEFT, ..PLAIN },
    Problem { scopes: LARGER, lengths: [18, 33], head_size: 1, ..PLAIN },
    Problem { scopes: LARGER, lengths: [20, 7], head_size: 96, causal: BOTTOM_RIGHT, ..PLAIN },
    Problem {
        scopes: &[Scope::Device],
        batch: 2,
        heads: [2, 1],
        lengths: [131, 515],
        head_size: 128,
        ..PLAIN
    },
    Problem { scopes: &[Scope::Device], lengths: [400, 400], causal: TOP_LEFT, ..PLAIN },
];
