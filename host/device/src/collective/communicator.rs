//! A rank's part of a world.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cust::nccl::{self, ncclResult_t, ncclUniqueId};

use super::error::CollectiveError;
use super::group::Group;
use super::handle::Handle;
use super::link::{Link, Trouble};
use super::operation::{Element, Named, Operation, Reduction, copies_of};
use super::rendezvous::{Meeting, meet};
use super::watch::{Failure, Watch};
use super::world::World;
use crate::device::allocations::Needed;
use crate::device::buffer::{BufferView, BufferViewMut};
use crate::device::error::DeviceError;
use crate::device::handle::Device;
use crate::device::stream::Stream;
use crate::device::stream::foreign::{Queue, Queued};

/// The name of this operation in errors.
const CREATION: &str = "creating a communicator";

/// The pause between two polls.
const PAUSE: Duration = Duration::from_micros(500);

/// One rank's part of a world: it performs operations with the other ranks, on buffers of its device.
///
/// All ranks call the same operations in the same order, with equal lengths. An operation is queued like a launch: it
/// refuses buffers that another stream uses, and on a GPU it returns before its work has ended. In a
/// [recording](Device::record) it becomes part of the graph. Perform each operation once before it is recorded: NCCL
/// connects the ranks at the first one.
///
/// If a rank ends, fails or hangs, the operations of all others end within the [time limit](World::with_time_limit), and
/// every later call returns [`CollectiveError::Lost`] with the rank. The contents of buffers are then undefined, so a result
/// is valid only if [`Communicator::synchronize`] or [`Communicator::check`] has returned `Ok` after it.
///
/// ```
/// use ferrowarp::collective::{CollectiveError, Communicator, Reduction, World};
/// use ferrowarp::device::Device;
///
/// fn sum_over_all(communicator: &Communicator) -> Result<Vec<f32>, CollectiveError> {
///     let (device, stream) = (communicator.device(), communicator.device().default_stream());
///     let mut sums = device.upload(&[1.0f32, 2.0]).map_err(|error| communicator.device_error("a copy", error))?;
///     communicator.all_reduce(&stream, &mut sums, Reduction::Sum)?;
///     communicator.synchronize(&stream)?;
///     sums.to_vec().map_err(|error| communicator.device_error("a copy", error))
/// }
///
/// // On GPUs: Device::cuda(world.local_rank())?
/// let world = World::from_environment()?;
/// let communicator = Communicator::connect(&world, &Device::cpu())?;
/// let ranks = world.size() as f32;
/// assert_eq!(sum_over_all(&communicator)?, [ranks, 2.0 * ranks]);
/// # Ok::<(), CollectiveError>(())
/// ```
pub struct Communicator {
    device: Device,
    rank: u32,
    size: u32,
    limit: Duration,
    /// `None` in a world of one.
    link: Option<Link>,
}

