//! The errors that a test finds.

use core::error::Error;
use core::fmt;

use super::Layout;
use super::tolerance::Difference;
use crate::launch::LaunchError;
use crate::simt::Place;
use crate::simt::watch::Whose;

/// One run of a test's kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Run {
    /// On the CPU executor, in its fixed order.
    Cpu,
    /// On the CPU executor, in the order of this seed.
    Seeded(u64),
    /// On the device of this name.
    Device(String),
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Run::Cpu => f.write_str("on the CPU"),
            Run::Seeded(seed) => {
                write!(f, "on the CPU under schedule seed {seed:#x} (replay with FERROWARP_SEED={seed:#x})")
            }
            Run::Device(name) => write!(f, "on {name}"),
        }
    }
}

/// The other side of a comparison of results.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Against {
    /// The test's expectation.
    Expectation,
    /// The results of the first run, which is on the CPU.
    FirstRun,
}

impl fmt::Display for Against {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Against::Expectation => "the expectation",
            Against::FirstRun => "the first run on the CPU",
        })
    }
}

/// The thread at fault, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The kernel; several if it may have been any of them.
    pub kernels: Vec<&'static str>,
    /// Block and thread; `None` on a device, or if the access did not occur in a second run.
    pub place: Option<Place>,
}

impl From<Whose> for Origin {
    fn from(whose: Whose) -> Self {
        Self { kernels: vec![whose.kernel], place: Some(whose.place) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}", self.kernels.join(" or "))?;
        self.place.map_or(Ok(()), |place| write!(f, ", {place}"))
    }
}

/// A kernel's access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// It read.
    Read,
    /// It wrote.
    Write,
    /// One of the two.
    Unknown,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Write => "wrote to",
            Access::Unknown => "accessed",
        })
    }
}

/// Why a test of a kernel fails.
///
/// `Debug` writes the words of `Display` and of the causes, so that a test that returns this error shows them.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TestError {
    /// A launch was refused, or a kernel broke a rule of the CUDA model or panicked.
    #[error("the launch {run} failed")]
    Launch {
        /// Where.
        run: Run,
        /// What.
        source: LaunchError,
    },
    /// The device failed.
    #[error("{run}: {what} `{buffer}` failed")]
    Device {
        /// Where.
        run: Run,
        /// The failed operation.
        what: &'static str,
        /// The buffer's name.
        buffer: String,
        /// The device's error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Results are over their tolerance.
    #[error("`{buffer}` of {origin} {run} differs from {against}: {difference}")]
    Mismatch {
        /// The output's name.
        buffer: String,
        /// Where.
        run: Run,
        /// The launched kernels.
        origin: Box<Origin>,
        /// The other side of the comparison.
        against: Against,
        /// The difference.
        difference: Box<Difference>,
    },
    /// A kernel wrote beyond a buffer, or read far beyond it.
    #[error(
        "{run} {origin} {access} byte {byte} of `{buffer}`, which has {len} bytes; compare the index with the length \
         first"
    )]
    OutOfBounds {
        /// The buffer's name.
        buffer: String,
        /// Where.
        run: Run,
        /// The thread.
        origin: Box<Origin>,
        /// What.
        access: Access,
        /// The offset of the first such byte from the buffer's start; negative before it.
        byte: isize,
        /// Bytes of the buffer.
        len: usize,
    },
    /// A kernel wrote between the rows of a buffer.
    #[error(
        "{run} {origin} wrote to byte {byte} of `{buffer}`, between its rows; compare the column with the columns first"
    )]
    BetweenRows {
        /// The buffer's name.
        buffer: String,
        /// Where.
        run: Run,
        /// The thread.
        origin: Box<Origin>,
        /// The offset of the first such byte from the start of the first row.
        byte: usize,
    },
    /// No kernel wrote an element that should be written.
    #[error("{run} nothing wrote element {index} of `{buffer}`; make the grid cover it, or initialise it")]
    Unwritten {
        /// The buffer's name.
        buffer: String,
        /// Where.
        run: Run,
        /// The first such element, not counting gaps between rows.
        index: usize,
    },
    /// A kernel changed an input.
    #[error("{run} {origin} changed the input `{buffer}` at byte {byte}; make it an output if it should")]
    InputChanged {
        /// The input's name.
        buffer: String,
        /// Where.
        run: Run,
        /// The thread.
        origin: Box<Origin>,
        /// The first byte that changed.
        byte: usize,
    },
    /// The elements do not fit the layout.
    #[error(
        "`{buffer}` cannot have {len} elements as {} rows of {} columns, one every {} elements; expected rows * \
         columns elements and a stride of at least the columns",
        layout.rows, layout.cols, layout.stride
    )]
    Layout {
        /// The buffer's name.
        buffer: String,
        /// Elements of the buffer.
        len: usize,
        /// The layout.
        layout: Layout,
    },
    /// The expectation is for another number of elements.
    #[error("`{buffer}` has {len} elements, but {expected} are expected")]
    Length {
        /// The output's name.
        buffer: String,
        /// Elements of the output.
        len: usize,
        /// Elements of the expectation.
        expected: usize,
    },
}

impl fmt::Debug for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
