//! Launches on sets of operands that leave the cache cold: checked, and ready to be timed.

use anyhow::ensure;
use ferrowarp::device::{Device, DeviceError};
use ferrowarp_cases::compare::{Bound, compare};
use ferrowarp_cases::reference::Number;

/// Minimum size of all sets together, in units of the L2 cache.
const CACHES: usize = 4;
/// Maximum number of sets. If they do not fill the cache, launches are so small that cold and warm make no difference.
const MOST_SETS: usize = 1000;
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
    fn sets(&self) -> usize {
        1
    }
    /// Launches that are recorded together.
    fn launches(&self) -> usize {
        1
    }
    /// The error of the checked results: the root mean square of the differences over that of the results; 0 if it is not
    /// reported.
    fn relative_error(&self) -> f64 {
        0.0
    }
    /// At most `most` other kernels that can do the problem, with the seconds of a launch.
    ///
    /// # Errors
    /// A launch failed.
    fn others(&mut self, _most: usize) -> anyhow::Result<Vec<(String, f64)>> {
        Ok(Vec::new())
    }
}

/// A launch that is ready to be timed, and its kernels.
pub type Prepared = (Box<dyn Timed>, String);

/// The number of sets of `bytes` bytes that leaves the cache cold; on the CPU one.
///
/// # Errors
/// They take over a third of the free memory, or the device failed.
pub fn count_of_sets(device: &Device, bytes: usize) -> anyhow::Result<usize> {
    let (Some(l2), Some(free)) = (device.l2_bytes()?, device.free_bytes()?) else { return Ok(1) };
    let count = (CACHES * l2).div_ceil(bytes.max(1)).clamp(2, MOST_SETS);
    ensure!(count * bytes <= free / 3, "{count} sets of {bytes} bytes are over a third of {free} free");
    Ok(count)
}

/// Compares results with their bounds. Returns the root mean square of the differences over that of the results.
///
/// # Errors
/// A result is wrong.
pub fn check<T: Number>(name: &str, got: &[T], bounds: &[Bound]) -> anyhow::Result<f64> {
    let got: Vec<f64> = got.iter().map(|x| x.value().into()).collect();
    compare(name, &got, bounds)?;
    let differences = got.iter().zip(bounds).map(|(got, bound)| got - bound.value);
    Ok((squares(differences) / squares(bounds.iter().map(|bound| bound.value))).sqrt())
}

fn squares(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.map(|x| x * x).sum()
}

/// Normally distributed numbers from a seed: the same for all contenders, since data changes a GPU's power.
pub(crate) fn normal<T: Number>(len: usize, seed: u64) -> Vec<T> {
    let mut uniform = uniform(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    // Repeats a block of numbers: computing all of a large matrix would take longer than timing it.
    let block: Vec<T> = (0..len.min(1 << 20))
        .map(|_| T::nearest((-2.0 * uniform().ln()).sqrt() * (std::f32::consts::TAU * uniform()).cos()))
        .collect();
    (0..len).map(|i| block[(i + i / block.len() * 7919) % block.len()]).collect()
}

/// Random numbers between 0 and 1: xorshift64 (Marsaglia 2003).
pub(crate) fn uniform(mut state: u64) -> impl FnMut() -> f32 {
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 + 0.5) / (1u64 << 24) as f32
    }
}
