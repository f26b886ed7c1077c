//! The number of images per training step.

use std::fmt;
use std::num::{IntErrorKind, NonZero};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The images in a batch, 1 to `u32::MAX`. Only the last batch of an epoch may have fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u32")]
pub struct BatchSize(NonZero<u32>);

/// Why a batch size is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchSizeError {
    /// A batch would be empty.
    #[error("a batch needs at least 1 image")]
    Zero,
    /// A kernel could not count the images.
    #[error("a batch has at most {} images", u32::MAX)]
    TooLarge,
    /// A batch would be larger than the data set.
    #[error(
        "there {} only {images} training image{}; choose at most {images}",
        if *images == 1 { "is" } else { "are" }, if *images == 1 { "" } else { "s" }
    )]
    OverData {
        /// The number of training images.
        images: usize,
    },
    /// The text is not a whole number.
    #[error("the number of images in a batch must be whole, such as {}", BatchSize::DEFAULT)]
    NoNumber,
}

impl BatchSize {
    /// The default batch size.
    pub const DEFAULT: BatchSize = BatchSize::constant(64);

    /// The batch size for evaluation.
    pub(crate) const EVALUATION: BatchSize = BatchSize::constant(512);

    const fn constant(images: u32) -> BatchSize {
        BatchSize(NonZero::new(images).expect("a batch needs at least 1 image"))
    }

    /// Makes a batch size of `images` images.
    ///
    /// # Errors
    /// [`BatchSizeError::Zero`] or [`BatchSizeError::TooLarge`].
    pub fn new(images: u64) -> Result<BatchSize, BatchSizeError> {
        let images = u32::try_from(images).map_err(|_| BatchSizeError::TooLarge)?;
        NonZero::new(images).map(BatchSize).ok_or(BatchSizeError::Zero)
    }

    /// Checks that a data set of `images` training images has at least one whole batch.
    ///
    /// # Errors
    /// [`BatchSizeError::OverData`].
    pub fn check(self, images: usize) -> Result<(), BatchSizeError> {
        if self.get() > images { Err(BatchSizeError::OverData { images }) } else { Ok(()) }
    }

    /// The number of images.
    pub fn get(self) -> usize {
        self.0.get() as usize
    }

    /// The number of images in an epoch, out of `images`: without those of a short last batch if it is dropped.
    pub fn images_of_epoch(self, images: usize, drop_last: bool) -> usize {
        if drop_last { images - images % self.get() } else { images }
    }

    /// The number of steps for the first `images` images of an epoch.
    pub fn steps(self, images: usize) -> u64 {
        images.div_ceil(self.get()) as u64
    }
}

impl FromStr for BatchSize {
    type Err = BatchSizeError;

    fn from_str(text: &str) -> Result<BatchSize, BatchSizeError> {
        match text.parse::<u64>() {
            Ok(images) => BatchSize::new(images),
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => Err(BatchSizeError::TooLarge),
            Err(_) => Err(BatchSizeError::NoNumber),
        }
    }
}

impl TryFrom<u64> for BatchSize {
    type Error = BatchSizeError;

    fn try_from(images: u64) -> Result<BatchSize, BatchSizeError> {
        BatchSize::new(images)
    }
}

impl From<BatchSize> for u32 {
    fn from(batch_size: BatchSize) -> u32 {
        batch_size.0.get()
    }
}

impl fmt::Display for BatchSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_are_none_are_refused() {
        assert_eq!(BatchSize::new(0), Err(BatchSizeError::Zero));
        assert_eq!("0".parse::<BatchSize>(), Err(BatchSizeError::Zero));
        assert_eq!(BatchSize::new(1 << 32), Err(BatchSizeError::TooLarge));
        assert_eq!("18446744073709551616".parse::<BatchSize>(), Err(BatchSizeError::TooLarge));
        for text in ["", "-1", "many", "1.5"] {
            assert_eq!(text.parse::<BatchSize>(), Err(BatchSizeError::NoNumber), "{text}");
        }
        let problem = serde_json::from_str::<BatchSize>("0").unwrap_err().to_string();
        assert!(problem.contains("at least 1 image"), "{problem}");
    }

    #[test]
    fn it_is_written_as_it_is_read() {
        let batch_size = "20".parse::<BatchSize>().unwrap();
        assert_eq!(serde_json::to_string(&batch_size).unwrap(), "20");
        assert_eq!(batch_size.to_string(), "20");
        assert_eq!(batch_size.check(20), Ok(()));
        assert_eq!(batch_size.check(19), Err(BatchSizeError::OverData { images: 19 }));
        assert_eq!([0, 1, 20, 21, 40].map(|images| batch_size.steps(images)), [0, 1, 1, 2, 2]);
        assert_eq!([20, 39, 40].map(|images| batch_size.images_of_epoch(images, true)), [20, 20, 40]);
        assert_eq!(batch_size.images_of_epoch(39, false), 39);
    }
}
