//! What all operations check.

use bytemuck::Pod;
use cuda_std::launch::{LaunchConfig, Limits, RawBuffer};

use ferrowarp_device::device::{Device, Queue};
use ferrowarp_device::error::{Error, Kind};
use ferrowarp_device::tensor::{Operand, Rows, Shape, Tensor, TensorView, TensorViewMut};

/// The most rows, columns and elements that most kernels count.
pub(crate) const MOST: usize = i32::MAX as usize;

/// An operation that is about to be queued.
#[derive(Clone, Copy)]
pub(crate) struct Operation<'a> {
    pub name: &'static str,
    pub device: &'a Device,
}

impl<'a> Operation<'a> {
    pub fn new(name: &'static str, queue: &'a impl Queue) -> Self {
        Self { name, device: queue.device() }
    }

    /// The error that something is wrong with an operand.
    pub fn refuse(&self, operand: &'static str, kind: Kind) -> Error {
        Error::from(kind).of(self.name, Some(operand))
    }

    /// The error that an option is out of range.
    pub fn refuse_option(&self, option: String, needs: &'static str) -> Error {
        Error::from(Kind::Option { option, needs }).of(self.name, None)
    }

    /// Refuses an operand of another shape or on another device.
    pub fn check(
        &self,
        operand: &'static str,
        view: &impl Operand,
        shape: impl Into<Shape>,
    ) -> Result<(), Error> {
        let (got, expected) = (view.layout().shape(), shape.into());
        if got != expected {
            return Err(self.refuse(operand, Kind::Shape { got, expected, rule: "" }));
        }
        self.check_device(operand, view)
    }

    /// Refuses an operand on another device.
    pub fn check_device(&self, operand: &'static str, view: &impl Operand) -> Result<(), Error> {
        let at = view.device();
        if self.device.is_in_order_with(at) {
            return Ok(());
        }
        Err(self.refuse(operand, Kind::OtherDevice { at: at.residence(), device: self.device.residence() }))
    }

    /// An operand as a matrix.
    pub fn rows(&self, operand: &'static str, view: &impl Operand) -> Result<Rows, Error> {
        view.layout().rows().map_err(|error| error.of(self.name, Some(operand)))
    }

    /// An operand of this shape, on this device, as a matrix.
    pub fn matrix(
        &self,
        operand: &'static str,
        view: &impl Operand,
        shape: impl Into<Shape>,
    ) -> Result<Rows, Error> {
        self.check(operand, view, shape)?;
        self.rows(operand, view)
    }

    /// Refuses a vector of another length, on another device, or with gaps.
    pub fn vector(&self, operand: &'static str, view: &impl Operand, len: usize) -> Result<(), Error> {
        self.check(operand, view, [len])?;
        self.dense(operand, view)
    }

    /// Refuses an operand with gaps.
    pub fn dense(&self, operand: &'static str, view: &impl Operand) -> Result<(), Error> {
        if view.layout().is_dense() {
            return Ok(());
        }
        Err(view.layout().unfit("elements without gaps").of(self.name, Some(operand)))
    }

    /// The extents of an operand with this number of axes.
    pub fn extents<const RANK: usize>(
        &self,
        operand: &'static str,
        view: &impl Operand,
    ) -> Result<[usize; RANK], Error> {
        let got = view.layout().shape();
        let needs = ["1 axis", "2 axes", "3 axes", "4 axes"][RANK - 1];
        (*got).try_into().map_err(|_| self.refuse(operand, Kind::Rank { got, needs }))
    }

    /// Refuses a vector without one element for each of the `rows` rows of a tensor of this shape: of the shape without its last
    /// axis, or of one axis.
    pub fn per_row(
        &self,
        operand: &'static str,
        view: &impl Operand,
        shape: Shape,
        rows: usize,
    ) -> Result<(), Error> {
        if view.layout().shape() == shape.without_last() && view.layout().is_dense() {
            return self.check_device(operand, view);
        }
        self.vector(operand, view, rows)
    }

