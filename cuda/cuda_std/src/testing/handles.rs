//! A test's handles of its buffers.

use core::marker::PhantomData;

/// An input of a test, with elements of type `T`.
#[derive(Debug)]
pub struct Input<T> {
    pub(super) buffer: usize,
    pub(super) elements: PhantomData<T>,
}

/// An output of a test, with elements of type `T`.
#[derive(Debug)]
pub struct Output<T> {
    pub(super) buffer: usize,
    pub(super) elements: PhantomData<T>,
}

// Not derived, since a handle can be copied whatever its element type.
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
