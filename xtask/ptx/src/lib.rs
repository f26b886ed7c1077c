//! The developer commands that building the kernels needs. They are separate from the others, so that a build of the kernels
//! only waits for these to compile.

pub mod build_ptx;
mod checks;
pub mod occupancy;
mod progress;
pub mod ptx;
pub mod report;
pub mod workspace;
