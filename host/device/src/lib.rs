//! The core of `ferrowarp`, which re-exports it: devices, buffers, tensors, streams and typed launches, without its operations.

/// The crate of `Pod`, which elements of buffers need.
pub use bytemuck;
pub use cuda_std::half::{bf16, f16};
#[doc(hidden)]
pub use device_profile::DeviceProfile;
pub use error::{Error, Kind};
pub use tensor::{Shape, Tensor, TensorView, TensorViewMut};

mod arguments;
#[cfg(feature = "collective")]
pub mod collective;
pub mod device;
mod device_profile;
pub mod error;
pub mod tensor;
