//! Checks of the code: tools, house rules, and comparisons with external code.

pub mod check;
pub mod links;
mod phrases;
pub mod planted;
mod prose;
mod quotes;
pub mod sanitize;
pub mod tidy;
