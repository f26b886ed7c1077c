//! Matrices for operations on rows, and their errors: for softmax, norms and sums along an axis.

mod error;
mod matrix;

pub use error::SoftmaxError;
pub use matrix::{Matrix, MatrixMut};
