//! Gathers the samples of a step.

use mlp_kernels::batch;
use mlp_kernels::grid::per_sample;

use super::{area, need};
use crate::model::dataset::DeviceDataset;
use crate::model::error::{ModelError, to_u32};
use ferrowarp_device::device::{Buffer, BufferView, Device};

/// Gathers samples `first..first + rows` of an epoch, as pixels in 0..=1 and labels.
pub(in crate::model) fn shuffled_batch(
    on: &Device,
    (out, labels_out): (&mut Buffer<f32>, &mut Buffer<u32>),
    data: &DeviceDataset,
    (first, rows): (u32, u32),
    (seed, epoch): (u64, u32),
) -> Result<(), ModelError> {
    let (samples, features) = check_batch(out, labels_out, data, first, rows)?;
    // SAFETY: the rows are within the data set, and the buffers hold them, as just checked.
    unsafe {
        batch::shuffled_batch::launch(
            on,
            per_sample(rows),
            out,
            labels_out,
            &*data.images,
            &*data.labels,
            samples,
            features,
            first,
            rows,
            seed,
            epoch,
        )?;
    }
    Ok(())
}

/// Gathers samples `first..first + rows` of the data set, as pixels in 0..=1 and labels.
pub(in crate::model) fn ordered_batch(
    on: &Device,
    (out, labels_out): (&mut Buffer<f32>, &mut Buffer<u32>),
    data: &DeviceDataset,
    (first, rows): (u32, u32),
) -> Result<(), ModelError> {
    let (_, features) = check_batch(out, labels_out, data, first, rows)?;
    // SAFETY: the rows are within the data set, and the buffers hold them, as just checked.
    unsafe {
        ordered(
            on,
            (out, labels_out),
            (data.images.view(..)?, data.labels.view(..)?),
            features,
            (first, rows),
        )
    }
}

/// Converts the first `rows` samples of the batch in `from`, which has the pixels of `batch` samples and then their labels.
pub(in crate::model) fn decoded_batch(
    on: &Device,
    (out, labels_out): (&mut Buffer<f32>, &mut Buffer<u32>),
    from: &Buffer<u8>,
    (batch, features): (usize, usize),
    rows: u32,
) -> Result<(), ModelError> {
    let (pixels, features) = (batch * features, to_u32("number of features", features)?);
    need(&[
        ("length of the batch", out.len(), area(rows, features)),
        ("length of the batch's labels", labels_out.len(), rows.into()),
        ("number of samples of a batch", batch, rows.into()),
        ("length of the decoded batch", from.len(), (pixels + batch) as u64),
    ])?;
    // SAFETY: the rows are within the batch, and the buffers hold them, as just checked.
    unsafe {
        ordered(on, (out, labels_out), (from.view(..pixels)?, from.view(pixels..)?), features, (0, rows))
    }
}

/// # Safety
/// The rows are within the images and labels, and the outputs have room for them.
unsafe fn ordered(
    on: &Device,
    (out, labels_out): (&mut Buffer<f32>, &mut Buffer<u32>),
    (images, labels): (BufferView<'_, u8>, BufferView<'_, u8>),
    features: u32,
    (first, rows): (u32, u32),
) -> Result<(), ModelError> {
    let config = per_sample(rows);
    // SAFETY: the caller's contract; there is a block for each sample.
    unsafe {
        batch::ordered_batch::launch(on, config, out, labels_out, images, labels, features, first, rows)?;
    }
    Ok(())
}

fn check_batch(
    out: &Buffer<f32>,
    labels_out: &Buffer<u32>,
    data: &DeviceDataset,
    first: u32,
    rows: u32,
) -> Result<(u32, u32), ModelError> {
    let samples = to_u32("number of samples", data.samples)?;
    let features = to_u32("number of features", data.features)?;
    need(&[
        ("length of the batch", out.len(), area(rows, features)),
        ("length of the batch's labels", labels_out.len(), rows.into()),
        ("number of samples", data.samples, u64::from(first) + u64::from(rows)),
    ])?;
    Ok((samples, features))
}
