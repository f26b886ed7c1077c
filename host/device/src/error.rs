//! The error of all operations.

use std::fmt;

use cuda_std::launch::{LaunchError, Residence};

use crate::device::error::DeviceError;
use crate::tensor::layout::Shape;

/// Why an operation was refused or failed: which one, which of its operands, and what is wrong with it.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Kind, Softmax, Tensor};
///
/// let device = Device::cpu();
/// let logits = Tensor::<f32>::zeros(&device, [2, 3])?;
/// let mut out = Tensor::<f32>::zeros(&device, [3, 2])?;
/// let error = Softmax::new().run_into(&device, &mut out, &logits).unwrap_err();
/// assert_eq!((error.operation(), error.operand()), (Some("softmax"), Some("output")));
/// assert!(matches!(error.kind(), Kind::Shape { .. }));
/// assert_eq!(error.to_string(), "softmax failed: the output has the shape [3, 2]; it needs [2, 3]");
/// # Ok::<(), Error>(())
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    operation: Option<&'static str>,
    operand: Option<&'static str>,
    kind: Kind,
}

/// What is wrong; its text continues a sentence that begins with the operand.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Kind, TensorView};
///
/// let buffer = Device::cpu().upload(&[1.0f32; 5]).unwrap();
/// let error = TensorView::new(&buffer, [2, 3]).unwrap_err();
/// assert!(matches!(error.kind(), Kind::TooShort { len: 5, needed: Some(6), .. }));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Kind {
    /// The operand has another shape.
    #[error("has the shape {got}; it needs {rule}{}{expected}", if rule.is_empty() { "" } else { " " })]
    Shape {
        /// Its shape.
        got: Shape,
        /// The shape that it is compared with.
        expected: Shape,
        /// How it must compare: `""` for the same shape.
        rule: &'static str,
    },
    /// The operand has too few or too many axes.
    #[error("has the shape {got}; it needs {needs}")]
    Rank {
        /// Its shape.
        got: Shape,
        /// What it needs.
        needs: &'static str,
    },
    /// A view ends before the last element of a tensor.
    #[error(
        "of shape {shape} with strides of {strides:?} does not fit a view of {len} elements; it needs {}",
        needed.map_or_else(|| "more than an address space has".to_owned(), |needed| needed.to_string())
    )]
    TooShort {
        /// The tensor's shape.
        shape: Shape,
        /// Its strides.
        strides: Vec<usize>,
        /// Elements of the view.
        len: usize,
        /// Elements that the view needs; `None` if an address space has fewer.
        needed: Option<usize>,
    },
    /// The strides of the operand do not fit.
    #[error(
        "has the shape {shape} and strides of {strides:?}; it needs {needs} (`Cast` copies between layouts)"
    )]
    Strides {
        /// The operand's shape.
        shape: Shape,
        /// Its strides.
        strides: Vec<usize>,
        /// What it needs.
        needs: &'static str,
    },
    /// There is no such axis.
    #[error("of shape {shape} has no axis {axis}; its axes are 0 to {}", shape.len() - 1)]
    Axis {
        /// The axis asked for.
        axis: usize,
        /// The tensor's shape.
        shape: Shape,
    },
    /// A range is not within its axis.
    #[error("of shape {shape} has no indices {start}..{end} of axis {axis}; they end at {}", shape[*axis])]
    Range {
        /// The axis.
        axis: usize,
        /// The range's start.
        start: usize,
        /// The range's end.
        end: usize,
        /// The tensor's shape.
        shape: Shape,
    },
    /// The operand's address or strides are not multiples of the bytes that the operation needs.
    #[error("is not aligned; it needs {needs}")]
    Alignment {
        /// What the operand needs.
        needs: &'static str,
    },
    /// The operand lives in the memory of another device, or of the same device opened a second time, which is not in order with
    /// this one.
    #[error(
        "belongs to another `Device`, in the memory of {at}; allocate it on the same device or a clone of it"
    )]
    OtherDevice {
        /// Where it lives.
        at: Residence,
        /// Where the operation was to run.
        device: Residence,
    },
    /// An extent is larger than the kernels can count.
    #[error("{value} {what} are too many; at most {most} are possible, so split the problem")]
    TooLarge {
        /// Which extent.
        what: &'static str,
        /// The extent.
        value: usize,
        /// The largest one.
        most: usize,
    },
    /// An option is out of range, or does not fit another one.
    #[error("{option}; {needs}")]
    Option {
        /// The option and its value.
        option: String,
        /// What it needs.
        needs: &'static str,
    },
    /// The device has no kernel for it.
    #[error("{what}; {needs}")]
    Unsupported {
        /// What it lacks.
        what: String,
        /// What helps.
        needs: &'static str,
    },
    /// The device failed, or refused the launch.
    #[error(transparent)]
    Device(DeviceError),
}

impl Error {
    /// The operation that failed; `None` for a device or the making of a view.
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// The operand that does not fit, if it is one.
    pub fn operand(&self) -> Option<&'static str> {
        self.0.operand
    }

    /// What is wrong.
    pub fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// Names the operation and its operand.
    #[doc(hidden)]
    pub fn of(self, operation: &'static str, operand: Option<&'static str>) -> Self {
        let Inner { kind, .. } = *self.0;
        Self(Box::new(Inner { operation: Some(operation), operand, kind }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { operation, operand, kind } = &*self.0;
        if let Kind::Device(error) = kind {
            return error.fmt(f);
        }
        if let Some(operation) = operation {
            write!(f, "{operation}")?;
            match kind {
                Kind::OtherDevice { device, .. } => write!(f, " on {device} failed: ")?,
                _ => write!(f, " failed: ")?,
            }
        }
        match operand {
            Some(operand) => write!(f, "the {operand} ")?,
            None if matches!(
                kind,
                Kind::Option { .. } | Kind::TooLarge { .. } | Kind::Unsupported { .. }
            ) => {}
            None => write!(f, "a tensor ")?,
        }
        kind.fmt(f)
    }
}

/// The message, so that a program whose `main` returns it ends with that.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.kind() {
            Kind::Device(error) => error.source(),
            _ => None,
        }
    }
}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Self {
        Self(Box::new(Inner { operation: None, operand: None, kind }))
    }
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        Kind::Device(error).into()
    }
}

impl From<LaunchError> for Error {
    fn from(error: LaunchError) -> Self {
        DeviceError::from(error).into()
    }
}

impl From<Error> for DeviceError {
    fn from(error: Error) -> Self {
        match *error.0 {
            Inner { kind: Kind::Device(error), .. } => error,
            inner => DeviceError::Work(Box::new(Error(Box::new(inner)))),
        }
    }
}