impl Communicator {
    /// Creates a communicator for a world of one. It needs no NCCL: an all-reduce does nothing, other operations copy.
    ///
    /// ```
    /// use ferrowarp::collective::{Communicator, Reduction};
    /// use ferrowarp::device::Device;
    ///
    /// let device = Device::cpu();
    /// let communicator = Communicator::single(&device);
    /// let mut sums = device.upload(&[1u32, 2])?;
    /// communicator.all_reduce(&device.default_stream(), &mut sums, Reduction::Sum)?;
    /// assert_eq!(sums.to_vec()?, [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn single(device: &Device) -> Communicator {
        let world = World::single();
        Communicator { device: device.clone(), rank: 0, size: 1, limit: world.time_limit(), link: None }
    }

    /// Connects this rank to the others and creates NCCL's communicator. Waits for all ranks. A world of one gives
    /// [`Communicator::single`].
    ///
    /// # Errors
    /// NCCL is missing or older than 2.18; the device is the CPU; a rank, which the error names, is missing after the
    /// [limit](World::with_join_limit); NCCL fails.
    pub fn connect(world: &World, device: &Device) -> Result<Communicator, CollectiveError> {
        let (rank, size, limit) = (world.rank(), world.size(), world.time_limit());
        if size == 1 {
            return Ok(Communicator { limit, ..Self::single(device) });
        }
        let nccl = nccl::load()?;
        if !device.is_cuda() && !nccl.takes_host_memory() {
            return Err(CollectiveError::NotOnCpu { rank, size });
        }
        let on_device = |source| CollectiveError::Device {
            operation: CREATION.to_owned(),
            rank,
            size,
            source: Box::new(source),
        };
        device.make_current().map_err(on_device)?;
        let handle = Arc::new(Handle::new(nccl));
        let failed = |status| {
            let (operation, status) = (CREATION.to_owned(), handle.describe(status));
            CollectiveError::Nccl { operation, rank, size, status }
        };
        let mut name = ncclUniqueId { internal: [0; 128] };
        if rank == 0 {
            // SAFETY: the out parameter is valid.
            let status = unsafe { nccl.ncclGetUniqueId(&mut name) };
            if status != ncclResult_t::SUCCESS {
                return Err(failed(status));
            }
        }
        let Meeting { peers, name } = meet(world, name.internal)?;
        let to_abort = Arc::clone(&handle);
        let watch = Watch::start(rank, limit, peers, move || to_abort.abort()).map_err(|error| {
            let reason = format!("starting the thread that watches the other ranks failed: {error}");
            CollectiveError::Refused { operation: CREATION.to_owned(), rank, size, reason }
        })?;
        let link = Link { handle: Arc::clone(&handle), limit, watch };
        let communicator = Communicator { device: device.clone(), rank, size, limit, link: Some(link) };
        let status = handle.create(size, ncclUniqueId { internal: name }, rank);
        if let Some(link) = &communicator.link {
            link.settle(status, world.join_limit())
                .map_err(|trouble| communicator.error(CREATION, trouble))?;
        }
        Ok(communicator)
    }

    /// This rank's number.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// This rank's device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Wraps a device's error as the error of an operation on this rank.
    pub fn device_error(&self, operation: &str, source: DeviceError) -> CollectiveError {
        let (operation, rank, size) = (operation.to_owned(), self.rank, self.size);
        CollectiveError::Device { operation, rank, size, source: Box::new(source) }
    }

    /// Combines the elements of all ranks and gives each rank the result.
    ///
    /// # Errors
    /// Same as for [`Group::submit`].
    pub fn all_reduce<'a, T: Element>(
        &self,
        stream: &Stream,
        buffer: impl Into<BufferViewMut<'a, T>>,
        reduction: Reduction,
    ) -> Result<(), CollectiveError> {
        self.group().all_reduce(buffer, reduction).submit(stream)
    }

    /// Gives each rank the elements of all ranks, in rank order. `output` has `size` times the elements of `input`.
    ///
    /// # Errors
    /// Same as for [`Group::submit`].
    pub fn all_gather<'a, T: Element>(
        &self,
        stream: &Stream,
        input: impl Into<BufferView<'a, T>>,
        output: impl Into<BufferViewMut<'a, T>>,
    ) -> Result<(), CollectiveError> {
        self.group().all_gather(input, output).submit(stream)
    }

    /// Combines the elements of all ranks and gives each rank its part of the result, in rank order. `input` has `size`
    /// times the elements of `output`.
    ///
    /// # Errors
    /// Same as for [`Group::submit`].
    pub fn reduce_scatter<'a, T: Element>(
        &self,
        stream: &Stream,
        input: impl Into<BufferView<'a, T>>,
        output: impl Into<BufferViewMut<'a, T>>,
        reduction: Reduction,
    ) -> Result<(), CollectiveError> {
        self.group().reduce_scatter(input, output, reduction).submit(stream)
    }

    /// Gives each rank the elements of `root`.
    ///
    /// # Errors
    /// Same as for [`Group::submit`].
    pub fn broadcast<'a, T: Element>(
        &self,
        stream: &Stream,
        buffer: impl Into<BufferViewMut<'a, T>>,
        root: u32,
    ) -> Result<(), CollectiveError> {
        self.group().broadcast(buffer, root).submit(stream)
    }

    /// Sends elements to a rank, which must receive as many. Two ranks that send to each other need a [group](Self::group).
    ///
    /// # Errors
    /// Same as for [`Group::submit`].
    pub fn send<'a, T: Element>(
        &self,
        stream: &Stream,
        input: impl Into<BufferView<'a, T>>,
        to: u32,
    ) -> Result<(), CollectiveError> {
        self.group().send(input, to).submit(stream)
    }

    /// Receives elements from a rank, which must send as many.
    ///
    /// # Errors
    /// Same as for [`Group::submit`].
    pub fn receive<'a, T: Element>(
        &self,
        stream: &Stream,
        output: impl Into<BufferViewMut<'a, T>>,
        from: u32,
    ) -> Result<(), CollectiveError> {
        self.group().receive(output, from).submit(stream)
    }

    /// Begins a [`Group`] of operations that are performed as one.
    pub fn group<'a>(&self) -> Group<'_, 'a> {
        Group { communicator: self, operations: Vec::new(), is_elsewhere: false, borrow: PhantomData }
    }

    /// Waits for the stream's work and reports whether its operations succeeded.
    ///
    /// [`Device::synchronize`] and copies to the host wait too, but return `Ok` even if operations were aborted.
    ///
    /// # Errors
    /// A rank is lost, an operation does not end within the time limit, or the device failed.
    pub fn synchronize(&self, stream: &Stream) -> Result<(), CollectiveError> {
        const OPERATION: &str = "synchronising with the other ranks";
        let on_device = |error| self.device_error(OPERATION, error);
        let Some(link) = self.link.as_ref().filter(|_| self.device.is_cuda()) else {
            stream.synchronize().map_err(on_device)?;
            return self.check();
        };
        let end = stream.record().map_err(on_device)?;
        // This applies the limit to the work of graphs, too.
        link.watch.shared().queued(stream.record().map_err(on_device)?);
        while !end.is_complete().map_err(on_device)? {
            self.check()?;
            thread::sleep(PAUSE);
        }
        self.check()
    }

    /// Reports whether the communicator still works: no rank is lost, and NCCL has found no error. Does not wait.
    ///
    /// # Errors
    /// A rank is lost, an operation did not end within the time limit, or NCCL failed.
    pub fn check(&self) -> Result<(), CollectiveError> {
        let Some(link) = &self.link else { return Ok(()) };
        let trouble = match (link.watch.shared().failure(), link.handle.state()) {
            (Some(failure), _) => Trouble::Failure(failure),
            (None, None | Some(ncclResult_t::SUCCESS | ncclResult_t::IN_PROGRESS)) => return Ok(()),
            (None, Some(status)) => link.blame(status),
        };
        Err(self.error("checking the communicator", trouble))
    }

    /// Ends the communicator after an error in the caller: operations of the other ranks fail at once and name this rank.
    /// Dropping it instead means that all ranks are done, and waits for their operations.
    pub fn abort(self) {
        if let Some(link) = &self.link {
            link.watch.shared().fail_here();
        }
    }

    /// Checks the operations' lengths and performs them.
    pub(super) fn perform(&self, stream: &Stream, operations: &[Operation]) -> Result<(), CollectiveError> {
        let named = Named(operations);
        let refused = |reason| CollectiveError::Refused {
            operation: named.to_string(),
            rank: self.rank,
            size: self.size,
            reason,
        };
        if let Some(reason) = operations.iter().find_map(|operation| operation.problem(self.size)) {
            return Err(refused(reason));
        }
        if !self.device.is_in_order_with(stream.device()) {
            return Err(refused("the stream is another device's; open it on the communicator's".to_owned()));
        }
        let accesses = operations.iter().flat_map(Operation::accesses);
        let Some(link) = &self.link else {
            let copies = copies_of(operations).map_err(refused)?;
            let copied = stream.queue_foreign(named.name(), accesses, None, |queue| {
                copies.iter().try_for_each(|copy| {
                    // SAFETY: input and output are borrowed from different buffers and have this many bytes, and later work
                    // on the stream runs after the copy.
                    unsafe { stream.copy_foreign(&queue, copy.to, copy.from, copy.bytes) }
                })
            });
            return copied.map(drop).map_err(|error| self.device_error(&named.to_string(), error));
        };
        let needed: Arc<dyn Needed> = link.handle.clone();
        let queued = stream.queue_foreign(named.name(), accesses, Some(needed), |queue| {
            let raw = match queue {
                Queue::Cuda(raw) => raw,
                Queue::Host => ptr::null_mut(),
            };
            if let Some(failure) = link.watch.shared().failure() {
                return Err(Trouble::Failure(failure));
            }
            // SAFETY: the operations' memory is the device's, borrowed, and of checked lengths; later work on the stream
            // runs after the operations, and on the CPU they end in `settle`.
            let status = unsafe { link.handle.begin(operations, raw) };
            link.watch.shared().begin();
            link.settle(status.unwrap_or(ncclResult_t::IN_PROGRESS), self.limit)
        });
        let queued = queued.and_then(|queued| {
            if queued == Queued::Now && self.device.is_cuda() {
                link.watch.shared().queued(stream.record()?);
            }
            Ok(())
        });
        queued.map_err(|trouble| self.error(&named.to_string(), trouble))
    }

    fn error(&self, operation: &str, trouble: Trouble) -> CollectiveError {
        let (operation, rank, size) = (operation.to_owned(), self.rank, self.size);
        match trouble {
            Trouble::Device(source) => {
                CollectiveError::Device { operation, rank, size, source: Box::new(source) }
            }
            Trouble::Failure(Failure::Lost(lost)) => CollectiveError::Lost { operation, rank, size, lost },
            Trouble::Failure(Failure::TimedOut) => {
                CollectiveError::TimedOut { operation, rank, size, limit: self.limit }
            }
            Trouble::Nccl(status) => {
                let status = self
                    .link
                    .as_ref()
                    .map_or_else(|| status.to_string(), |link| link.handle.describe(status));
                CollectiveError::Nccl { operation, rank, size, status }
            }
        }
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator(rank {} of {} on {})", self.rank, self.size, self.device.residence())
    }
}
