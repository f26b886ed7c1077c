//! Errors of a network.

use std::io;

use cuda_std::launch::LaunchError;

use super::precision::Precision;
use ferrowarp_data::DataError;
use ferrowarp_device::device::DeviceError;

/// Why a network could not be created, trained or evaluated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A sample could not be decoded.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The thread that decodes batches could not be started.
    #[error("could not start a thread that decodes batches; the pipeline deferred needs none")]
    Thread(#[source] io::Error),
    /// The samples are on the host, but the pipeline reads them from the device's memory.
    #[error("the pipeline {pipeline} cannot take samples from the host; upload them to the device first")]
    OnHost {
        /// The pipeline.
        pipeline: String,
    },
    /// There are no kernels for this precision.
    #[error("cannot train with the precision {precision}: {why}; {cure}")]
    Precision {
        /// The precision.
        precision: Precision,
        /// Why not.
        why: String,
        /// What to do instead.
        cure: String,
    },
    /// Several devices cannot train the network together.
    #[error("training on several devices failed: {why}")]
    Parallel {
        /// Why not, and the fix.
        why: String,
    },
    /// Two sizes or values disagree.
    #[error("{what} is {got}, expected {expected}")]
    Mismatch {
        /// The size or value.
        what: &'static str,
        /// Its actual value.
        got: usize,
        /// The value that it must have.
        expected: usize,
    },
    /// A size is zero, or larger than a kernel can count.
    #[error("{what} is {got}; it must be between 1 and {max}")]
    OutOfRange {
        /// What is out of range.
        what: &'static str,
        /// Its value.
        got: usize,
        /// The largest allowed.
        max: usize,
    },
}

impl From<LaunchError> for ModelError {
    fn from(error: LaunchError) -> Self {
        ModelError::Device(error.into())
    }
}

impl From<ModelError> for DeviceError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Device(error) => error,
            other => LaunchError::Device(Box::new(other)).into(),
        }
    }
}

/// Converts `value` to a nonzero `u32` for a kernel.
pub(super) fn to_u32(what: &'static str, value: usize) -> Result<u32, ModelError> {
    match u32::try_from(value) {
        Ok(small) if small > 0 => Ok(small),
        _ => Err(ModelError::OutOfRange { what, got: value, max: u32::MAX as usize }),
    }
}

/// Checks that two sizes agree.
pub(super) fn expect(what: &'static str, got: usize, expected: usize) -> Result<(), ModelError> {
    if got == expected { Ok(()) } else { Err(ModelError::Mismatch { what, got, expected }) }
}
