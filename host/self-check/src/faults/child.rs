//! The process that fails.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use ferrowarp::device::{Device, DeviceError};
use ferrowarp_mnist::checkpoint::{self, Training};
use ferrowarp_mnist::model::{LayerParameters, Parameters};
use ferrowarp_mnist::{BatchSize, LrSchedule};

use super::table::{self, Fault};

/// Prefix of an error other than the fault's own.
pub const AFTERWARDS: &str = "afterwards ";

/// Writes a checkpoint of values from device memory, provokes the fault, and returns its error.
///
/// # Errors
/// Always: the fault's own error, or one that begins with [`AFTERWARDS`] if the device then misbehaves.
pub fn provoke(fault: &Fault, device: Device, checkpoint: &Path) -> Result<()> {
    let device = device.with_time_limit(table::TIME_LIMIT);
    table::is_in_order(&device)?;
    let (parameters, training) = trained();
    checkpoint::save(checkpoint, &through(&device, &parameters)?, &training)?;

    // Memory that a program holds when its device fails.
    let _held = device.upload(&[1.0f32; 1000])?;
    let Err(first) = (fault.provoke)(&device) else { bail!("{AFTERWARDS}nothing had happened") };
    let stays = match (&fault.cpu, device.is_cuda()) {
        (_, true) => fault.gpu.stays,
        (Ok(expected), false) => expected.stays,
        (Err(_), false) => false,
    };
    if stays {
        for later in
            [device.synchronize(), table::is_in_order(&device), device.alloc_zeroed::<u8>(1).map(drop)]
        {
            is_told_again(&first, later)?;
        }
    } else if let Err(later) = table::is_in_order(&device) {
        bail!("{AFTERWARDS}the device was unusable: {later}; the fault was: {first}");
    }
    Err(first.into())
}

fn is_told_again(first: &DeviceError, later: Result<(), DeviceError>) -> Result<()> {
    let Err(later) = later else { bail!("{AFTERWARDS}the device went on; the fault was: {first}") };
    let is_faulted = matches!(later, DeviceError::Faulted { .. });
    // A fault that a drop encounters is reported by the next call.
    let (told, first) = (later.to_string(), first.fault().map(ToString::to_string).unwrap_or_default());
    ensure!(
        is_faulted && told.contains(&first),
        "{AFTERWARDS}the next call said: {told}; the fault was: {first}"
    );
    Ok(())
}

/// Weights that look trained, and their description for a checkpoint.
pub fn trained() -> (Parameters, Training) {
    let sizes = [12, 7, 3];
    let training = Training {
        sizes: sizes.to_vec(),
        seed: 5,
        epochs: 2,
        batch_size: BatchSize::DEFAULT,
        drop_last: false,
        lr: 0.25,
        lr_decay: 0.5,
        lr_schedule: LrSchedule::Exponential,
        lr_warmup: 0.0,
        momentum: 0.125,
        label_smoothing: 0.0,
        pipeline: "fused".to_owned(),
        precision: "f32".to_owned(),
    };
    (Parameters::init(&sizes, training.seed), training)
}

/// Copies the weights to the device and back.
fn through(device: &Device, parameters: &Parameters) -> Result<Parameters, DeviceError> {
    let travel = |values: &[f32]| device.upload(values)?.to_vec();
    let layer = |layer: &LayerParameters| {
        Ok(LayerParameters { weights: travel(&layer.weights)?, biases: travel(&layer.biases)?, ..*layer })
    };
    Ok(Parameters { layers: parameters.layers.iter().map(layer).collect::<Result<_, DeviceError>>()? })
}
