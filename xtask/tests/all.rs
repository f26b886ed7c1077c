//! The tests of the developer commands, in one program: each file here is a module.

mod gallery;
mod new;
