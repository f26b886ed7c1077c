//! A data set in device memory.

use super::error::{ModelError, expect, to_u32};
use crate::BatchSize;
use ferrowarp::device::{Buffer, Device};

/// Images and labels on a device, as u8.
#[derive(Debug)]
pub struct DeviceDataset {
    pub(super) images: Buffer<u8>,
    pub(super) labels: Buffer<u8>,
    pub(super) samples: usize,
    pub(super) features: usize,
    pub(super) classes: usize,
}

impl DeviceDataset {
    /// Copies `images` (`[samples, features]`, a pixel a byte) and `labels` (`[samples]`, each less than
    /// `classes`) to `device`.
    ///
    /// # Errors
    /// No samples, features or classes, sizes that disagree, a label out of range, or no memory.
    pub fn upload(
        device: &Device,
        images: &[u8],
        labels: &[u8],
        features: usize,
        classes: usize,
    ) -> Result<DeviceDataset, ModelError> {
        let samples = labels.len();
        to_u32("number of samples", samples)?;
        to_u32("number of features", features)?;
        to_u32("number of classes", classes)?;
        expect("number of pixels", images.len(), samples * features)?;
        if let Some(&label) = labels.iter().find(|&&label| usize::from(label) >= classes) {
            return Err(ModelError::OutOfRange {
                what: "a label, counted from 1,",
                got: usize::from(label) + 1,
                max: classes,
            });
        }
        let (images, labels) = (device.upload(images)?, device.upload(labels)?);
        Ok(DeviceDataset { images, labels, samples, features, classes })
    }

    /// The samples of the batch that begins with the sample `first`: its number, and how many they are.
    pub(super) fn samples_from(&self, first: usize, batch_size: BatchSize) -> Result<(u32, u32), ModelError> {
        let rows = batch_size.get().min(self.samples.saturating_sub(first));
        Ok((to_u32("sample", first + 1)? - 1, to_u32("number of samples in a batch", rows)?))
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.samples
    }

    /// Whether there are none, which [`DeviceDataset::upload`] refuses.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }
}
