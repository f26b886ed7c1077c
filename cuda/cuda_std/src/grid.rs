//! The grid as a whole: how its start is ordered with the end of the one before it.

mod dependent;

pub use dependent::{launch_dependents, wait_for_dependencies};
