//! Values that are computed on first use.
//!
//! A list of cases has hundreds of problems, and Miri runs only a few of them. Computing the others would take a minute.

use std::ops::Deref;
use std::sync::{Arc, LazyLock};

type Compute<T> = Box<dyn FnOnce() -> Arc<T> + Send>;

/// A value that several cases share, computed when the first of them needs it.
pub(crate) struct Later<T>(Arc<LazyLock<Arc<T>, Compute<T>>>);

impl<T: 'static> Later<T> {
    pub(crate) fn new(compute: impl FnOnce() -> T + Send + 'static) -> Self {
        Self::from_compute(Box::new(move || Arc::new(compute())))
    }

    fn from_compute(compute: Compute<T>) -> Self {
        Self(Arc::new(LazyLock::new(compute)))
    }
}

/// Creates another handle.
impl<T> From<&Later<T>> for Later<T> {
    fn from(value: &Self) -> Self {
        value.clone()
    }
}

/// Creates it from an existing value.
impl<T: Send + Sync + 'static> From<Arc<T>> for Later<T> {
    fn from(value: Arc<T>) -> Self {
        Self::from_compute(Box::new(move || value))
    }
}

impl<T: Send + Sync + 'static> From<&Arc<T>> for Later<T> {
    fn from(value: &Arc<T>) -> Self {
        Arc::clone(value).into()
    }
}

// Implemented manually, because a value need not be `Clone`.
impl<T> Clone for Later<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Later<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_value_is_computed_once_and_only_if_it_is_used() {
        static COMPUTED: AtomicU32 = AtomicU32::new(0);
        let value = Later::new(|| COMPUTED.fetch_add(1, Ordering::Relaxed) + 7);
        let other = value.clone();
        assert_eq!(COMPUTED.load(Ordering::Relaxed), 0);
        assert_eq!((*value, *other), (7, 7));
        assert_eq!(COMPUTED.load(Ordering::Relaxed), 1);
        assert_eq!(*Later::from(Arc::new(3)), 3);
    }
}
