//! The types with kernels, and the masks.

use attention_kernels::args::NO_WINDOW;
use attention_kernels::backward::BackwardKernels;
use attention_kernels::operation::AttentionKernels;
use cuda_std::half::{bf16, f16};
use ferrowarp_device::error::Error;

use crate::element::Element;
use crate::operation::Operation;

/// The operation in errors.
pub(super) const NAME: &str = "attention";

/// The element type of attention: `f16` or `bf16`.
///
/// ```
/// use ferrowarp::attention::{Attention, Causal, Element16};
/// use ferrowarp::{Error, Tensor};
///
/// fn attend<T: Element16>(x: &Tensor<T>) -> Result<Tensor<T>, Error> {
///     Attention::new().causal(Causal::TopLeft).run(x.device(), x, x, x)
/// }
/// # let zeros = Tensor::<ferrowarp::f16>::zeros(&ferrowarp::device::Device::cpu(), [1, 2, 3, 8])?;
/// # assert_eq!(attend(&zeros)?.shape(), zeros.shape());
/// # Ok::<(), Error>(())
/// ```
pub trait Element16: Element + AttentionKernels + BackwardKernels {}

impl Element16 for f16 {}
impl Element16 for bf16 {}

/// Which keys a query sees under a causal mask. The two differ if the numbers of keys and queries differ.
///
/// ```
/// use ferrowarp::attention::Causal;
///
/// // The first of 2 queries sees 1 of 5 keys, or 4 of them.
/// assert_eq!(Causal::TopLeft.visible(0, 2, 5), 1);
/// assert_eq!(Causal::BottomRight.visible(0, 2, 5), 4);
/// // With 5 queries and 2 keys, the first one sees none.
/// assert_eq!(Causal::BottomRight.visible(0, 5, 2), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Causal {
    /// Query `i` sees the keys up to `i`: PyTorch's `is_causal` and `causal_upper_left`.
    TopLeft,
    /// The last query sees all keys, and each earlier query one key less: PyTorch's `causal_lower_right`, for queries that
    /// continue a sequence.
    BottomRight,
}

impl Causal {
    /// The number of keys that a query sees, given `queries` queries and `keys` keys. It sees the first ones.
    ///
    /// ```
    /// assert_eq!(ferrowarp::attention::Causal::TopLeft.visible(7, 10, 5), 5);
    /// ```
    pub fn visible(self, query: usize, queries: usize, keys: usize) -> usize {
        let seen = match self {
            Causal::TopLeft => query.saturating_add(1),
            Causal::BottomRight => query.saturating_add(1).saturating_add(keys).saturating_sub(queries),
        };
        seen.min(keys)
    }
}

/// The mask that hides keys from queries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mask {
    pub causal: Option<Causal>,
    /// The sliding window: a query sees at most this many keys, the last ones.
    pub window: Option<usize>,
}

impl Mask {
    /// Checks that a sliding window has keys, and a causal mask to slide along.
    pub fn check(self, operation: Operation<'_>) -> Result<(), Error> {
        let needs = match (self.causal, self.window) {
            (_, Some(0)) => "a query sees at least itself, so pass 1 or more",
            (None, Some(_)) => "it needs a causal mask, so call `causal` too",
            _ => return Ok(()),
        };
        let option = format!("a sliding window of {} keys", self.window.unwrap_or(0));
        Err(operation.refuse_option(option, needs))
    }

    /// The mask's diagonal for kernels: query `i` sees no key after `i + diagonal`.
    pub fn diagonal(self, queries: u32, keys: u32) -> i32 {
        match self.causal {
            None => keys as i32,
            Some(Causal::TopLeft) => 0,
            Some(Causal::BottomRight) => keys as i32 - queries as i32,
        }
    }

    /// The sliding window for kernels.
    pub fn window(self) -> i32 {
        self.window.map_or(NO_WINDOW, |keys| keys.min(NO_WINDOW as usize) as i32)
    }
}
