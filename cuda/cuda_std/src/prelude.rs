//! The items that most kernels use: `use cuda_std::prelude::*;`.

pub use crate::thread;
pub use crate::{KernelArgs, address_space, assert_eq, assert_ne, f16, kernel, print, println, shared_array};
pub use alloc::borrow::ToOwned;
pub use alloc::boxed::Box;
pub use alloc::format;
pub use alloc::rc::Rc;
pub use alloc::string::{String, ToString};
pub use alloc::vec::Vec;
