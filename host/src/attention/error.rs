//! Why attention was not computed.

use cuda_std::launch::{LaunchError, Residence};

use crate::device::DeviceError;

/// Why attention was refused, or failed.
///
/// ```
/// use ferrowarp::attention::{AttentionError, Tensor};
/// use ferrowarp::bf16;
/// use ferrowarp::device::Device;
///
/// let buffer = Device::cpu().alloc_zeroed::<bf16>(5)?;
/// let error = Tensor::new(&buffer, [1, 3, 1, 2]).map(|_| ()).unwrap_err();
/// assert!(matches!(error, AttentionError::ViewTooShort { shape: [1, 3, 1, 2], len: 5, .. }));
/// # Ok::<(), AttentionError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttentionError {
    /// The view ends before the last row does.
    #[error(
        "a tensor of {shape:?} (batch, length, heads, head size) with strides {strides:?} does not fit a view of {len} \
         elements; pass a longer view or smaller strides"
    )]
    ViewTooShort {
        /// Batch, length, heads and head size.
        shape: [usize; 4],
        /// Elements from an entry of the batch, a position and a head to the next.
        strides: [usize; 3],
        /// Elements of the view.
        len: usize,
    },
    /// Rows of the output would overlap.
    #[error(
        "an output of {shape:?} (batch, length, heads, head size) cannot have strides {strides:?}, because rows would \
         overlap; make each stride at least the extent of the dimensions with smaller strides"
    )]
    RowsOverlap {
        /// Batch, length, heads and head size.
        shape: [usize; 4],
        /// Elements from an entry of the batch, a position and a head to the next.
        strides: [usize; 3],
    },
    /// The shapes are not those of one attention.
    #[error(
        "attention failed: the {what} has the shape {got:?} (batch, length, heads, head size), and must have {expected:?}"
    )]
    ShapesDiffer {
        /// What has the wrong shape.
        what: &'static str,
        /// Its batch, length, heads and head size.
        got: [usize; 4],
        /// The shape that it must have.
        expected: [usize; 4],
    },
    /// The heads of Q do not share those of K and V evenly.
    #[error(
        "attention with {heads} query heads and {key_heads} key heads failed: the query heads must be a multiple of the key \
         heads"
    )]
    HeadsDiffer {
        /// Heads of Q.
        heads: usize,
        /// Heads of K and V.
        key_heads: usize,
    },
    /// The factor of the logits.
    #[error("attention with a scale of {scale:e} failed: the scale must be greater than 0 and at most 2^64")]
    Scale {
        /// The factor.
        scale: f32,
    },
    /// The output of the log-sum-exp has another length.
    #[error(
        "attention with a log-sum-exp of {len} elements failed: it is [batch, heads, queries], so pass {expected} elements"
    )]
    LogSumExpLength {
        /// Elements of the view.
        len: usize,
        /// Elements that it must have.
        expected: usize,
    },
    /// An extent is larger than the kernels can count.
    #[error("attention with {what} = {value} failed: it is at most {most}; split the tensors")]
    TooLarge {
        /// Which extent.
        what: &'static str,
        /// The extent.
        value: usize,
        /// The largest one.
        most: usize,
    },
    /// No kernel of the device has the head size.
    #[error(
        "attention with a head size of {head_size} failed: this device has kernels for {supported}; pad the heads"
    )]
    HeadSize {
        /// Elements of a row.
        head_size: usize,
        /// What there are kernels for.
        supported: &'static str,
    },
    /// Tensor copies cannot read or write a tensor.
    #[error(
        "attention on a GPU failed: the {what} with strides {strides:?} has rows that do not start at multiples of 16 bytes, \
         or a stride of 0; copy it to a dense tensor"
    )]
    NotAligned {
        /// Which tensor.
        what: &'static str,
        /// Elements from an entry of the batch, a position and a head to the next.
        strides: [usize; 3],
    },
    /// The device has no kernel for it.
    #[error(
        "attention on a GPU of compute capability {}.{} failed: the kernels need 9.0; use an H100 or H200, or \
         `Device::cpu()`",
        capability / 10, capability % 10
    )]
    NoKernel {
        /// The capability, times ten.
        capability: u32,
    },
    /// A tensor lives in the memory of another device, or of the same device opened a second time.
    #[error(
        "attention on {device} failed: the {what} belongs to another `Device`, in the memory of {at}; allocate it on the same \
         device or a clone of it"
    )]
    WrongDevice {
        /// Which tensor.
        what: &'static str,
        /// Where it lives.
        at: Residence,
        /// Where the attention was to run.
        device: Residence,
    },
    /// The device failed, or refused the launch.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl From<LaunchError> for AttentionError {
    fn from(error: LaunchError) -> Self {
        AttentionError::Device(error.into())
    }
}

/// So that attention can be timed and recorded.
impl From<AttentionError> for DeviceError {
    fn from(error: AttentionError) -> Self {
        match error {
            AttentionError::Device(error) => error,
            other => DeviceError::Work(Box::new(other)),
        }
    }
}
