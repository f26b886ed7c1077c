//! The tests of the self-check, in one program: each file here is a module.

mod device_self_check;
#[path = "../../../cuda/cust/tests/support/mod.rs"]
mod driver;
mod faulty_gpu;
