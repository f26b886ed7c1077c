//! The types with kernels, and the masks.

use attention_kernels::args::NO_WINDOW;
use attention_kernels::backward::BackwardKernels;
use attention_kernels::operation::AttentionKernels;
use bytemuck::Pod;
use cuda_std::tensor::TensorElement;

use super::AttentionError;

/// `f16` or `bf16`.
///
/// ```
/// use ferrowarp::attention::Real;
///
/// fn bytes<T: Real>(elements: usize) -> usize {
///     elements * size_of::<T>()
/// }
/// assert_eq!(bytes::<ferrowarp::f16>(8), 16);
/// ```
pub trait Real: Pod + AttentionKernels + BackwardKernels + TensorElement {}

impl<T: Pod + AttentionKernels + BackwardKernels + TensorElement> Real for T {}

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
    pub fn check(self) -> Result<(), AttentionError> {
        match (self.causal, self.window) {
            (_, Some(0)) => Err(AttentionError::EmptyWindow),
            (None, Some(keys)) => Err(AttentionError::WindowWithoutCausal { keys }),
            _ => Ok(()),
        }
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
