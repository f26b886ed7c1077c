//! Random programs: made, written, compared, and made smaller.

pub mod ast;
pub mod folder;
mod generate;
mod print;
mod random;
mod visit;

pub use generate::generate;
pub use print::{Source, source};
pub use random::Random;
