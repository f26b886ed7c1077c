//! The data that the launches of a step work on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::activations::Activations;
use super::epoch::DeviceRates;
use super::error::ModelError;
use super::ops::Layer;
use super::ops::short::Short;
use super::results::Results;
use ferrowarp_device::device::Device;

/// The layers, the buffers of a batch, losses and hits, and learning rates.
#[derive(Debug)]
pub(super) struct Core {
    pub layers: Vec<Layer>,
    pub training: Activations,
    pub results: Results,
    /// Only the fused pipelines use this.
    pub rates: DeviceRates,
    /// Set if a fused step takes three launches.
    pub short: Option<Short>,
}

/// A [`Core`] that the network and its recorded steps share. While there are recorded steps, its buffers are not moved or
/// replaced.
#[derive(Clone, Debug)]
pub(super) struct Shared(Arc<Mutex<Core>>);

impl Shared {
    pub fn new(core: Core) -> Self {
        Self(Arc::new(Mutex::new(core)))
    }

    pub fn lock(&self) -> MutexGuard<'_, Core> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// The features of a sample, and the number of classes.
    pub fn extents(&self) -> (usize, usize) {
        let features = self.layers.first().map_or(0, |layer| layer.inputs);
        (features, self.layers.last().map_or(0, |layer| layer.outputs))
    }

    /// Whether there are velocities.
    pub fn has_velocities(&self) -> bool {
        self.layers.iter().all(|layer| !layer.weight_velocity.is_empty())
    }

    /// Adds zero velocities where there are none.
    pub fn add_velocities(&mut self, device: &Device) -> Result<(), ModelError> {
        for layer in &mut self.layers {
            if layer.weight_velocity.is_empty() {
                layer.weight_velocity = device.alloc_zeroed(layer.weights.len())?;
                layer.bias_velocity = device.alloc_zeroed(layer.biases.len())?;
            }
        }
        Ok(())
    }
}
