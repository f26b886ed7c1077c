//! The arguments and the launch of the kernel on the host.

use cuda_std::launch::{LaunchConfig, RawBuffer};

use super::{RowsHost, SAMPLE, THREADS};
use crate::state::StepState;

/// [`Rows`](super::Rows) as the host passes it: with `RawBuffer`s instead of pointers.
pub type RowsLaunch = RowsHost<
    RawBuffer<f32>,
    RawBuffer<u32>,
    RawBuffer<f32>,
    RawBuffer<f32>,
    RawBuffer<f32>,
    RawBuffer<f32>,
    RawBuffer<f32>,
    RawBuffer<f32>,
    RawBuffer<f32>,
    RawBuffer<f32>,
    RawBuffer<f32>,
    RawBuffer<f32>,
    RawBuffer<f32>,
    RawBuffer<u32>,
    RawBuffer<StepState>,
>;

/// Returns the launch for `rows` rows and a next batch of `samples`.
pub fn config(rows: u32, samples: u32) -> LaunchConfig {
    LaunchConfig::new(rows + samples.div_ceil((THREADS / SAMPLE) as u32), THREADS as u32)
}
