//! The developer commands that a build of the kernels needs, apart from the others: who builds the kernels waits for
//! these to be compiled and for nothing else.

pub mod build_ptx;
mod checks;
mod progress;
pub mod ptx;
mod report;
pub mod workspace;
