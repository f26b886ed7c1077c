//! Steps of the fused pipeline, recorded once and queued many times with one call each.

use super::core::Shared;
use super::dataset::DeviceDataset;
use super::error::to_u32;
use super::fused;
use super::ops::Queue;
use super::ops::fused::Next;
use super::precision::Setup;
use ferrowarp_device::device::{Device, DeviceError, Graph};

/// The most steps in a graph: with three layers, one call queues up to 320 launches. What the host does between steps waits
/// at most this long.
const MOST_STEPS: usize = 64;

/// Recorded steps. They begin with the last gathered batch and gather the one after their last. Which batches these are is
/// in device memory, so one graph serves every epoch.
#[derive(Debug)]
pub(super) struct Recorded {
    graph: Graph<Shared>,
    /// Even, because each step swaps the two batch buffers, and they must end as they began.
    steps: usize,
    data: DeviceDataset,
    has_momentum: bool,
}

impl Recorded {
    /// How many of the next `steps` steps to record, if any: few launches of equal length, with few steps left over.
    pub fn steps_of(steps: usize) -> Option<usize> {
        let rounds = steps.div_ceil(MOST_STEPS).max(1);
        Some(steps / (2 * rounds) * 2).filter(|&steps| steps > 0)
    }

    /// Records steps on `data`. All their kernels must have been launched before.
    pub fn new(
        device: &Device,
        core: &Shared,
        data: &DeviceDataset,
        setup: Setup,
        momentum: f32,
        steps: usize,
    ) -> Result<Self, DeviceError> {
        let is_swapped = core.lock().training.ahead.is_swapped;
        let record = |is_programmatic| {
            let (on, of) = (device.clone(), data.clone());
            let graph = device.record(core.clone(), move |_, core: &mut Shared| {
                let (core, queue) =
                    (&mut *core.lock(), Queue { is_programmatic, ..Queue::new(&on, setup.precision) });
                let rows = to_u32("batch size", setup.batch_size.get())?;
                let next = Next { data: &of, rows };
                (0..steps).try_for_each(|_| fused::step(queue, core, next, momentum, rows))
            });
            // A failed recording may have left them swapped.
            let training = &mut core.lock().training;
            if training.ahead.is_swapped != is_swapped {
                training.swap();
            }
            graph
        };
        // Drivers before CUDA 12.3 cannot record launches that begin before the previous one has ended.
        let graph = record(true).or_else(|_| record(false))?;
        Ok(Self { graph, steps, data: data.clone(), has_momentum: momentum != 0.0 })
    }

    /// Whether it was recorded for this data and momentum, and is not too short for `steps` steps.
    pub fn suits(&self, data: &DeviceDataset, momentum: f32, steps: usize) -> bool {
        let is_long = Self::steps_of(steps).is_none_or(|wanted| wanted <= 2 * self.steps);
        self.data.is(data) && self.has_momentum == (momentum != 0.0) && is_long
    }

    /// The number of steps.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Queues the steps.
    pub fn launch(&mut self) -> Result<(), DeviceError> {
        self.graph.launch()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_even_and_leave_little() {
        assert_eq!(
            [0, 1, 2, 3, 31, 64, 65].map(Recorded::steps_of).map(Option::unwrap_or_default),
            [0, 0, 2, 2, 30, 64, 32]
        );
        for steps in 2..5000 {
            let of_round = Recorded::steps_of(steps).unwrap();
            assert!(of_round.is_multiple_of(2) && of_round <= MOST_STEPS);
            assert!(steps % of_round < 2 * steps.div_ceil(MOST_STEPS), "{steps}: {of_round}");
        }
    }
}
