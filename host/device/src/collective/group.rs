//! Operations that are performed as one.

use std::marker::PhantomData;

use super::communicator::Communicator;
use super::error::CollectiveError;
use super::operation::{Element, Elements, Kind, Named, Operation, Reduction};
use crate::device::buffer::{BufferView, BufferViewMut};
use crate::device::handle::Device;
use crate::device::stream::Stream;

/// Operations that are performed as one: they do not wait for each other, so ranks can exchange elements, and small
/// operations cost less than one by one. [`Communicator::group`] begins a group.
///
/// ```
/// use ferrowarp::collective::Communicator;
/// use ferrowarp::device::Device;
///
/// let device = Device::cpu();
/// let communicator = Communicator::single(&device);
/// let (rank, size) = (communicator.rank(), communicator.size());
/// // Each rank sends to the next and receives from the one before.
/// let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
/// let own = device.upload(&[rank, 7])?;
/// let mut from_left = device.alloc_zeroed::<u32>(2)?;
/// communicator.group().send(&own, right).receive(&mut from_left, left).submit(&device.default_stream())?;
/// assert_eq!(from_left.to_vec()?, [left, 7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the operations are performed by `submit`"]
pub struct Group<'c, 'a> {
    pub(super) communicator: &'c Communicator,
    pub(super) operations: Vec<Operation>,
    /// Whether a buffer belongs to another device.
    pub(super) is_elsewhere: bool,
    pub(super) borrow: PhantomData<&'a mut ()>,
}

impl<'a> Group<'_, 'a> {
    fn add<T: Element>(mut self, device: &Device, kind: Kind, input: Elements, output: Elements) -> Self {
        self.is_elsewhere |= !device.is_in_order_with(self.communicator.device());
        self.operations.push(Operation::of::<T>(kind, input, output));
        self
    }

    /// Adds a [`Communicator::all_reduce`].
    pub fn all_reduce<T: Element>(
        self,
        buffer: impl Into<BufferViewMut<'a, T>>,
        reduction: Reduction,
    ) -> Self {
        let buffer = buffer.into();
        let elements = Elements::written(&buffer);
        self.add::<T>(buffer.device(), Kind::AllReduce(reduction), elements, elements)
    }

    /// Adds a [`Communicator::all_gather`].
    pub fn all_gather<T: Element>(
        self,
        input: impl Into<BufferView<'a, T>>,
        output: impl Into<BufferViewMut<'a, T>>,
    ) -> Self {
        self.two::<T>(Kind::AllGather, &input.into(), &output.into())
    }

    /// Adds a [`Communicator::reduce_scatter`].
    pub fn reduce_scatter<T: Element>(
        self,
        input: impl Into<BufferView<'a, T>>,
        output: impl Into<BufferViewMut<'a, T>>,
        reduction: Reduction,
    ) -> Self {
        self.two::<T>(Kind::ReduceScatter(reduction), &input.into(), &output.into())
    }

    fn two<T: Element>(
        mut self,
        kind: Kind,
        input: &BufferView<'a, T>,
        output: &BufferViewMut<'a, T>,
    ) -> Self {
        self.is_elsewhere |= !input.device().is_in_order_with(self.communicator.device());
        self.add::<T>(output.device(), kind, Elements::read(input), Elements::written(output))
    }

    /// Adds a [`Communicator::broadcast`].
    pub fn broadcast<T: Element>(self, buffer: impl Into<BufferViewMut<'a, T>>, root: u32) -> Self {
        let buffer = buffer.into();
        let elements = Elements::written(&buffer);
        self.add::<T>(buffer.device(), Kind::Broadcast { root }, elements, elements)
    }

    /// Adds a [`Communicator::send`].
    pub fn send<T: Element>(self, input: impl Into<BufferView<'a, T>>, to: u32) -> Self {
        let input = input.into();
        self.add::<T>(input.device(), Kind::Send { to }, Elements::read(&input), Elements::NONE)
    }

    /// Adds a [`Communicator::receive`].
    pub fn receive<T: Element>(self, output: impl Into<BufferViewMut<'a, T>>, from: u32) -> Self {
        let output = output.into();
        self.add::<T>(output.device(), Kind::Receive { from }, Elements::NONE, Elements::written(&output))
    }

    /// Performs the operations on a stream of the communicator's device.
    ///
    /// # Errors
    /// A length does not fit, a rank does not exist, or a buffer or the stream belongs to another device: nothing was begun.
    /// Or a rank is lost, an operation does not end within the time limit, NCCL or the device failed, or another stream may
    /// still use a buffer.
    pub fn submit(self, stream: &Stream) -> Result<(), CollectiveError> {
        let Self { communicator, operations, is_elsewhere, .. } = self;
        if is_elsewhere {
            return Err(CollectiveError::Refused {
                operation: Named(&operations).to_string(),
                rank: communicator.rank(),
                size: communicator.size(),
                reason: format!(
                    "a buffer is on another device than the communicator, {:?}; allocate it there",
                    communicator.device()
                ),
            });
        }
        if operations.is_empty() {
            return Ok(());
        }
        communicator.perform(stream, &operations)
    }
}
