//! The tests of the trainer, in one program: each file and folder here is a module.

mod bad_data;
mod bad_gpu;
mod bad_settings;
mod checkpoints;
mod common;
#[path = "../../../cuda/cust/tests/support/mod.rs"]
mod driver;
mod faulty_gpu;
mod fetching;
mod fuzz;
mod goals;
mod gradients;
mod ladder;
mod precision;
mod profile;
mod resident;
mod settings;
mod survival;
mod training;
mod work;
