//! What most kernels use: `use cuda_std::prelude::*;`.

pub use crate::thread;
pub use crate::{address_space, assert_eq, assert_ne, f16, kernel, shared_array};
