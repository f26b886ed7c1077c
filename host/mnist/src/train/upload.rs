//! Puts data sets where the network reads them.

use super::TrainError;
use crate::model::{DeviceDataset, ModelError, Pipeline, TrainingSet};
use ferrowarp_data::{CLASSES, Dataset, Samples};
use ferrowarp_device::device::Device;

/// Returns the samples where the pipeline reads them: on the device or on the host.
pub(super) fn training_set<'a>(
    device: &Device,
    samples: &'a Samples,
    pipeline: Pipeline,
) -> Result<TrainingSet<'a>, TrainError> {
    if pipeline == Pipeline::Overlapped {
        return Ok(TrainingSet::OnHost(samples));
    }
    Ok(upload(device, &*samples.to_dataset().map_err(ModelError::from)?)?.into())
}

pub(super) fn upload(device: &Device, dataset: &Dataset) -> Result<DeviceDataset, TrainError> {
    let features = dataset.features();
    Ok(DeviceDataset::upload(device, &dataset.images, &dataset.labels, features, CLASSES)?)
}
