//! The puzzles: for each the problems with their oracle, and what is good.

mod first;
mod matrices;
mod shared;

use crate::problem::Puzzle;

/// All puzzles, by number.
pub static PUZZLES: &[&[Puzzle]] = &[first::PUZZLES, shared::PUZZLES, matrices::PUZZLES];

/// The puzzle of this number.
pub fn puzzle(number: u32) -> Option<&'static Puzzle> {
    PUZZLES.iter().copied().flatten().find(|puzzle| puzzle.number == number)
}
