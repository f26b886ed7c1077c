//! The operands of a lane, as words that a scheduler of OS threads passes.
//!
//! A lane's results replace its first words.

use core::ptr;

use super::super::number::Number;
use super::{Exchange, LANES, Rows, Tiles, rows_of};

impl Exchange {
    /// The largest number of words of a lane.
    pub(crate) const MOST_WORDS: usize = 96;

    /// Tiles of B that fit together with one tile of A.
    pub(in super::super) const MOST_COLUMNS: usize = (Self::MOST_WORDS - 2) / 3;

    /// Returns whether a lane's share of `m` x `n` tiles fits.
    #[inline(always)]
    pub(in super::super) const fn fits_words(m: usize, n: usize) -> bool {
        2 * m * n + 2 * m + n <= Self::MOST_WORDS
    }

    /// Encodes the exchange as three numbers below 256; the first is not 0.
    pub(crate) fn to_parameters(self) -> [u64; 3] {
        match self {
            Exchange::Multiply { number, m, n } => [1 + number as u64, m as u64, n as u64],
            Exchange::Rows { matrices, is_transposed } => [4 + u64::from(is_transposed), matrices as u64, 0],
        }
    }

    /// Decodes [`Self::to_parameters`].
    pub(crate) fn from_parameters([kind, m, n]: [usize; 3]) -> Self {
        let multiply = |number| Exchange::Multiply { number, m, n };
        match kind {
            1 => multiply(Number::F16),
            2 => multiply(Number::Bf16),
            3 => multiply(Number::Tf32),
            _ => Exchange::Rows { matrices: m, is_transposed: kind == 5 },
        }
    }

    /// The number of words of a lane's results.
    fn words_back(self) -> usize {
        match self {
            Exchange::Multiply { m, n, .. } => 2 * m * n,
            Exchange::Rows { matrices, is_transposed } => matrices * rows_of(is_transposed),
        }
    }

    /// Writes the lane's operands, word by word.
    ///
    /// # Safety
    /// `lent` points to what the exchange needs.
    pub(crate) unsafe fn write(self, lent: *const (), mut put: impl FnMut(usize, u64)) {
        match self {
            Exchange::Multiply { m, n, .. } => {
                // SAFETY: the caller guarantees `m` tiles of A, `n` of B, and `m * n` of C.
                let (a, b, c) = unsafe {
                    let Tiles { a, b, c } = *lent.cast::<Tiles>();
                    let c = core::slice::from_raw_parts(c, m * n);
                    (core::slice::from_raw_parts(a, m), core::slice::from_raw_parts(b, n), c)
                };
                let mut i = 0;
                let mut put = |low: u32, high: u32| {
                    put(i, u64::from(high) << 32 | u64::from(low));
                    i += 1;
                };
                for &[x, y, z, w] in c {
                    put(x.to_bits(), y.to_bits());
                    put(z.to_bits(), w.to_bits());
                }
                for &[x, y, z, w] in a {
                    put(x, y);
                    put(z, w);
                }
                for &[x, y] in b {
                    put(x, y);
                }
            }
            Exchange::Rows { .. } => {
                // SAFETY: the caller guarantees a row.
                put(0, unsafe { (*lent.cast::<Rows>()).own }.expose_provenance() as u64);
            }
        }
    }

    /// Reads the lane's results.
    ///
    /// # Safety
    /// `lent` points to what the exchange needs, and the words are those of [`Self::complete_words`].
    pub(crate) unsafe fn read(self, lent: *mut (), get: impl Fn(usize) -> u64) {
        match self {
            Exchange::Multiply { m, n, .. } => {
                // SAFETY: the caller guarantees `m * n` tiles of C.
                let c = unsafe { core::slice::from_raw_parts_mut((*lent.cast::<Tiles>()).c, m * n) };
                for (i, c) in c.iter_mut().enumerate() {
                    *c = fragment([get(2 * i), get(2 * i + 1)]);
                }
            }
            Exchange::Rows { .. } => {
                // SAFETY: the caller guarantees a row.
                let wanted = unsafe { &mut (*lent.cast::<Rows>()).wanted };
                for (i, wanted) in wanted.iter_mut().enumerate().take(self.words_back()) {
                    *wanted = ptr::with_exposed_provenance_mut(get(i) as usize);
                }
            }
        }
    }

    /// Replaces all lanes' words by their results. Both functions take a lane and a word's number.
    pub(crate) fn complete_words(
        self,
        get: impl Fn(usize, usize) -> u64,
        mut put: impl FnMut(usize, usize, u64),
    ) {
        match self {
            Exchange::Multiply { m, n, .. } => {
                let halves = |word: u64| [word as u32, (word >> 32) as u32];
                let (mut a, mut b) = (vec![[0; 4]; LANES * m], vec![[0; 2]; LANES * n]);
                let mut c = vec![[0f32; 4]; LANES * m * n];
                for lane in 0..LANES {
                    for i in 0..m * n {
                        c[lane * m * n + i] = fragment([get(lane, 2 * i), get(lane, 2 * i + 1)]);
                    }
                    for i in 0..m {
                        let at = 2 * (m * n + i);
                        let [[x, y], [z, w]] = [halves(get(lane, at)), halves(get(lane, at + 1))];
                        a[lane * m + i] = [x, y, z, w];
                    }
                    for i in 0..n {
                        b[lane * n + i] = halves(get(lane, 2 * (m * n + m) + i));
                    }
                }
                let (first_a, first_b, first_c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
                let mut tiles: [Tiles; LANES] = core::array::from_fn(|lane| Tiles {
                    a: first_a.wrapping_add(lane * m),
                    b: first_b.wrapping_add(lane * n),
                    c: first_c.wrapping_add(lane * m * n),
                });
                let lent = tiles.each_mut().map(|tiles| ptr::from_mut(tiles).cast());
                // SAFETY: each lane's tiles are here.
                unsafe { self.complete(&lent) };
                for (i, [x, y, z, w]) in c.into_iter().enumerate() {
                    let (lane, i) = (i / (m * n), i % (m * n));
                    put(lane, 2 * i, word(x, y));
                    put(lane, 2 * i + 1, word(z, w));
                }
            }
            Exchange::Rows { .. } => {
                let mut rows: [Rows; LANES] = core::array::from_fn(|lane| Rows {
                    own: ptr::without_provenance_mut(get(lane, 0) as usize),
                    wanted: [ptr::null_mut(); 8],
                });
                let lent = rows.each_mut().map(|rows| ptr::from_mut(rows).cast());
                // SAFETY: each lane's rows are here.
                unsafe { self.complete(&lent) };
                for (lane, rows) in rows.iter().enumerate() {
                    for (i, wanted) in rows.wanted.iter().enumerate().take(self.words_back()) {
                        put(lane, i, wanted.addr() as u64);
                    }
                }
            }
        }
    }
}

fn word(low: f32, high: f32) -> u64 {
    u64::from(high.to_bits()) << 32 | u64::from(low.to_bits())
}

fn fragment([upper, lower]: [u64; 2]) -> [f32; 4] {
    let half = |word: u64| f32::from_bits(word as u32);
    [half(upper), half(upper >> 32), half(lower), half(lower >> 32)]
}
