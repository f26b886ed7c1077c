//! An MLP on MNIST: the network, its training, its checkpoints.

pub mod checkpoint;
mod console;
pub mod model;
pub mod train;

pub use console::Console;
