//! The number of images per training step.

use std::fmt;
use std::num::{IntErrorKind, NonZero};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The images in a batch, 1 to `u32::MAX`. Only the last batch of an epoch may have fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u32")]
pub struct BatchSize(NonZero<u32>);

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
    /// There are none, or too many for a kernel to count.
    pub fn new(images: u64) -> Result<BatchSize, String> {
        let images = u32::try_from(images).map_err(|_| too_large())?;
        NonZero::new(images).map(BatchSize).ok_or_else(|| "a batch needs at least 1 image".to_owned())
    }

    /// Checks that a data set of `images` training images has at least one whole batch.
    ///
    /// # Errors
    /// It has fewer.
    pub fn check(self, images: usize) -> Result<(), String> {
        if self.get() <= images {
            return Ok(());
        }
        let [is, plural] = if images == 1 { ["is", ""] } else { ["are", "s"] };
        Err(format!("there {is} only {images} training image{plural}; choose at most {images}"))
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

fn too_large() -> String {
    format!("a batch has at most {} images", u32::MAX)
}

impl FromStr for BatchSize {
    type Err = String;

    fn from_str(text: &str) -> Result<BatchSize, String> {
        match text.parse::<u64>() {
            Ok(images) => BatchSize::new(images),
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => Err(too_large()),
            Err(_) => {
                Err(format!("the number of images in a batch must be whole, such as {}", BatchSize::DEFAULT))
            }
        }
    }
}

impl TryFrom<u64> for BatchSize {
    type Error = String;

    fn try_from(images: u64) -> Result<BatchSize, String> {
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
        assert!(BatchSize::new(0).is_err() && BatchSize::new(1 << 32).is_err());
        let texts = ["0", "18446744073709551616", "", "-1", "many", "1.5"];
        assert!(texts.iter().all(|text| text.parse::<BatchSize>().is_err()));
        let problem = serde_json::from_str::<BatchSize>("0").unwrap_err().to_string();
        assert!(problem.contains("at least 1 image"), "{problem}");
    }

    #[test]
    fn it_is_written_as_it_is_read() {
        let batch_size = "20".parse::<BatchSize>().unwrap();
        assert_eq!(serde_json::to_string(&batch_size).unwrap(), "20");
        assert_eq!(batch_size.to_string(), "20");
        assert_eq!(batch_size.check(20), Ok(()));
        batch_size.check(19).unwrap_err();
        assert_eq!([0, 1, 20, 21, 40].map(|images| batch_size.steps(images)), [0, 1, 1, 2, 2]);
        assert_eq!([20, 39, 40].map(|images| batch_size.images_of_epoch(images, true)), [20, 20, 40]);
        assert_eq!(batch_size.images_of_epoch(39, false), 39);
    }
}
