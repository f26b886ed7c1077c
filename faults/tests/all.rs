//! The tests of the faults of a GPU, in one program: each file here is a module.

#[path = "../../cuda/cust/tests/support/mod.rs"]
mod driver;
mod fault_check;
mod ptx;
