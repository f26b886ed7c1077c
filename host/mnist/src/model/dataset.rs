//! The samples for training and evaluation.

use std::sync::Arc;

use super::error::{ModelError, expect, to_u32};
use crate::BatchSize;
use ferrowarp_data::{CLASSES, Samples};
use ferrowarp_device::device::{Buffer, Device};

/// Images and labels on a device, as u8. Clones share the memory.
#[derive(Clone, Debug)]
pub struct DeviceDataset {
    pub(super) images: Arc<Buffer<u8>>,
    pub(super) labels: Arc<Buffer<u8>>,
    pub(super) samples: usize,
    pub(super) features: usize,
    pub(super) classes: usize,
}

/// The training samples.
#[derive(Debug)]
pub enum TrainingSet<'a> {
    /// In the device's memory.
    OnDevice(DeviceDataset),
    /// On the host: each batch is decoded and copied while the device trains on the previous one. For pipelines with one
    /// kernel per operation.
    OnHost(&'a Samples),
}

impl From<DeviceDataset> for TrainingSet<'_> {
    fn from(dataset: DeviceDataset) -> Self {
        TrainingSet::OnDevice(dataset)
    }
}

impl TrainingSet<'_> {
    /// Number of samples.
    pub fn len(&self) -> usize {
        self.extents()[0]
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Samples, features and classes.
    pub(super) fn extents(&self) -> [usize; 3] {
        match self {
            TrainingSet::OnDevice(data) => data.extents(),
            TrainingSet::OnHost(samples) => [samples.len(), samples.features(), CLASSES],
        }
    }
}

impl DeviceDataset {
    /// Copies `images` (`[samples, features]`, one byte per pixel) and `labels` (`[samples]`, each below `classes`) to
    /// `device`.
    ///
    /// # Errors
    /// There are no samples, features or classes, sizes disagree, a label is out of range, or memory is lacking.
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
            return Err(ModelError::out_of_range(
                "a label, counted from 1,",
                usize::from(label) + 1,
                classes,
            ));
        }
        let (images, labels) = (Arc::new(device.upload(images)?), Arc::new(device.upload(labels)?));
        Ok(DeviceDataset { images, labels, samples, features, classes })
    }

    /// Same as the function [`samples_from`], for all samples here.
    pub(super) fn samples_from(&self, first: usize, batch_size: BatchSize) -> Result<(u32, u32), ModelError> {
        samples_from(self.samples, first, batch_size)
    }

    /// Samples, features and classes.
    pub(super) fn extents(&self) -> [usize; 3] {
        [self.samples, self.features, self.classes]
    }

    /// Whether both share the same memory.
    pub(super) fn is(&self, other: &DeviceDataset) -> bool {
        Arc::ptr_eq(&self.images, &other.images) && Arc::ptr_eq(&self.labels, &other.labels)
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.samples
    }

    /// Whether there are no samples, which [`DeviceDataset::upload`] refuses.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }
}

/// The batch that begins with sample `first` of `samples`: its first sample and its number of samples. From here on, a
/// batch's size is called `rows`. The grids depend on it.
pub(super) fn samples_from(
    samples: usize,
    first: usize,
    batch_size: BatchSize,
) -> Result<(u32, u32), ModelError> {
    let rows = batch_size.get().min(samples.saturating_sub(first));
    Ok((to_u32("sample", first + 1)? - 1, to_u32("number of samples in a batch", rows)?))
}
