//! The tests of the trainer, in one program: each file and folder here is a module.

mod checkpoints;
mod common;
#[path = "../../../cuda/cust/tests/support/mod.rs"]
mod driver;
mod fetching;
mod fuzz;
mod goals;
mod gpu;
mod gradients;
mod ladder;
mod precision;
mod profile;
mod refusals;
mod resident;
mod settings;
mod survival;
mod training;
mod work;
