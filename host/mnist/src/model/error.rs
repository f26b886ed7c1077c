//! Errors of a network.

use std::fmt::Display;
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
    /// The network, its data, the device or the other ranks do not suit the training: what is wrong, and the fix.
    #[error("{0}")]
    Refused(String),
}

impl ModelError {
    /// There are no kernels for this precision.
    pub(super) fn precision(precision: Precision, why: impl Display, cure: impl Display) -> Self {
        ModelError::Refused(format!("cannot train with the precision {precision}: {why}; {cure}"))
    }

    /// Several devices cannot train the network together.
    pub(super) fn parallel(why: impl Display) -> Self {
        ModelError::Refused(format!("training on several devices failed: {why}"))
    }

    /// A size is zero, or larger than a kernel can count.
    pub(super) fn out_of_range(what: &str, got: usize, max: usize) -> Self {
        ModelError::Refused(format!("{what} is {got}; it must be between 1 and {max}"))
    }
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
pub(super) fn to_u32(what: &str, value: usize) -> Result<u32, ModelError> {
    match u32::try_from(value) {
        Ok(small) if small > 0 => Ok(small),
        _ => Err(ModelError::out_of_range(what, value, u32::MAX as usize)),
    }
}

/// Checks that two sizes agree.
pub(super) fn expect(what: &str, got: usize, expected: usize) -> Result<(), ModelError> {
    if got == expected {
        Ok(())
    } else {
        Err(ModelError::Refused(format!("{what} is {got}, expected {expected}")))
    }
}
