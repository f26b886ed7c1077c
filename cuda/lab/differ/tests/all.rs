//! The tests of the comparison of compilers, in one program: each file here is a module.

mod arithmetic;
mod core;
mod sha2;
mod small;
mod ulp;
