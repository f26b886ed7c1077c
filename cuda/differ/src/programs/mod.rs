//! Random programs: made, written, compared, and made smaller.

pub mod ast;
pub mod edit;
pub mod folder;
mod generate;
pub mod hunt;
pub mod judge;
mod print;
mod random;
pub mod shrink;
mod visit;

pub use generate::generate;
pub use print::{Source, source};
pub use random::Random;
