//! Drives Ferrowarp's kernels: devices, typed launches, MNIST data, the network, training, checkpoints.

mod atomic_file;

pub mod device;
pub mod data;
pub mod model;
pub mod reference;
pub mod train;
pub mod checkpoint;
pub mod report;
