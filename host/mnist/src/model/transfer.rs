//! Copies parameters and velocities to the device and back.

use super::error::{ModelError, expect, to_u32};
use super::network::Network;
use super::ops::Layer;
use super::parameters::{LayerParameters, Parameters};
use ferrowarp_device::device::{Buffer, Device};

impl Network {
    /// Copies the current parameters from the device.
    ///
    /// # Errors
    /// The device failed.
    pub fn parameters(&self) -> Result<Parameters, ModelError> {
        download(&self.core.lock().layers, |layer| (&layer.weights, &layer.biases))
    }

    /// Copies the current velocities from the device; `None` if there was no momentum yet.
    ///
    /// # Errors
    /// The device failed.
    pub fn velocities(&self) -> Result<Option<Parameters>, ModelError> {
        let core = self.core.lock();
        if !core.has_velocities() {
            return Ok(None);
        }
        download(&core.layers, |layer| (&layer.weight_velocity, &layer.bias_velocity)).map(Some)
    }

    /// Copies `velocities`, which have the shapes of the parameters, to the device. By default they start at 0.
    ///
    /// # Errors
    /// The shapes differ, or the device failed.
    pub fn set_velocities(&mut self, velocities: &Parameters) -> Result<(), ModelError> {
        self.ensure_velocities()?;
        let core = &mut *self.core.lock();
        expect("number of layers with velocities", velocities.layers.len(), core.layers.len())?;
        for (layer, velocity) in core.layers.iter_mut().zip(&velocities.layers) {
            layer.weight_velocity.copy_from(&velocity.weights)?;
            layer.bias_velocity.copy_from(&velocity.biases)?;
        }
        Ok(())
    }
}

/// Copies the two buffers that `pick` selects from each layer, as weights and biases.
fn download(
    layers: &[Layer],
    pick: impl Fn(&Layer) -> (&Buffer<f32>, &Buffer<f32>),
) -> Result<Parameters, ModelError> {
    let layers = layers.iter().map(|layer| {
        let (weights, biases) = pick(layer);
        Ok(LayerParameters {
            inputs: layer.inputs,
            outputs: layer.outputs,
            weights: weights.to_vec()?,
            biases: biases.to_vec()?,
        })
    });
    Ok(Parameters { layers: layers.collect::<Result<_, ModelError>>()? })
}

/// Copies a layer's parameters to `device`, without velocities.
pub(super) fn upload_layer(device: &Device, layer: &LayerParameters) -> Result<Layer, ModelError> {
    let LayerParameters { inputs, outputs, weights, biases } = layer;
    to_u32("number of a layer's inputs", *inputs)?;
    to_u32("number of a layer's outputs", *outputs)?;
    expect("number of a layer's weights", weights.len(), inputs * outputs)?;
    expect("number of a layer's biases", biases.len(), *outputs)?;
    Ok(Layer {
        inputs: *inputs,
        outputs: *outputs,
        weights: device.upload(weights)?,
        biases: device.upload(biases)?,
        weight_velocity: device.alloc_zeroed(0)?,
        bias_velocity: device.alloc_zeroed(0)?,
    })
}
