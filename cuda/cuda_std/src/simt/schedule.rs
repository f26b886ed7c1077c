//! The seed of a schedule: it shuffles the order of a launch's blocks and threads, the same way every time.
//!
//! Everything here is a pure function of the seed, the kernel's name and the block's number, so a launch does not depend
//! on earlier launches.

use core::num::ParseIntError;

use super::fault::SEED as VARIABLE;
use super::grid::Grid;
use crate::launch::LaunchError;

/// An executor's seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seed {
    /// No seed: everything runs in the order of its number.
    Fixed,
    /// This seed.
    Shuffled(u64),
    /// The environment has a seed that cannot be parsed. It is an error of every launch.
    Malformed(String),
}

impl Seed {
    /// Reads the seed from the environment.
    pub fn from_environment() -> Self {
        match std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) {
            None => Seed::Fixed,
            Some(text) => Self::parse(&text.to_string_lossy()),
        }
    }

    fn parse(text: &str) -> Self {
        match parse_seed(text) {
            Ok(seed) => Seed::Shuffled(seed),
            Err(_) => Seed::Malformed(text.to_owned()),
        }
    }

    /// Returns the seed of a launch, if it has one.
    ///
    /// # Errors
    /// [`LaunchError::Seed`] if the environment's seed cannot be parsed.
    pub fn of_launch(&self, kernel: &'static str) -> Result<Option<u64>, LaunchError> {
        match self {
            Seed::Fixed => Ok(None),
            Seed::Shuffled(seed) => Ok(Some(*seed)),
            Seed::Malformed(value) => Err(LaunchError::Seed { kernel, value: value.clone() }),
        }
    }
}

/// Parses a user's seed: a decimal number, or a hexadecimal one after `0x`.
///
/// # Errors
/// If it is not a number, or has more than 64 bits.
pub fn parse_seed(text: &str) -> Result<u64, ParseIntError> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection that destroys the patterns of its input.
fn mixed(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Combines a seed with the hash of the kernel's name (FNV-1a).
fn key(seed: u64, kernel: &str) -> u64 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    mixed(seed) ^ kernel.bytes().fold(0xcbf2_9ce4_8422_2325, hash)
}

/// Random numbers: SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// Creates the random numbers of the unit of work with this number; `None` in a launch without a seed.
    pub fn of(grid: &Grid<'_>, number: u64) -> Option<Self> {
        let seed = grid.seed?;
        Some(Self { state: mixed(key(seed, grid.kernel) ^ mixed(number)) })
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.state)
    }

    /// Returns a number less than `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        // Scales the top 32 bits, which is even enough for an `end` of some thousands.
        (((self.next() >> 32) * end as u64) >> 32) as usize
    }

    /// Returns true in one case out of `cases`.
    pub fn one_in(&mut self, cases: usize) -> bool {
        self.below(cases) == 0
    }

    /// Shuffles in place (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            items.swap(end - 1, self.below(end));
        }
    }

    /// Returns random lanes of a warp: any, or 1 to 16 neighbours, like those that work together.
    pub fn lanes(&mut self) -> u32 {
        let bits = self.next();
        if self.one_in(2) {
            return bits as u32;
        }
        let width = 1 << self.below(5);
        let first = self.below(32) & !(width - 1);
        ((1u32 << width) - 1) << first
    }
}

/// The order of a grid's blocks: a permutation of the numbers below `len`, computed and not stored, since a grid has up to
/// 2^63 blocks. It is a Feistel network over the next even number of bits; a result beyond `len` goes through it again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    len: u64,
    half_bits: u32,
    key: u64,
}

impl Order {
    /// Creates the order of a launch's units of work; `None` in a launch without a seed.
    pub fn of(grid: &Grid<'_>, len: u64) -> Option<Self> {
        let seed = grid.seed?;
        Some(Self::new(len, key(seed, grid.kernel)))
    }

    fn new(len: u64, key: u64) -> Self {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        Self { len, half_bits: bits.div_ceil(2).max(1), key }
    }

    /// Returns the number at this position.
    pub fn at(&self, place: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let mut x = place;
        loop {
            for round in 0..4 {
                let (left, right) = (x >> self.half_bits, x & mask);
                x = right << self.half_bits | (left ^ mixed(self.key ^ right ^ (round << 40)) & mask);
            }
            if x < self.len {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_decimal_or_hexadecimal() {
        for (text, seed) in
            [("0", 0), ("42", 42), ("0x2a", 42), ("0XfF", 255), ("18446744073709551615", u64::MAX)]
        {
            assert_eq!(Seed::parse(text), Seed::Shuffled(seed), "{text}");
        }
        for text in ["", "x", "0x", "-1", " 7", "2a", "18446744073709551616", "1e3"] {
            assert_eq!(Seed::parse(text), Seed::Malformed(text.to_owned()));
            let message = Seed::parse(text).of_launch("saxpy").unwrap_err().to_string();
            assert!(message.contains("saxpy") && message.contains(&format!("`{text}`")), "{message}");
            assert!(message.contains(VARIABLE) && message.contains("0x"), "{message}");
        }
    }

    #[test]
    fn an_order_is_a_permutation_that_the_key_changes() {
        for len in [1, 2, 3, 4, 5, 31, 64, 65, 1000, 4097] {
            let order = |key| -> Vec<u64> {
                let order = Order::new(len, key);
                (0..len).map(|place| order.at(place)).collect()
            };
            let mut sorted = order(7);
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..len), "{len}");
            assert_eq!(order(7), order(7));
            if len >= 31 {
                assert_ne!(order(7), order(8));
                assert!(!order(7).into_iter().eq(0..len));
            }
        }
        let huge = Order::new(1 << 63, 1);
        assert!((0..100).all(|place| huge.at(place) < 1 << 63));
    }

    #[test]
    fn every_order_of_three_comes_about_as_often() {
        let mut random = Random { state: 1 };
        let mut counts = [[0; 3]; 3];
        for _ in 0..9000 {
            let mut items = [0, 1, 2];
            random.shuffle(&mut items);
            items.iter().enumerate().for_each(|(place, &item)| counts[place][item] += 1);
        }
        assert!(counts.as_flattened().iter().all(|count| (2800..3200).contains(count)), "{counts:?}");
    }

    #[test]
    fn lanes_are_often_those_of_a_tile() {
        let mut random = Random { state: 1 };
        let lanes: Vec<u32> = (0..1000).map(|_| random.lanes()).collect();
        for tile in [0x0000_ffff, 0xffff_0000, 0x0000_0f00, 0x8000_0000] {
            assert!(lanes.contains(&tile), "{tile:#010x}");
        }
    }
}
