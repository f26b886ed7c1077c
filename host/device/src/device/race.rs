//! Work on two streams that may run at the same time and touches the same bytes.

use std::fmt;
use std::ops::Range;

/// Two pieces of work on two streams of a device touch the same bytes, at least one of them writes, and no event orders the
/// second after the first. The second was not queued.
///
/// ```
/// use cuda_std::launch::LaunchConfig;
/// use cuda_std::{kernel, thread};
/// use ferrowarp::device::{Device, DeviceError};
///
/// /// # Safety
/// /// A thread for each element.
/// #[kernel]
/// pub unsafe fn increment(out: *mut u32) {
///     unsafe { *out.add(thread::index_1d() as usize) += 1 };
/// }
///
/// let device = Device::cpu();
/// let (first, second) = (device.stream()?, device.stream()?);
/// let mut counts = device.alloc_zeroed::<u32>(32)?;
/// let one = LaunchConfig::new(1, 32);
/// unsafe { increment::launch(&first, one, &mut counts)? };
/// let error: DeviceError = unsafe { increment::launch(&second, one, &mut counts) }.unwrap_err().into();
/// let DeviceError::Unordered(race) = &error else { panic!("{error}") };
/// assert_eq!((race.first.stream, race.second.stream), (first.number(), second.number()));
///
/// second.wait(&first.record()?)?; // The second now comes after the first.
/// unsafe { increment::launch(&second, one, &mut counts)? };
/// assert_eq!(counts.to_vec()?, [2; 32]);
/// # Ok::<(), DeviceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataRace {
    /// The earlier work, which was queued.
    pub first: StreamAccess,
    /// The later work, which was refused.
    pub second: StreamAccess,
}

/// One side of a [`DataRace`].
///
/// ```
/// use ferrowarp::device::{Device, DeviceError};
///
/// let device = Device::cpu();
/// let (first, second) = (device.stream()?, device.stream()?);
/// let mut buffer = device.alloc_zeroed::<u32>(8)?;
/// let upload = first.upload(device.alloc_pinned(4)?, buffer.view_mut(4..)?)?;
/// let error = second.download(&buffer, device.alloc_pinned(8)?).unwrap_err();
/// let DeviceError::Unordered(race) = error else { panic!("{error}") };
/// assert_eq!((race.first.is_write, race.first.bytes), (true, 0..16));
/// assert_eq!((race.second.is_write, race.second.bytes), (false, 16..32));
/// # upload.wait()?;
/// # Ok::<(), DeviceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamAccess {
    /// The work that touches the bytes.
    pub work: StreamWork,
    /// The [number](super::Stream::number) of its stream.
    pub stream: u32,
    /// The kernel's parameter, or the field of its struct; empty for a copy.
    pub argument: &'static str,
    /// Whether it may write the bytes.
    pub is_write: bool,
    /// The bytes that both touch, counted from the start of this argument or of the copied memory.
    pub bytes: Range<usize>,
}

/// A piece of work on a stream.
///
/// ```
/// use ferrowarp::device::StreamWork;
///
/// assert_eq!(StreamWork::Launch("saxpy").to_string(), "launch of saxpy");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamWork {
    /// A launch of this kernel, on its own or in a graph.
    Launch(&'static str),
    /// A copy from page-locked memory to the device.
    Upload,
    /// A copy from the device to page-locked memory.
    Download,
    /// A copy between buffers or an operation between GPUs, with its name.
    Other(&'static str),
}

impl fmt::Display for StreamWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamWork::Launch(kernel) => write!(f, "launch of {kernel}"),
            StreamWork::Upload => f.write_str("upload"),
            StreamWork::Download => f.write_str("download"),
            StreamWork::Other(operation) => f.write_str(operation),
        }
    }
}

/// A stream, displayed as messages name it.
pub(super) struct Named(pub u32);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("the default stream"),
            number => write!(f, "stream {number}"),
        }
    }
}

impl StreamAccess {
    /// Writes the bytes and what they belong to.
    fn write_place(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.bytes;
        match self.argument {
            "" => write!(f, "bytes {start}..{end} of its buffer"),
            argument => write!(f, "bytes {start}..{end} of its argument `{argument}`"),
        }
    }
}

impl std::error::Error for DataRace {}

impl fmt::Display for DataRace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, second } = self;
        let (before, now) = (Named(first.stream), Named(second.stream));
        let verb = |access: &StreamAccess| if access.is_write { "write" } else { "read" };
        write!(f, "{} on {now} failed: it would {} ", second.work, verb(second))?;
        second.write_place(f)?;
        write!(f, ", which the {} on {before} may still {}, as ", first.work, verb(first))?;
        first.write_place(f)?;
        write!(
            f,
            "; record an event on {before} after the {} and let {now} wait for it before the {}: \
             `second.wait(&first.record()?)?`",
            first.work, second.work
        )
    }
}
