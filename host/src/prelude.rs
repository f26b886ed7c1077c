//! What most programs use: `use ferrowarp::prelude::*`.

pub use cuda_std::kernel;
pub use cuda_std::launch::LaunchConfig;

pub use crate::attention::{Attention, Causal};
pub use crate::axis::{Cast, CumulativeSum, Fill, Reduce, Reduction, Transpose};
pub use crate::element::Element;
pub use crate::matmul::{Activation, Matmul};
pub use crate::norm::Norm;
pub use crate::softmax::{CrossEntropy, Sample, Softmax, TopK};
pub use ferrowarp_device::device::{Buffer, Device, Queue, Stream};
pub use ferrowarp_device::{Error, Shape, Tensor, TensorView, TensorViewMut, bf16, f16};
