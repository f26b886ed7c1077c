//! Matrices for operations on rows, and their errors: for softmax, norms and sums along an axis.

mod error;
mod matrix;

pub use error::SoftmaxError;
pub(crate) use matrix::starts_aligned;
pub use matrix::{Matrix, MatrixMut};
pub(crate) use matrix::{is_aligned, written};
