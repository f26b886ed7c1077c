//! Compares the same Rust code, natively on the host and as PTX, bit for bit.
//!
//! This finds miscompilations: two compilers compile the same source, and the programs' outputs are compared. The sources
//! are registry crates, and programs of our own generator. The other compiler is the host's. PTX runs on the emulator, which
//! also reports results that are right by luck, and on a GPU.

pub mod cases;
pub mod compile;
pub mod crates;
pub mod difference;
pub mod emulate;
pub mod gpu;
pub mod planted;
pub mod programs;
pub mod report;

#[path = "../crates/src/place.rs"]
mod place;
#[path = "../crates/src/record.rs"]
mod record;
