//! The judge's verdicts about all answers, and what it needs of the puzzles' files.

mod answers;
