//! The same Rust, natively on the host and as PTX, compared bit for bit.
//!
//! A compiler that is wrong without a word is found by running what it made beside what another compiler made of the
//! same source. Here that source is crates of the registry, and programs that a generator of our own makes; the other
//! compiler is the host's. PTX runs on the emulator, which also tells results that are right by luck, and on a GPU.

pub mod cases;
pub mod compile;
pub mod crates;
pub mod difference;
pub mod emulate;
pub mod gpu;
pub mod planted;
pub mod programs;
pub mod report;

#[path = "../crates/src/record.rs"]
mod record;
