//! What a test holds of its buffers.

use core::marker::PhantomData;

/// An input of a test, of elements `T`.
#[derive(Debug)]
pub struct Input<T> {
    pub(super) buffer: usize,
    pub(super) elements: PhantomData<T>,
}

/// An output of a test, of elements `T`.
#[derive(Debug)]
pub struct Output<T> {
    pub(super) buffer: usize,
    pub(super) elements: PhantomData<T>,
}

// By hand, since a handle can be copied whatever its elements are.
impl<T> Clone for Input<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Input<T> {}
impl<T> Clone for Output<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Output<T> {}