    /// An extent as the kernels count it.
    pub fn count(&self, what: &'static str, value: usize, most: usize) -> Result<u32, Error> {
        let fits = u32::try_from(value).ok().filter(|_| value <= most);
        fits.ok_or_else(|| Error::from(Kind::TooLarge { what, value, most }).of(self.name, None))
    }
}

/// The memory for a result of an input of shape `of`: zeros if no kernel runs, because the input has no elements.
pub(crate) fn result<T: Pod>(
    queue: &impl Queue,
    shape: impl Into<Shape>,
    of: Shape,
) -> Result<Tensor<T>, Error> {
    if of.contains(&0) { Tensor::zeros(queue, shape) } else { Tensor::unwritten(queue, shape) }
}

/// The error that no kernel runs on a GPU of this compute capability, times ten.
pub(crate) fn no_kernel(operation: &'static str, capability: u32, needs: &'static str) -> Error {
    let (major, minor) = (capability / 10, capability % 10);
    let what = format!("there is no kernel for a GPU of compute capability {major}.{minor}");
    Error::from(Kind::Unsupported { what, needs }).of(operation, None)
}

/// The elements of an operand as a launch argument; null for `None`.
pub(crate) fn read<T: Pod>(view: &Option<TensorView<'_, T>>) -> RawBuffer<T> {
    view.as_ref().map_or(RawBuffer::NULL, TensorView::raw)
}

/// The elements of an output as a launch argument; null for `None`.
pub(crate) fn written<T: Pod>(view: &mut Option<TensorViewMut<'_, T>>) -> RawBuffer<T> {
    view.as_mut().map_or(RawBuffer::NULL, TensorViewMut::raw)
}

/// The most bytes of a matrix whose launch begins before the one before it has ended. For a larger matrix that saves less time
/// than it costs: the blocks are spread less evenly over the multiprocessors.
pub(crate) const MOST_EARLY_BYTES: usize = 3 << 20;

/// Lets the launch for a matrix begin early if it is small. The kernel waits for the earlier work.
pub(crate) fn early(config: LaunchConfig, rows: u32, row_bytes: usize) -> LaunchConfig {
    if row_bytes.saturating_mul(rows as usize) <= MOST_EARLY_BYTES {
        config.with_programmatic_stream_serialization()
    } else {
        config
    }
}

/// Whether a row is a whole number of 16-byte vectors and every row of each buffer, with its stride, starts at a multiple of
/// 16 bytes.
pub(crate) fn is_aligned<T>(cols: usize, buffers: &[(RawBuffer<T>, usize)]) -> bool {
    is_multiple_of_16::<T>(cols) && starts_aligned(buffers)
}

/// Whether all rows of each buffer, with its stride, start at multiples of 16 bytes.
pub(crate) fn starts_aligned<T>(buffers: &[(RawBuffer<T>, usize)]) -> bool {
    buffers
        .iter()
        .all(|(buffer, stride)| buffer.pointer.addr().is_multiple_of(16) && is_multiple_of_16::<T>(*stride))
}

/// Whether the bytes of `elements` are a multiple of 16. The stride of a single row, or the length of no row, may be more
/// elements than an address space has bytes; wrapping does not change the remainder.
fn is_multiple_of_16<T>(elements: usize) -> bool {
    elements.wrapping_mul(size_of::<T>()).is_multiple_of(16)
}

/// Kernels in the order of preference: on a CPU, first those that take any shape.
pub(crate) fn in_order<K>(
    limits: &Limits,
    wide: impl Iterator<Item = K> + Clone,
    special: impl Iterator<Item = K>,
) -> impl Iterator<Item = K> {
    let [first, last] = [limits.runs_cpu_only, !limits.runs_cpu_only].map(|is| is.then(|| wide.clone()));
    first.into_iter().flatten().chain(special).chain(last.into_iter().flatten())
}
