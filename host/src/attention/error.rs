//! Errors of attention.

use cuda_std::launch::Residence;

use crate::device::DeviceError;

/// Why attention was refused or failed.
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
        /// Elements from one batch entry, position and head to the next.
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
        /// Elements from one batch entry, position and head to the next.
        strides: [usize; 3],
    },
    /// The shapes do not match.
    #[error(
        "attention failed: the {what} has the shape {got:?} (batch, length, heads, head size), and must have {expected:?}"
    )]
    ShapesDiffer {
        /// The tensor with the wrong shape.
        what: &'static str,
        /// Its batch, length, heads and head size.
        got: [usize; 4],
        /// The shape that it must have.
        expected: [usize; 4],
    },
    /// The heads of Q are not a multiple of the heads of K and V.
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
    /// The factor of the logits is out of range.
    #[error("attention with a scale of {scale:e} failed: the scale must be greater than 0 and at most 2^64")]
    Scale {
        /// The factor.
        scale: f32,
    },
    /// A sliding window has no keys.
    #[error(
        "attention with a sliding window of 0 keys failed: a query sees at least itself, so pass 1 or more"
    )]
    EmptyWindow,
    /// A sliding window has no causal mask to slide along.
    #[error(
        "attention with a sliding window of {keys} keys failed: it needs a causal mask, so call `causal` too"
    )]
    WindowWithoutCausal {
        /// Keys of the window.
        keys: usize,
    },
    /// The log-sum-exp output has the wrong length.
    #[error(
        "attention with a log-sum-exp of {len} elements failed: it is [batch, heads, queries], so pass {expected} elements"
    )]
    LogSumExpLength {
        /// Elements of the view.
        len: usize,
        /// Elements that it must have.
        expected: usize,
    },
    /// The page table does not have the same number of pages for each batch entry.
    #[error(
        "attention with a page table of {len} pages failed: it is [batch, pages], so its length must be a multiple of the batch \
         of {batch}"
    )]
    PageTableLength {
        /// Elements of the page table.
        len: usize,
        /// Entries of the batch.
        batch: usize,
    },
    /// The pages have a size that the kernels cannot read.
    #[error(
        "attention with pages of {size} positions failed: the page size must be a multiple of {multiple}"
    )]
    PageSize {
        /// Positions of a page: the length of K.
        size: usize,
        /// The number that it must be a multiple of.
        multiple: usize,
    },
    /// The number of lengths is not the batch size.
    #[error("attention with {len} lengths failed: it needs one for each batch entry, so pass {batch}")]
    LengthsLength {
        /// Elements of the lengths.
        len: usize,
        /// Entries of the batch.
        batch: usize,
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
    /// There is no kernel for the head size.
    #[error("attention with a head size of {head_size} failed: the head size must be 1 to {most}")]
    HeadSize {
        /// Elements of a row.
        head_size: usize,
        /// The largest head size with a kernel.
        most: u32,
    },
    /// Tensor copies cannot write rows of this head size.
    #[error(
        "gradients of attention with a head size of {head_size} failed: the head size must be a multiple of {multiple}; append \
         zeros to the rows"
    )]
    HeadSizeMultiple {
        /// Elements of a row.
        head_size: usize,
        /// The number that it must be a multiple of.
        multiple: u32,
    },
    /// Tensor copies cannot read or write a tensor.
    #[error(
        "attention by tensor copies failed: the {what} with strides {strides:?} has rows that do not start at multiples of 16 bytes, \
         or a stride of 0; copy it to a dense tensor"
    )]
    NotAligned {
        /// Which tensor.
        what: &'static str,
        /// Elements from one batch entry, position and head to the next.
        strides: [usize; 3],
    },
    /// A rung of the ladder needs tensors without gaps.
    #[error(
        "attention by a rung of the ladder failed: the {what} has strides {strides:?}, and must be dense, in the order batch, length, \
         heads, head size; copy it to a dense tensor"
    )]
    NotDense {
        /// Which tensor.
        what: &'static str,
        /// Elements from one batch entry, position and head to the next.
        strides: [usize; 3],
    },
    /// A rung of the ladder needs whole tiles.
    #[error(
        "attention by a rung of the ladder with {value} {what} failed: the {what} must be a multiple of {multiple}, and not 0; \
         `Attention` takes any number"
    )]
    NotMultiple {
        /// Queries or keys.
        what: &'static str,
        /// The number of them.
        value: usize,
        /// The number of them in a tile.
        multiple: u32,
    },
    /// The device has no kernel for this attention.
    #[error(
        "attention on a GPU of compute capability {}.{} failed: the kernels need {needs}; use such a GPU, or \
         `Device::cpu()`",
        capability / 10, capability % 10
    )]
    NoKernel {
        /// The capability, times ten.
        capability: u32,
        /// The capabilities with a kernel.
        needs: &'static str,
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
        /// The device of the attention.
        device: Residence,
    },
    /// The device failed, or refused the launch.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

crate::operation::carries_device_errors! { AttentionError }
