//! The share of the cases that a run checks.

use std::collections::HashMap;
use std::hash::Hash;
use std::str::FromStr;

use crate::case::Case;

/// The share of the cases that a run checks: for tests `FERROWARP_CASES` in the environment, `small` by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// One case of each kernel, of the problems by turns: the smallest, largest and odd sizes of a table are all run, each by
    /// some kernels.
    Small,
    /// Part `part` of `parts`, counted from 0. `all` is part 0 of 1.
    Part {
        /// The part.
        part: usize,
        /// The number of parts.
        parts: usize,
    },
}

impl Share {
    /// All cases.
    pub const ALL: Self = Self::Part { part: 0, parts: 1 };

    /// The share that tests check.
    ///
    /// # Panics
    /// `FERROWARP_CASES` is none.
    #[track_caller]
    pub fn of_tests() -> Self {
        let text = std::env::var("FERROWARP_CASES").unwrap_or_else(|_| "small".to_owned());
        text.parse().unwrap_or_else(|error| panic!("FERROWARP_CASES={text}: {error}"))
    }

    /// The cases to run, as sorted indices. With at most one case for each part, all.
    pub fn of<'a>(self, cases: impl ExactSizeIterator<Item = &'a Case>) -> Vec<usize> {
        match self {
            Self::Small => one_of_each(cases.map(|case| case.kernels().collect::<Vec<_>>())),
            Self::Part { parts, .. } if cases.len() <= parts => (0..cases.len()).collect(),
            Self::Part { part, parts } => {
                (0..cases.len()).filter(|&i| part_of(i as u32, parts) == part).collect()
            }
        }
    }

    /// The number of random problems to run instead of `count`.
    pub fn count(self, count: u32) -> u32 {
        if self == Self::Small { count.div_ceil(10) } else { count }
    }

    /// Whether the kernels are also compiled for the oldest architecture, for which there are cases of their own.
    pub fn has_oldest(self) -> bool {
        self != Self::Small
    }

    /// Whether the kernels are also compiled with LLVM, and for every architecture. This takes minutes, so only part 0 does.
    pub fn compiles_all(self) -> bool {
        matches!(self, Self::Part { part: 0, .. })
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let part = |(part, parts): (&str, &str)| {
            let (part, parts) = (part.parse().ok()?, parts.parse().ok()?);
            (part < parts).then_some(Self::Part { part, parts })
        };
        match text {
            "small" => Ok(Self::Small),
            "all" => Ok(Self::ALL),
            _ => text
                .split_once('/')
                .and_then(part)
                .ok_or_else(|| "expected `small`, `all`, or K/N with K below N, like 0/4".to_owned()),
        }
    }
}

/// One index of each key: of the first key the first, of the second the second, and so on, in a circle.
fn one_of_each<K: Hash + Eq>(keys: impl Iterator<Item = K>) -> Vec<usize> {
    let (mut groups, mut of_key) = (Vec::<Vec<usize>>::new(), HashMap::new());
    for (i, key) in keys.enumerate() {
        let group = *of_key.entry(key).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(i);
    }
    let mut chosen: Vec<usize> = groups.iter().enumerate().map(|(i, group)| group[i % group.len()]).collect();
    chosen.sort_unstable();
    chosen
}

/// The part of a list's case. It is hashed, because kernels alternate: every `parts`th case could be of the same one.
fn part_of(case: u32, parts: usize) -> usize {
    (case.wrapping_mul(0x9e37_79b9) >> 16) as usize % parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_of_one_part() {
        for parts in 1..9 {
            let of = |case: u32| (0..parts).filter(|&part| part_of(case, parts) == part).count();
            assert!((0..1000).all(|case| of(case) == 1));
            let len = |part: usize| (0..1000).filter(|&case| part_of(case, parts) == part).count();
            assert!(
                (0..parts).all(|part| len(part).abs_diff(1000 / parts) < 40),
                "{parts} parts differ in length"
            );
        }
    }

    #[test]
    fn the_small_share_has_each_kernel_once_and_all_problems() {
        // Three problems of four kernels.
        assert_eq!(one_of_each("abcdabcdabcd".chars()), [0, 3, 5, 10]);
        assert_eq!(one_of_each("aaab".chars()), [0, 3]);
    }

    #[test]
    fn a_share_is_a_word_or_a_fraction() {
        let of = |text: &str| text.parse::<Share>();
        assert_eq!(of("3/4"), Ok(Share::Part { part: 3, parts: 4 }));
        assert_eq!([of("all"), of("small")], [Ok(Share::ALL), Ok(Share::Small)]);
        for text in ["4/4", "4", "a/4", "-1/4", "1/", ""] {
            assert!(of(text).unwrap_err().contains("K/N with K below N"), "{text}");
        }
    }
}
