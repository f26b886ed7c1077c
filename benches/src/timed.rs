//! Timed launches, on sets of operands that leave the cache cold, and random operands.

use ferrowarp::device::{Device, DeviceError};
use ferrowarp_cases::reference::Number;

use crate::rotation::Rotation;

/// Minimum size of all sets together, in units of the L2 cache.
const CACHES: usize = 4;
/// Maximum number of sets.
const MOST_SETS: usize = 256;
/// Seconds per batch.
pub(crate) const BATCH: f64 = 10e-3;

/// Launches that are ready to be timed.
pub trait Timed {
    /// Seconds of one launch, over a batch of launches that take about 10 ms.
    ///
    /// # Errors
    /// A launch failed.
    fn time(&mut self) -> Result<f64, DeviceError>;
    /// Sets of matrices that the launches rotate through.
    fn sets(&self) -> usize;
    /// The error of the checked results: the root mean square of the differences over that of the results.
    fn relative_error(&self) -> f64;
}

/// Launches on sets of `S`.
struct Batches<S> {
    device: Device,
    rotation: Rotation<Vec<S>>,
    launches: u64,
    sets: usize,
    relative_error: f64,
}

impl<S: Send + 'static> Timed for Batches<S> {
    fn time(&mut self) -> Result<f64, DeviceError> {
        Ok(self.rotation.time(&self.device, self.launches)?.as_secs_f64() / self.launches as f64)
    }

    fn sets(&self) -> usize {
        self.sets
    }

    fn relative_error(&self) -> f64 {
        self.relative_error
    }
}

/// Normally distributed numbers from a seed: the same for all contenders, since data changes a GPU's power.
pub(crate) fn normal<T: Number>(len: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 + 0.5) / (1u64 << 24) as f32
    };
    // Repeats a block of numbers: computing all of a large matrix would take longer than timing it.
    let block: Vec<T> = (0..len.min(1 << 20))
        .map(|_| T::nearest((-2.0 * uniform().ln()).sqrt() * (std::f32::consts::TAU * uniform()).cos()))
        .collect();
    (0..len).map(|i| block[(i + i / block.len() * 7919) % block.len()]).collect()
}

/// The number of sets of `bytes` bytes that leave the L2 cache cold when launches rotate through them.
pub(crate) fn count_of_sets(device: &Device, bytes: usize) -> Result<usize, DeviceError> {
    Ok(device.l2_bytes()?.map_or(1, |cache| (CACHES * cache).div_ceil(bytes).clamp(2, MOST_SETS)))
}

/// A launch that rotates through the sets, ready to be timed. Its results have been checked, with this error.
pub(crate) fn timed<S: Send + 'static>(
    device: &Device,
    sets: Vec<S>,
    launch: impl Fn(&mut S) -> Result<(), DeviceError> + Send + Sync + 'static,
    relative_error: f64,
) -> Result<Box<dyn Timed>, DeviceError> {
    let count = sets.len();
    let mut rotation = Rotation::new(device, sets, launch)?;
    let once = rotation.time(device, 1)?.as_secs_f64();
    let launches = (BATCH / once.max(1e-7)).ceil() as u64;
    Ok(Box::new(Batches { device: device.clone(), rotation, launches, sets: count, relative_error }))
}
