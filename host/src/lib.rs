//! Runs kernels written in Rust on a GPU or on the CPU: devices, buffers, typed launches, matrix multiplication, attention,
//! norms, fused softmax operations, and reductions along an axis.
//!
//! A kernel is launched the same way on either device:
//!
//! ```
//! use cuda_std::launch::LaunchConfig;
//! use cuda_std::{kernel, thread};
//! use ferrowarp::device::{Device, DeviceError};
//!
//! /// y = a * x + y.
//! ///
//! /// # Safety
//! /// `y` holds as many elements as `x`; at least as many threads are launched.
//! #[kernel]
//! pub unsafe fn saxpy(a: f32, x: &[f32], y: *mut f32) {
//!     let i = thread::index_1d() as usize;
//!     if i < x.len() {
//!         unsafe { *y.add(i) += a * x[i] };
//!     }
//! }
//!
//! let device = Device::cpu(); // On a GPU: Device::open()?
//! let x = device.upload(&[1.0f32, 2.0, 3.0])?;
//! let mut y = device.upload(&[10.0f32, 20.0, 30.0])?;
//! // SAFETY: `y` is as long as `x`, and 128 threads cover 3 elements.
//! unsafe { saxpy::launch(&device, LaunchConfig::cover(x.len(), 128), 2.0, &x, &mut y)? };
//! assert_eq!(y.to_vec()?, [12.0, 24.0, 36.0]);
//! # Ok::<(), DeviceError>(())
//! ```

pub use attention::Attention;
pub use axis::{Cast, CumulativeSum, Fill, Reduce, Reduction, Transpose};
pub use element::{Element, ElementAs};
#[doc(hidden)]
pub use ferrowarp_device::DeviceProfile;
pub use ferrowarp_device::{
    Error, Kind, Shape, Tensor, TensorView, TensorViewMut, bf16, bytemuck, device, embedded_ptx, f16,
};
pub use matmul::Matmul;
pub use norm::Norm;
pub use softmax::{CrossEntropy, Sample, Softmax, TopK};

pub mod attention;
pub mod axis;
#[cfg(feature = "collective")]
pub mod collective;
mod element;
pub mod matmul;
pub mod norm;
mod operation;
pub mod prelude;
mod recent;
pub mod softmax;

/// The PTX and machine code of the operations' kernels, if `build.rs` built some.
#[linkme::distributed_slice(device::BROUGHT)]
static KERNELS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/brought.rs"));
