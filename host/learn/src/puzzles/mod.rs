//! The puzzles: for each the problems with their oracle, and what is good.

mod first;

use crate::problem::Puzzle;

/// All puzzles, by number.
pub static PUZZLES: &[&[Puzzle]] = &[first::PUZZLES];

/// The puzzle of this number.
pub fn puzzle(number: u32) -> Option<&'static Puzzle> {
    PUZZLES.iter().copied().flatten().find(|puzzle| puzzle.number == number)
}
