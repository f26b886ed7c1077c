//! Every kernel of a training step as a safe function: it checks the shapes against the buffers, chooses the grid and
//! launches the kernel. The file of the same name one folder up has their order.

pub(super) mod batch;
pub(super) mod fused;
pub(super) mod naive;
pub(super) mod resident;
pub(super) mod short;
mod tile;

use std::ops::Deref;

use cuda_std::launch::{KernelCall, LaunchError, Launcher};

use mlp_kernels::operand::Operands;

use super::error::{ModelError, to_u32};
use super::precision::Precision;
use ferrowarp_device::device::{Buffer, Device};

/// The launcher for the fused kernels, and the kernels' operand type.
#[derive(Clone, Copy)]
pub(in crate::model) struct Queue<'a> {
    pub device: &'a Device,
    /// Whether a launch may begin before the previous one has ended; each of these kernels waits for its end.
    pub is_programmatic: bool,
    /// The type to which matrix multiplication operands are rounded.
    pub operands: Operands,
}

impl<'a> Queue<'a> {
    /// Makes a launcher that runs launches one after the other.
    pub fn new(device: &'a Device, precision: Precision) -> Self {
        Self { device, is_programmatic: false, operands: precision.operands() }
    }
}

impl Deref for Queue<'_> {
    type Target = Device;

    fn deref(&self) -> &Device {
        self.device
    }
}

impl Launcher for Queue<'_> {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        let mut config = call.config;
        config.programmatic_stream_serialization |= self.is_programmatic;
        let call = KernelCall { config, ..*call };
        // SAFETY: the caller's contract is the callee's.
        unsafe { self.device.submit(&call) }
    }
}

/// The shape of a linear layer applied to a batch with one sample per row.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct Shape {
    pub rows: u32,
    pub inputs: u32,
    pub outputs: u32,
}

impl Shape {
    pub fn new(rows: u32, inputs: usize, outputs: usize) -> Result<Self, ModelError> {
        Ok(Self {
            rows,
            inputs: to_u32("number of inputs", inputs)?,
            outputs: to_u32("number of outputs", outputs)?,
        })
    }
}

/// A layer's parameters on the device. The velocities are empty without momentum.
#[derive(Debug)]
pub(in crate::model) struct Layer {
    pub inputs: usize,
    pub outputs: usize,
    pub weights: Buffer<f32>,
    pub biases: Buffer<f32>,
    pub weight_velocity: Buffer<f32>,
    pub bias_velocity: Buffer<f32>,
}

impl Layer {
    /// Checks that the buffers hold these shapes; the velocities only with momentum.
    fn need(&self, inputs: u32, outputs: u32, momentum: f32) -> Result<(), ModelError> {
        let velocities = u64::from(momentum != 0.0);
        need(&[
            ("length of the weights", self.weights.len(), area(inputs, outputs)),
            ("length of the biases", self.biases.len(), outputs.into()),
            (
                "length of the weights' velocity",
                self.weight_velocity.len(),
                velocities * area(inputs, outputs),
            ),
            ("length of the biases' velocity", self.bias_velocity.len(), velocities * u64::from(outputs)),
        ])
    }
}

/// Checks that each named buffer holds at least as many elements as its shape.
fn need(sizes: &[(&'static str, usize, u64)]) -> Result<(), ModelError> {
    for &(what, len, needed) in sizes {
        if (len as u64) < needed {
            return Err(ModelError::Refused(format!("{what} is {len}, expected {needed}")));
        }
    }
    Ok(())
}

fn area(rows: u32, cols: u32) -> u64 {
    u64::from(rows) * u64::from(cols)
}
