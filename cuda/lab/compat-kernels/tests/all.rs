//! The tests of the kernels as upstream writes them, in one program: each file here is a module.

mod asserts;
mod barriers;
mod bulk;
mod common;
mod copies;
mod cpu;
mod heap;
mod params;
mod ptx;
mod sha;
mod tensor;
mod types;
mod upstream;
mod wide;
